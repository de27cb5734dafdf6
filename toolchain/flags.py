"""Checks the user's compiler flags against the allowed ones, and sorts them into device and host flags."""

from __future__ import annotations

import functools
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hipsynth.core.errors import UsageError
from hipsynth.core.reasons import Reason
from hipsynth.core.tables import read_table

TABLE = Path(__file__).with_name("flags.toml")
OPENMP = "-fopenmp"  # passed to the host side only
PATH_FLAGS = ("-isystem", "-include", "-iquote", "-idirafter")  # besides -I; the path is the next argument
_KINDS = frozenset({"codegen", "language", "files", "host", "project", "ignored"})
_HOST_KINDS = frozenset({"language", "files", "host"})
# What a value may hold, unless it is a macro or a path: no path, no list of files.
_VALUE = re.compile(r"[\w.+,=:-]*", re.ASCII)


@dataclass(frozen=True)
class AllowedFlag:
    """One allowed flag. `value`: it ends with one; `values`: patterns that the value must match (default: any word)."""

    name: str  # without the trailing *
    kind: str
    value: bool
    next: bool  # the value may be the next argument
    values: tuple[str, ...]
    doc: str

    def matches(self, word: str, following: str | None) -> int:
        """How many arguments the flag takes of `word` and the one after it; 0 if it is another flag."""
        if word == self.name and self.next:
            return 2 if following is not None and self._takes_value(following) else 0
        if self.value and word.startswith(self.name) and len(word) > len(self.name):
            return 1 if self._takes_value(word[len(self.name) :]) else 0
        return 1 if word == self.name and not self.value and not self.next else 0

    def _takes_value(self, value: str) -> bool:
        if (self.kind == "language" and self.next) or self.kind == "files":
            return bool(value)
        if not _VALUE.fullmatch(value):
            return False
        return not self.values or any(_matches_pattern(value, pattern) for pattern in self.values)


def _matches_pattern(value: str, pattern: str) -> bool:
    return value.startswith(pattern[:-1]) if pattern.endswith("*") else value == pattern


@dataclass(frozen=True)
class FlagRow:
    """A row of flags.toml, which explains these columns."""

    kind: str
    flags: tuple[str, ...]
    doc: str
    next: bool = False
    values: tuple[str, ...] = ()


@dataclass(frozen=True)
class FlagTable:
    """The content of flags.toml."""

    flag: tuple[FlagRow, ...]


@functools.cache
def allowed_flags() -> tuple[AllowedFlag, ...]:
    """The rows of flags.toml, one for each flag. Raises BadInput or ValueError for a malformed row."""
    flags = []
    for row in read_table(TABLE, FlagTable).flag:
        if row.kind not in _KINDS or not row.doc:
            raise ValueError(f"{TABLE.name}: {row}: wants a kind of {sorted(_KINDS)} and a doc")
        for text in row.flags:
            takes_value = text[-1] == "*"
            flags.append(AllowedFlag(text.removesuffix("*"), row.kind, takes_value, row.next, row.values, row.doc))
    return tuple(sorted(flags, key=lambda flag: -len(flag.name)))


@dataclass(frozen=True)
class Flags:
    """Parsed flags. `text`: as given; `device`, `host`: argument lists for the two sides."""

    text: str
    device: tuple[str, ...]
    host: tuple[str, ...]

    @property
    def allows_pch(self) -> bool:
        """Whether a precompiled header is usable: no flag affects hip_runtime.h or where includes are found."""
        return not any(word.startswith(("-D", "-U", "-I", "-i")) for word in self.device)

    @property
    def names_files(self) -> bool:
        """Whether the flags name files or folders, so that a build depends on more than the source's folder."""
        return any(word.startswith(("-I", "-i")) for word in self.device)


@functools.lru_cache(maxsize=1024)
def parse_flags(flags: str) -> Flags:
    """Splits flags like a shell and checks them.

    Raises UsageError (reason "bad_flag") naming the first flag that is not allowed, and for unbalanced quotes. Flags
    that this clang does not know are reported later, by driver.driver_commands.
    """
    device: list[str] = []
    host: list[str] = []
    for kind, group in _group_flags(flags):
        if kind == "project":
            raise _bad_flags_error(flags, f"{group[0]} is for programs of several files")
        if kind != "ignored":
            group = _join_values(group)
            device += group if kind != "host" else []
            host += group if kind in _HOST_KINDS else []
    return Flags(flags, tuple(device), tuple(host))


def check_flags(flags: str, *, files: bool = False) -> str:
    """The flags separated by single spaces; `files`: whether they may name files and folders.

    Raises UsageError naming the first flag that is not allowed.
    """
    words: list[str] = []
    for kind, group in _group_flags(flags):
        if kind == "files" and not files:
            raise _bad_flags_error(flags, f"{group[0]} names files, which a corpus cannot record")
        words += group
    if not words:
        raise UsageError("no compiler flags are given", remedy="for example -O3")
    return shlex.join(words)


def select_macro_flags(flags: str) -> tuple[str, ...]:
    """Those of compiler flags that decide what a source says: macros, and the version of the language. Raises
    UsageError as parse_flags()."""
    return tuple(word for word in parse_flags(flags).device if word.startswith(("-D", "-U", "-std=")))


def only_allowed(flags: str) -> str:
    """The allowed ones of flags that come from a build file, quoted for a shell."""
    words = shlex.split(flags)
    allowed: list[str] = []
    position = 0
    while position < len(words):
        _, length = _identify_flag(words, position)
        allowed += words[position : position + length]
        position += max(1, length)
    return shlex.join(allowed)


def split_flags(flags: str) -> list[str]:
    """The flags as a shell splits them, whether they are allowed or not. Raises UsageError for an open quote."""
    try:
        return shlex.split(flags)
    except ValueError as error:
        raise _bad_flags_error(flags, f"the flags cannot be split: {error}") from error


def _group_flags(flags: str) -> list[tuple[str, list[str]]]:
    """(kind, arguments) of each flag."""
    words = split_flags(flags)
    groups = []
    position = 0
    while position < len(words):
        kind, length = _identify_flag(words, position)
        if not length:
            raise _bad_flags_error(flags, _explain_refusal(words, position))
        groups.append((kind, words[position : position + length]))
        position += length
    return groups


def _identify_flag(words: Sequence[str], position: int) -> tuple[str, int]:
    """Kind and number of arguments of the flag at `position`; ("", 0) if it is not allowed."""
    following = words[position + 1] if position + 1 < len(words) else None
    for flag in allowed_flags():
        length = flag.matches(words[position], following)
        if length:
            return flag.kind, length
    return "", 0


def _explain_refusal(words: Sequence[str], position: int) -> str:
    word = words[position]
    if not word.startswith("-") or word == "-":
        return f"{word!r} is not a flag (files and response files are not allowed here)"
    if any(flag.name == word and flag.next for flag in allowed_flags()):
        if position + 1 == len(words):
            return f"{word} requires a value"
        return f"{word} {words[position + 1]} is not allowed"
    return f"{word!r} is not allowed: only flags that change the generated code or the source's meaning are"


def _join_values(group: list[str]) -> list[str]:
    """Normalizes `-D N=1` to `-DN=1` and `--std=` to `-std=`."""
    if group[0] in ("-D", "-U", "-I"):
        return [group[0] + group[1]]
    if group[0].startswith("--std="):
        return [group[0][1:]]
    return _separate_values(group)


def _separate_values(group: list[str]) -> list[str]:
    """Splits `-isystemDIR` and `-includeFILE` into flag and value, as the rest of the package expects them."""
    for name in PATH_FLAGS:
        if len(group) == 1 and group[0].startswith(name):
            return [name, group[0].removeprefix(name).removeprefix("=")]
    return group


def _bad_flags_error(flags: str, cause: str) -> UsageError:
    return UsageError(
        f"cannot use the compiler flags {flags!r}",
        cause=cause,
        remedy='use flags such as --flags="-O3 -ffast-math" or --flags="-O3 -DN=1024"; all allowed ones: '
        "toolchain/flags.toml",
        reason=Reason.BAD_FLAG,
    )
