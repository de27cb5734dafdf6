"""The process that makes copies: answers requests of `isolation`, one line of JSON each, until standard input ends."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from hipsynth.core.program import Program
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
        outcome = run_steps(ProgramSource(program.text.encode()), request["steps"], config)
        text = program.text if outcome.source is None else outcome.source.text.decode()
        result = AugmentResult((replace(program, text=text, derivation=(*program.derivation, *outcome.applied)),), ())
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
