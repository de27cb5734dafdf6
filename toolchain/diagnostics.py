"""What the compiler says of a text that it rejects, as typed values: the only place that reads its words."""

from __future__ import annotations

import re
from dataclasses import dataclass

_ERROR = re.compile(
    r"^(?P<file>[^\n:]+):(?P<line>\d+):(?P<column>\d+): (?:fatal )?error: (?P<message>[^\n]*)$", re.MULTILINE
)
# clang's messages for names that nothing declares
_UNDECLARED = re.compile(r"(?:use of undeclared identifier|unknown type name|no template named) '(\w+)'")


@dataclass(frozen=True)
class CompilerError:
    """One error; line and column (in bytes) count from 1. `undeclared`: the name that nothing declares, "" if the error
    is another."""

    file: str
    line: int
    column: int
    message: str
    undeclared: str = ""


def read_compiler_errors(diagnostics: str) -> tuple[CompilerError, ...]:
    """The errors in what clang printed, in its order."""
    return tuple(
        CompilerError(
            match["file"],
            int(match["line"]),
            int(match["column"]),
            match["message"],
            named[1] if (named := _UNDECLARED.search(match["message"])) else "",
        )
        for match in _ERROR.finditer(diagnostics)
    )
