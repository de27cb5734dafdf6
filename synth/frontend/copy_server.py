"""The process that makes copies: answers requests of `sandboxed_copies`, a line of JSON each, until its input ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hipsynth.core.program import Program
from hipsynth.source.parse import ParseConfig
from hipsynth.source.parse_server import read_config, serve_requests
from hipsynth.synth.frontend.comments_and_strings import Texts
from hipsynth.synth.frontend.make_copies import AugmentInput, AugmentResult, CopyFailure, rename_copies, self_contained
from hipsynth.synth.frontend.pass_input import BuildConfiguration, CompileSettings, ProgramSource
from hipsynth.synth.frontend.pipeline import run_steps


def answer_request(request: dict[str, Any]) -> dict[str, Any]:
    """The self-contained base of an item, a base after some passes, or the renamed copies of one; with the failures."""
    config = read_config(request)
    if request["do"] == "flatten":
        base = self_contained(_decode_item(request["name"], request["item"]), config)
        result = AugmentResult((), (base,)) if isinstance(base, CopyFailure) else AugmentResult((base,), ())
    elif request["do"] == "reform":
        program = Program.from_record(request["program"], request["program"]["text"])
        result = _apply_steps(request["name"], program, request["steps"], config)
    else:
        program = Program.from_record(request["program"], request["program"]["text"])
        result = rename_copies(
            request["name"], program, request["numbers"], request["seed"], config, Texts(*request["texts"])
        )
    return {
        "programs": [{"text": copy.text, "derivation": copy.derivation} for copy in result.programs],
        "failures": [(failure.copy, failure.reason, failure.message) for failure in result.failures],
        "kept": result.kept,
        "names": result.names,
    }


def _apply_steps(name: str, program: Program, steps: Sequence[str], config: ParseConfig) -> AugmentResult:
    """The program after passes; no program if one of them leaves a text that does not parse."""
    outcome = run_steps(ProgramSource(program.text.encode()), steps, config)
    if outcome.source is None:
        message = outcome.diagnostics[0].message if outcome.diagnostics else ""
        return AugmentResult((), (CopyFailure(name, 0, outcome.reason, message),))
    text, derivation = outcome.source.text.decode(), (*program.derivation, *outcome.applied)
    return AugmentResult((replace(program, text=text, derivation=derivation),), ())


def _decode_item(name: str, item: dict[str, Any]) -> AugmentInput:
    builds = tuple(
        BuildConfiguration(tuple(map(Path, files)), tuple(_decode_settings(*setting) for setting in settings))
        for files, settings in item["builds"]
    )
    return AugmentInput(name, files=builds[0].files, root=Path(item["root"]) if item["root"] else None, builds=builds)


def _decode_settings(
    defines: list[str], undefines: list[str], includes: list[str], preludes: list[str], std: str
) -> CompileSettings:
    return CompileSettings(
        tuple(defines), tuple(undefines), tuple(map(Path, includes)), tuple(map(Path, preludes)), std
    )


if __name__ == "__main__":
    serve_requests(answer_request)
