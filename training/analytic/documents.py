"""The document of `synth predict --json`, which the server's predictions are, too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from hipsynth.core.errors import CompileFailed, MissingDependency, TimeLimitReached
from hipsynth.core.program import Program, ProgramRun
from hipsynth.core.time_limit import PREDICTION_SECONDS, OutOfTime, processor_time_limit, require_time
from hipsynth.profiling.reports.documents import ProgramIdentity
from hipsynth.source.names import base_name
from hipsynth.training.analytic.predict import AnalyticPredictor, LaunchAssumptions
from hipsynth.training.models.documents import FailedExecution, PredictDocument, PredictionResult, SimulatedKernel

Asked = Sequence[tuple[str, str, str]]  # (arch, flags, device)
Otherwise = Callable[[str, str, str, str, CompileFailed], PredictionResult]
UNCOMPILED = "it does not compile: the language model's answer"


def document_of(program: Program, path: str, model: Path, results: Sequence[PredictionResult]) -> PredictDocument:
    """The document of a program's predictions by the model at `model`."""
    return PredictDocument(program=ProgramIdentity(program.id, path), model=str(model), results=tuple(results))


def raise_failure(text: str, arch: str, flags: str, device: str, failure: CompileFailed) -> PredictionResult:
    """No answer for code that does not compile."""
    raise failure


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
    abstains) or "always" adds what the simulator executes. What does not compile is answered by the trained language
    model where there is one, and else raises CompileFailed. Other errors: predict_each."""
    results = predict_each(program.text, targets, question, predictor, seconds, uncompiled_document)
    for number, result in enumerate(results):
        unsure = any(kernel.abstained for kernel in result.kernels)
        compiles = result.model == str(predictor.path)  # what does not compile has another model's answer
        if compiles and (execute == "always" or (execute == "unsure" and unsure)):
            ran = execute_for_comparison(program, result.arch, result.flags, result.device, question.arguments)
            results[number] = replace(result, executed=ran)
    return document_of(program, path, predictor.path, results)


def predict_each(
    source: str,
    targets: Asked,
    question: LaunchAssumptions,
    predictor: AnalyticPredictor,
    seconds: float,
    otherwise: Otherwise = raise_failure,
) -> list[PredictionResult]:
    """A source's predictions, one per (arch, flags, device), within `seconds` of processor time for
    all. Kernels for which there was no time say so (`reason_code` timeout); without any other, raises TimeLimitReached.
    `otherwise` answers for code that does not compile. Other errors: AnalyticPredictor.predict."""
    with processor_time_limit(seconds):
        results = [_prediction_document(source, target, question, predictor, otherwise) for target in targets]
        codes = [kernel.reason_code for result in results for kernel in result.kernels]
        if codes and all(code == TimeLimitReached.reason for code in codes):
            raise OutOfTime
    return results


def _prediction_document(
    source: str,
    target: tuple[str, str, str],
    question: LaunchAssumptions,
    predictor: AnalyticPredictor,
    otherwise: Otherwise,
) -> PredictionResult:
    try:
        require_time()
        return predictor.predict(source, *target, question).document()
    except CompileFailed as failure:
        return otherwise(source, *target, failure)
    except OutOfTime:
        return predictor.unanswered(source, *target).document()


def uncompiled_document(text: str, arch: str, flags: str, device: str, failure: CompileFailed) -> PredictionResult:
    """The language model's answer for code that does not compile; raises the failure where there is no such model, or
    no time for it."""
    from hipsynth.training.models.predict import Predictor, find_model

    try:
        predictor = Predictor.load(find_model())
        prediction = predictor.predict(text, arch, flags, device)
    except (MissingDependency, OutOfTime):
        raise failure from None
    return replace(prediction, notes=(*prediction.notes, *first_error(failure), UNCOMPILED)).document()


def first_error(failure: CompileFailed) -> list[str]:
    """What the compiler says first."""
    lines = (line.partition(" error: ")[2] for line in (failure.diagnostics or failure.cause).splitlines())
    return [f"the compiler: {line}" for line in lines if line][:1]


def execute_for_comparison(
    program: Program, arch: str, flags: str, device: str, arguments: tuple[str, ...]
) -> tuple[SimulatedKernel | FailedExecution, ...]:
    """Metrics and duration of each kernel and launch shape as the simulator executes the program: the mean over the
    launches of that shape."""
    from hipsynth.profiling.backends.protocol import Target
    from hipsynth.profiling.matrix.job import profile_program
    from hipsynth.simulator.limits import RunLimits

    chosen = program.with_runs([ProgramRun(arguments)]) if arguments else program
    result = profile_program(chosen, [Target(arch, flags, device)], "sim", RunLimits())[0]
    if result.status != "ok":
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
        )
        for record in result.launches
    )
