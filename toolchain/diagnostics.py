"""What compilers and linkers print, as typed values: the only place that reads their words."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from errno import ENOSPC

from hipsynth.core.errors import CompileFailed

_ERROR = re.compile(
    r"^(?P<file>[^\n:]+):(?P<line>\d+):(?P<column>\d+): (?:fatal )?error: (?P<message>[^\n]*)$", re.MULTILINE
)
# clang's messages for names that nothing declares
_UNDECLARED = re.compile(r"(?:use of undeclared identifier|unknown type name|no template named) '(\w+)'")
_ERROR_LINE = re.compile(r"^.*\berror: (.*)$", re.MULTILINE)
_MISSING_HEADER = re.compile(r"(?:^|fatal error: )'([^'\n]+)' file not found", re.MULTILINE)
# Names that _C_HEADERS and _CPP_HEADERS of legacy_headers declare; others, such as misspelled ones, are no reason to
# compile a program again.
_OLDER_NAME = re.compile(
    r"error: (?:use of undeclared identifier '(?:std|assert|(?:f|sn?)?printf|mem(?:cpy|set|cmp)|str\w+|u?sleep)'"
    r"|no (?:member|type|template) named '\w+' in namespace 'std')"
)
_ABSENT_LIBRARY = re.compile(r"unable to find library -l(\S+)")
_UNDEFINED = re.compile(r"undefined (?:symbol|reference)[^:]*: (?:`|')?([^\n'`]+)")
_ACROSS_FILES = re.compile(r"undefined (?:hidden|protected) symbol")
_UNKNOWN_NAME = re.compile(
    r"error: (?:use of undeclared identifier|no matching function for call to|no template named|unknown type name"
    r"|no (?:member|type|template) named) '"
)
_NO_TEXTURES = re.compile(r"error: .* is unavailable: The image/texture API not supported on the device")
_LOCAL_MEMORY = re.compile(r"local memory \((\d+)\) exceeds limit \((\d+)\) in '(.+)'\Z")
_PRECOMPILED = re.compile(r"precompiled|PCH|AST file")


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


@dataclass(frozen=True)
class LocalMemoryError:
    """A kernel, by its full name, with more bytes of static LDS than the `most` of an architecture; where its name
    stands, counted from 1."""

    file: str
    line: int
    column: int
    kernel: str
    bytes: int
    most: int


def read_local_memory_errors(diagnostics: str) -> tuple[LocalMemoryError, ...]:
    """The errors in what clang printed, if all are of this kind."""
    errors = read_compiler_errors(diagnostics)
    matches = [(error, _LOCAL_MEMORY.match(error.message)) for error in errors]
    if not all(match for _, match in matches):
        return ()
    return tuple(
        LocalMemoryError(error.file, error.line, error.column, match[3], int(match[1]), int(match[2]))
        for error, match in matches
        if match
    )


@dataclass(frozen=True)
class CompilerMessages:
    """`errors`: what each error says, without its place, and `lines`: the whole lines. `unknown_name`: a name is not
    declared. `across_files`: a symbol of the device is used that another file defines. `no_textures`: the device has
    none. `precompiled_header`: they are about a precompiled header. `disk_full`: there was no space for an output.
    `older_name`: a name is not declared that HIP's headers before release 7 declared (legacy_headers)."""

    errors: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    missing_header: str = ""
    missing_libraries: tuple[str, ...] = ()
    undefined_symbols: tuple[str, ...] = ()
    unknown_name: bool = False
    across_files: bool = False
    no_textures: bool = False
    precompiled_header: bool = False
    disk_full: bool = False
    older_name: bool = False

    @property
    def incomplete(self) -> bool:
        """Whether a file of the program seems to be missing."""
        return bool(self.missing_header or self.undefined_symbols)


def read_messages(text: str) -> CompilerMessages:
    """The facts in the messages of clang and lld, in their order."""
    matches = list(_ERROR_LINE.finditer(text))
    return CompilerMessages(
        errors=tuple(match[1].strip() for match in matches),
        lines=tuple(match[0].strip() for match in matches),
        missing_header=read_missing_header(text),
        missing_libraries=tuple(dict.fromkeys(_ABSENT_LIBRARY.findall(text))),
        undefined_symbols=tuple(dict.fromkeys(name.strip() for name in _UNDEFINED.findall(text))),
        unknown_name=bool(_UNKNOWN_NAME.search(text)),
        across_files=bool(_ACROSS_FILES.search(text)),
        no_textures=bool(_NO_TEXTURES.search(text)),
        precompiled_header=bool(_PRECOMPILED.search(text)),
        disk_full=os.strerror(ENOSPC) in text,
        older_name=bool(_OLDER_NAME.search(text)),
    )


def choose_clearer(failure: CompileFailed, with_headers: CompileFailed) -> CompileFailed:
    """Which of two failures says what is wrong: of the program as it is, or with added headers if that has fewer
    errors: names that those declare are then no mistakes."""
    before, after = (len(read_messages(error.diagnostics).errors) for error in (failure, with_headers))
    return with_headers if after < before else failure


def read_missing_header(text: str) -> str:
    """The first included file that messages of clang or libclang say is not there, "" if none does."""
    match = _MISSING_HEADER.search(text)
    return match[1] if match else ""


def replace_places(text: str, file: str, write_place: Callable[[int, int], str]) -> str:
    """Messages in which `write_place(line, column)` stands for each place FILE:LINE:COLUMN in this file."""
    place = re.compile(rf"{re.escape(file)}:(\d+):(\d+)(?=: )")
    return place.sub(lambda match: write_place(int(match[1]), int(match[2])), text)
