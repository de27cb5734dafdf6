"""The document of `synth predict --json`, which the server's predictions are, too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hipsynth.synth.core.errors import CompileFailed, Missing
from hipsynth.synth.core.kernel_names import base_name
from hipsynth.synth.core.program import Program, Run
from hipsynth.training.analytic.predict import AnalyticPredictor, Question

Asked = Sequence[tuple[str, str, str]]  # (arch, flags, device)
UNCOMPILED = "it does not compile: the language model's answer"


def document_of(program: Program, path: str, model: Path, results: list[dict[str, Any]]) -> dict[str, Any]:
    return {"program": {"id": program.id, "path": path}, "model": str(model), "results": results}


def predict_document(
    program: Program,
    path: str,
    asked: Asked,
    question: Question,
    predictor: AnalyticPredictor,
    execute: str = "never",
) -> dict[str, Any]:
    """Predictions of a program, one per (arch, flags, device). `execute`: "never", "unsure" (where the predictor
    abstains) or "always" adds what the simulator executes. What does not compile is answered by the trained language
    model where there is one, and else raises CompileFailed. Other errors: AnalyticPredictor.predict."""
    results = []
    for arch, flags, device in asked:
        try:
            found = predictor.predict(program.text, arch, flags, device, question)
        except CompileFailed as failure:
            results.append(uncompiled(program.text, arch, flags, device, failure))
            continue
        document = found.document()
        if execute == "always" or (execute == "unsure" and any(kernel.abstained for kernel in found.kernels)):
            document["executed"] = executed(program, arch, flags, device, question.arguments)
        results.append(document)
    return document_of(program, path, predictor.path, results)


def uncompiled(text: str, arch: str, flags: str, device: str, failure: CompileFailed) -> dict[str, Any]:
    """The language model's answer for code that does not compile; raises the failure where there is no such model."""
    from hipsynth.training.models.predict import Predictor, find_model

    try:
        predictor = Predictor.load(find_model())
    except Missing:
        raise failure from None
    found = predictor.predict(text, arch, flags, device)
    return replace(found, notes=(*found.notes, *first_error(failure), UNCOMPILED)).document()


def first_error(failure: CompileFailed) -> list[str]:
    """What the compiler says first."""
    lines = (line.partition(" error: ")[2] for line in (failure.diagnostics or failure.cause).splitlines())
    return [f"the compiler: {line}" for line in lines if line][:1]


def executed(program: Program, arch: str, flags: str, device: str, arguments: tuple[str, ...]) -> list[dict[str, Any]]:
    """Each kernel's metrics and duration as the simulator executes the program."""
    from hipsynth.profiling.backends.protocol import Target
    from hipsynth.profiling.matrix.job import profile_program
    from hipsynth.profiling.sim.limits import Limits

    chosen = program.with_runs([Run(arguments)]) if arguments else program
    result = profile_program(chosen, [Target(arch, flags, device)], "sim", Limits())[0]
    if result.status != "ok":
        return [{"status": result.status, "reason": result.reason, "message": result.message}]
    return [
        {"name": base_name(k.name), "metrics": dict(k.metrics), "duration_ns": k.duration_ns, "grid": list(k.grid)}
        for k in result.kernels
    ]
