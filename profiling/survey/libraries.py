"""Libraries that programs may need, by the names of their headers and of what is linked."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from pathlib import Path

from hipsynth.core.tables import read_table

TABLE = Path(__file__).with_name("libraries.toml")
# Link names that every system or our own runtime provides; they are never missing.
PRESENT = re.compile(
    r"(?:m|pthread|dl|rt|c|stdc\+\+|stdc\+\+fs|gcc|gcc_s|amdhip64|hip_hcc|hiprtc|hip::.*|Threads::.*)$"
)


@dataclass(frozen=True)
class Library:
    """One row of libraries.toml. `gpu`: it runs kernels of its own; `header` and `link` are full patterns."""

    name: str
    gpu: bool
    header: re.Pattern[str]
    link: re.Pattern[str] | None


@dataclass(frozen=True)
class LibraryRow:
    """A row of libraries.toml: `header` and `link` are regular expressions; "": the library is headers only."""

    name: str
    header: str
    link: str = ""
    gpu: bool = False


@dataclass(frozen=True)
class LibraryTable:
    """The content of libraries.toml."""

    packages: tuple[str, ...]
    library: tuple[LibraryRow, ...]


@functools.cache
def _load_table() -> LibraryTable:
    return read_table(TABLE, LibraryTable)


@functools.cache
def known_libraries() -> tuple[Library, ...]:
    """All rows of libraries.toml."""
    return tuple(
        Library(row.name, row.gpu, re.compile(row.header), re.compile(row.link, re.IGNORECASE) if row.link else None)
        for row in _load_table().library
    )


def present_packages() -> str:
    """A pattern for the lower-case names of the CMake packages that every ROCm installation has."""
    gpu = [library.link.pattern.lower() for library in known_libraries() if library.gpu and library.link]
    return "|".join([*_load_table().packages, *gpu])


def library_of_header(name: str) -> Library | None:
    """The library whose header pattern matches the name in an #include, if any."""
    return next((library for library in known_libraries() if library.header.match(name)), None)


def library_of_link(name: str) -> Library | None:
    """The library that a name after -l or in target_link_libraries (such as roc::rocblas) refers to, if any."""
    plain = name.rpartition("::")[2]
    return next(
        (
            entry
            for entry in known_libraries()
            if entry.link and (entry.link.fullmatch(name) or entry.link.fullmatch(plain))
        ),
        None,
    )
