"""The document of `synth predict --json`, which the server's predictions are, too."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from hipsynth.core.errors import BadInput, CompileFailed, HipsynthError, MissingDependency, TimeLimitReached
from hipsynth.core.program import Program, ProgramRun
from hipsynth.core.reasons import Reason
from hipsynth.core.run_status import RunStatus
from hipsynth.core.time_limit import PREDICTION_SECONDS, OutOfTime, processor_time_limit, require_time
from hipsynth.profiling.preview.record import Recording
from hipsynth.profiling.preview.script_launches import preview_script, record_script
from hipsynth.profiling.reports.documents import ProgramIdentity
from hipsynth.simulator.devices import device_of
from hipsynth.source.names import base_name
from hipsynth.source.own_headers import write_in_headers
from hipsynth.training.analytic.half_written import compiled_text_of, keep_compiled_text, predict_half_written
from hipsynth.training.analytic.predict import AnalyticPredictor, LaunchAssumptions, LaunchNotes
from hipsynth.training.models.documents import FailedExecution, PredictDocument, PredictionResult, SimulatedKernel

NOT_COMPILED = FailedExecution(RunStatus.FAILED, Reason.COMPILE_FAILED, "it does not compile")
Asked = Sequence[tuple[str, str, str]]  # (arch, flags, device)


def document_of(program: Program, path: str, model: Path, results: Sequence[PredictionResult]) -> PredictDocument:
    """The document of a program's predictions by the model at `model`."""
    return PredictDocument(program=ProgramIdentity(program.id, path), model=str(model), results=tuple(results))


def predict_document(
    program: Program,
    path: str,
    targets: Asked,
    question: LaunchAssumptions,
    predictor: AnalyticPredictor,
    execute: str = "never",
    seconds: float = PREDICTION_SECONDS,
) -> PredictDocument:
    """Predictions of a program, one per (arch, flags, device). `execute`: "never", "unsure" (where the predictor
    abstains) or "always" adds what the simulator executes. Errors: predict_each."""
    if is_script_project(program):
        results = predict_script(program, path, targets, predictor, seconds)
    else:
        results = predict_each(program.text, targets, question, predictor, seconds, compiled_text_of(Path(path)))
        if all(result.source == "program" for result in results):
            keep_compiled_text(Path(path), program.text)
    for number, result in enumerate(results):
        unsure = any(kernel.abstained for kernel in result.kernels)
        if execute == "always" or (execute == "unsure" and unsure):
            target = (result.arch, result.flags, result.device)
            is_whole = result.source == "program"
            complete = _with_headers(program, question)
            ran = execute_for_comparison(complete, *target, question.arguments) if is_whole else (NOT_COMPILED,)
            results[number] = replace(result, executed=ran)
    return document_of(program, path, predictor.path, results)


def _with_headers(program: Program, question: LaunchAssumptions) -> Program:
    """The program as it can be executed: one that got a main() is no file of its folder, so its headers are put in."""
    if program.project is not None or question.project is None:
        return program
    return replace(program, text=write_in_headers(program.text, question.project.folder))


def is_script_project(program: Program) -> bool:
    """Whether the program is a Python script."""
    return program.project is not None and program.project.is_script


def predict_script(
    program: Program, path: str, targets: Asked, predictor: AnalyticPredictor, seconds: float
) -> list[PredictionResult]:
    """Predictions of the Triton kernels that a script launches, one result per (arch, flags, device), within `seconds`
    of processor time for all. Raises BadInput for a script that launches none, UsageError for an unknown device."""
    assert program.project is not None
    results = []
    with processor_time_limit(seconds):
        for arch, flags, device in targets:
            start = time.monotonic()
            table = device_of(arch, device)
            recording = record_script(program.project, table)
            if not recording.launches:
                raise _nothing_launched(path, recording)
            previews, notes = preview_script(recording, table)
            answer = predictor.predict_previews(previews, LaunchNotes(tuple(notes)), table.name, flags, start)
            results.append(answer.document())
    return results


def _nothing_launched(path: str, recording: Recording) -> HipsynthError:
    reason = recording.reason or Reason.NO_DISPATCH
    why = "" if reason is Reason.NO_DISPATCH else f": {reason.meaning}"
    kind = MissingDependency if reason is Reason.MISSING else BadInput
    return kind(f"{path} launches no kernel{why}", cause=recording.message, reason=reason)


def predict_each(
    source: str,
    targets: Asked,
    question: LaunchAssumptions,
    predictor: AnalyticPredictor,
    seconds: float,
    last_compiled: str = "",
) -> list[PredictionResult]:
    """A source's predictions, one per (arch, flags, device), within `seconds` of processor time for
    all. Kernels for which there was no time say so (`reason_code` timeout); without any other, raises TimeLimitReached.
    Code that does not compile is answered as half_written.py says; `last_compiled`: the text of the file when it did.
    Raises UsageError for an unknown arch, device or flag, BadInput for a source without a kernel."""
    with processor_time_limit(seconds):
        results = [_prediction_document(source, target, question, predictor, last_compiled) for target in targets]
        codes = [kernel.reason_code for result in results for kernel in result.kernels]
        if codes and all(code == TimeLimitReached.reason for code in codes):
            raise OutOfTime
    return results


def _prediction_document(
    source: str,
    target: tuple[str, str, str],
    question: LaunchAssumptions,
    predictor: AnalyticPredictor,
    last_compiled: str,
) -> PredictionResult:
    try:
        require_time()
        try:
            return predictor.predict(source, *target, question).document()
        except CompileFailed as failure:
            return predict_half_written(source, target, question, predictor, failure, last_compiled)
    except OutOfTime:
        return predictor.timed_out_answer(source, *target).document()


def execute_for_comparison(
    program: Program, arch: str, flags: str, device: str, arguments: tuple[str, ...]
) -> tuple[SimulatedKernel | FailedExecution, ...]:
    """Metrics and duration of each kernel and launch shape as the simulator executes the program: the mean over the
    launches of that shape."""
    from hipsynth.profiling.backends.protocol import Target
    from hipsynth.profiling.matrix.job import profile_program
    from hipsynth.simulator.limits import RunLimits

    chosen = program.with_runs([ProgramRun(arguments)]) if arguments and program.project is None else program
    result = profile_program(chosen, [Target(arch, flags, device)], "sim", RunLimits())[0]
    if result.status != RunStatus.OK:
        return (FailedExecution(result.status, result.reason, result.message),)
    return tuple(
        SimulatedKernel(
            name=base_name(record.name),
            instance=record.name,
            metrics=record.metrics,
            duration_ns=record.duration_ns,
            grid=record.grid,
            block=record.block,
            dispatches=record.dispatches,
            meta=record.meta if record.language else None,
        )
        for record in result.launches
    )
