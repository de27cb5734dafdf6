"""The parser's process: answers requests of `parse_service`, one line of JSON each, until standard input ends."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from hipsynth.core.documents import from_json, to_json
from hipsynth.source.clang import use_library
from hipsynth.source.parse import parse_source
from hipsynth.source.parse_protocol import ParseAnswer, ParseRequest, answer_with_problem, answer_with_unit

Request = TypeVar("Request")


def parse_text(request: ParseRequest) -> ParseAnswer:
    """The tokens of a text with the entities that they refer to, or why it cannot be parsed."""
    unit, problems = parse_source(request.text.encode(), request.config, definitions=True)
    return answer_with_problem(problems[0]) if unit is None else answer_with_unit(unit)


def serve_requests(kind: type[Request], answer: Callable[[Request], object]) -> None:
    """Answers each line of standard input, a request of this kind, by a document, until it ends. The program's argument
    is the libclang to use. Raises TypeError or ValueError for a line that is no such request."""
    use_library(Path(sys.argv[1]))
    # libclang prints on standard output in places: answers have a descriptor of their own.
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    for line in sys.stdin.buffer:
        out.write(json.dumps(to_json(answer(from_json(kind, json.loads(line))))).encode() + b"\n")
        out.flush()


if __name__ == "__main__":
    serve_requests(ParseRequest, parse_text)
