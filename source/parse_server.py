"""The parser's process: answers requests of `parse_service`, one line of JSON each, until standard input ends."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from hipsynth.source.clang import use_library
from hipsynth.source.parse import ParseConfig, parse_source


def parse_text(request: dict[str, Any]) -> dict[str, Any]:
    """The tokens of a text with the entities that they refer to, or why it cannot be parsed."""
    unit, problems = parse_source(request["text"].encode(), read_config(request), definitions=True)
    if unit is None:
        return {"problem": str(problems[0])}
    entities = list({entity: None for entities in unit.referents for entity in entities})
    number = {entity: i for i, entity in enumerate(entities)}
    return {
        "tokens": unit.tokens,
        "entities": [asdict(entity) for entity in entities],
        "referents": [[number[entity] for entity in referent] for referent in unit.referents],
        "definitions": unit.definitions,
    }


def read_config(request: dict[str, Any]) -> ParseConfig:
    """The parser settings of a request."""
    return ParseConfig(tuple(request["args"]), Path(request["cache"]), tuple(map(Path, request["include"])))


def serve_requests(answer: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Answers each line of standard input until it ends. The program's argument is the libclang to use."""
    use_library(Path(sys.argv[1]))
    # libclang prints on standard output in places: answers have a descriptor of their own.
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    for line in sys.stdin.buffer:
        out.write(json.dumps(answer(json.loads(line))).encode() + b"\n")
        out.flush()


if __name__ == "__main__":
    serve_requests(parse_text)
