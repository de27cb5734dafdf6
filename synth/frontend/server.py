"""The parser's process: answers requests of `isolation`, one line of JSON each, until standard input ends."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from hipsynth.core.program import Program
from hipsynth.synth.frontend.parse import ParseConfig, parse
from hipsynth.synth.frontend.pipeline import run
from hipsynth.synth.frontend.source import Build, Settings, Source
from hipsynth.synth.frontend.texts import Texts
from hipsynth.synth.frontend.vary import Failure, Item, Varied, renamed, self_contained


def parsed(request: dict[str, Any]) -> dict[str, Any]:
    """The tokens of a text with the entities that they refer to, or why it cannot be parsed."""
    unit, problems = parse(request["text"].encode(), _config(request))
    if unit is None:
        return {"problem": str(problems[0])}
    entities = list({entity: None for entities in unit.referents for entity in entities})
    number = {entity: i for i, entity in enumerate(entities)}
    return {
        "tokens": unit.tokens,
        "entities": [asdict(entity) for entity in entities],
        "referents": [[number[entity] for entity in found] for found in unit.referents],
    }


def _config(request: dict[str, Any]) -> ParseConfig:
    return ParseConfig(tuple(request["args"]), Path(request["cache"]), tuple(map(Path, request["include"])))


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """The self-contained base of an item, a base after some passes, or the renamed copies of one; with the failures."""
    if request["do"] == "parse":
        return parsed(request)
    config = _config(request)
    if request["do"] == "flatten":
        base = self_contained(_item(request["name"], request["item"]), config)
        made = Varied((), (base,)) if isinstance(base, Failure) else Varied((base,), ())
    elif request["do"] == "reform":
        program = Program.from_record(request["program"], request["program"]["text"])
        outcome = run(Source(program.text.encode()), request["steps"], config)
        text = program.text if outcome.source is None else outcome.source.text.decode()
        made = Varied((replace(program, text=text, derivation=(*program.derivation, *outcome.applied)),), ())
    else:
        program = Program.from_record(request["program"], request["program"]["text"])
        made = renamed(request["name"], program, request["numbers"], request["seed"], config, Texts(*request["texts"]))
    return {
        "programs": [{"text": one.text, "derivation": one.derivation} for one in made.programs],
        "failures": [(failure.copy, failure.reason, failure.message) for failure in made.failures],
        "kept": made.kept,
        "names": made.names,
    }


def _item(name: str, item: dict[str, Any]) -> Item:
    builds = tuple(
        Build(tuple(map(Path, files)), tuple(_settings(*one) for one in settings)) for files, settings in item["builds"]
    )
    return Item(name, files=builds[0].files, root=Path(item["root"]) if item["root"] else None, builds=builds)


def _settings(defines: list[str], undefines: list[str], includes: list[str], preludes: list[str], std: str) -> Settings:
    return Settings(tuple(defines), tuple(undefines), tuple(map(Path, includes)), tuple(map(Path, preludes)), std)


def main() -> None:
    # libclang prints on standard output in places: answers have a descriptor of their own.
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    for line in sys.stdin.buffer:
        out.write(json.dumps(answer(json.loads(line))).encode() + b"\n")
        out.flush()


if __name__ == "__main__":
    main()
