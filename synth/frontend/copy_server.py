"""The process that makes copies: answers requests of `sandboxed_copies`, a line of JSON each, until its input ends."""

from __future__ import annotations

from dataclasses import replace

from hipsynth.core.program import Program
from hipsynth.source.parse import ParseConfig
from hipsynth.source.parse_server import serve_requests
from hipsynth.synth.frontend.copy_protocol import (
    CopiedText,
    CopyAnswer,
    CopyRequest,
    FlattenTask,
    ReformTask,
    RenameTask,
)
from hipsynth.synth.frontend.make_copies import AugmentInput, AugmentResult, CopyFailure, rename_copies, self_contained
from hipsynth.synth.frontend.pass_input import ProgramSource
from hipsynth.synth.frontend.pipeline import run_steps


def answer_request(request: CopyRequest) -> CopyAnswer:
    """The self-contained base of an item, a base after some passes, or the renamed copies of one; with the failures."""
    match request.task:
        case FlattenTask() as task:
            result = _flatten_item(request.name, task, request.config)
        case ReformTask() as task:
            result = _apply_steps(request.name, task, request.config)
        case RenameTask() as task:
            base = _read_base(task.program)
            result = rename_copies(request.name, base, task.numbers, task.seed, request.config, task.texts)
    return CopyAnswer.of(result)


def _read_base(program: CopiedText) -> Program:
    return Program(program.text, "handwritten", "", derivation=program.derivation)


def _flatten_item(name: str, task: FlattenTask, config: ParseConfig) -> AugmentResult:
    item = AugmentInput(name, files=task.builds[0].files, root=task.root, builds=task.builds)
    base = self_contained(item, config)
    return AugmentResult((), (base,)) if isinstance(base, CopyFailure) else AugmentResult((base,), ())


def _apply_steps(name: str, task: ReformTask, config: ParseConfig) -> AugmentResult:
    """The program after passes; no program if one of them leaves a text that does not parse."""
    program = _read_base(task.program)
    outcome = run_steps(ProgramSource(program.text.encode()), task.steps, config)
    if outcome.source is None:
        message = outcome.diagnostics[0].message if outcome.diagnostics else ""
        return AugmentResult((), (CopyFailure(name, 0, outcome.reason, message),))
    text, derivation = outcome.source.text.decode(), (*program.derivation, *outcome.applied)
    return AugmentResult((replace(program, text=text, derivation=derivation),), ())


if __name__ == "__main__":
    serve_requests(CopyRequest, answer_request)
