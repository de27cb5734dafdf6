"""External libraries by the traces that they leave in diagnostics: missing headers, undefined symbols."""

from __future__ import annotations

import functools
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TABLE = Path(__file__).with_name("libraries.toml")
_MISSING_HEADER = re.compile(r"fatal error: '([^']+)' file not found")
_ABSENT = re.compile(r"unable to find library -l(\S+)")
_UNDEFINED = re.compile(r"undefined (?:symbol|reference)[^:]*: (?:`|')?([^\n'`]+)")
# Words of the linker that name parts of every system or of our own runtime: nothing is missing for them.
PRESENT = re.compile(
    r"(?:m|pthread|dl|rt|c|stdc\+\+|stdc\+\+fs|gcc|gcc_s|amdhip64|hip_hcc|hiprtc|hip::.*|Threads::.*)$"
)


@dataclass(frozen=True)
class Library:
    name: str
    gpu: bool
    header: re.Pattern[str]
    link: re.Pattern[str] | None


@functools.cache
def libraries() -> tuple[Library, ...]:
    rows: list[dict[str, Any]] = tomllib.loads(TABLE.read_text())["library"]
    return tuple(
        Library(
            row["name"],
            bool(row.get("gpu")),
            re.compile(row["header"]),
            re.compile(row["link"], re.IGNORECASE) if "link" in row else None,
        )
        for row in rows
    )


def library_of_header(name: str) -> Library | None:
    return next((library for library in libraries() if library.header.match(name)), None)


def library_of_link(name: str) -> Library | None:
    plain = name.rpartition("::")[2]
    return next(
        (entry for entry in libraries() if entry.link and (entry.link.fullmatch(name) or entry.link.fullmatch(plain))),
        None,
    )


def missing_header(diagnostics: str) -> str:
    """The first header that the compiler did not find, or ""."""
    match = _MISSING_HEADER.search(diagnostics)
    return match.group(1) if match else ""


def absent_libraries(diagnostics: str) -> list[str]:
    """Libraries that the linker was told to use and did not find, by their names after -l."""
    return list(dict.fromkeys(_ABSENT.findall(diagnostics)))


def undefined_symbols(diagnostics: str) -> list[str]:
    """What the linker did not find, in its order."""
    return list(dict.fromkeys(_UNDEFINED.findall(diagnostics)))
