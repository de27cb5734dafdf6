"""The parser's process: answers requests of `isolation`, one line of JSON each, until standard input ends."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from hipsynth.synth.core.program import Program
from hipsynth.synth.frontend.parse import ParseConfig
from hipsynth.synth.frontend.vary import Item, vary


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """The copies and failures of one request."""
    config = ParseConfig(tuple(request["args"]), Path(request["cache"]), tuple(map(Path, request["include"])))
    program = request.get("program")
    item = Item(
        request["name"],
        Program.from_record(program, program["text"]) if program else None,
        tuple(map(Path, request["files"])),
        Path(request["root"]) if request["root"] else None,
    )
    made = vary(item, request["copies"], request["seed"], config)
    return {
        "programs": [
            {"text": copy.text, "lineage": copy.lineage, "derivation": copy.derivation} for copy in made.programs
        ],
        "failures": [(failure.copy, failure.reason, failure.message) for failure in made.failures],
    }


def main() -> None:
    # libclang prints on standard output in places: answers have a descriptor of their own.
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    for line in sys.stdin.buffer:
        out.write(json.dumps(answer(json.loads(line))).encode() + b"\n")
        out.flush()


if __name__ == "__main__":
    main()
