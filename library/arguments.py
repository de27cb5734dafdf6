"""What callers of the functions pass: words for a program, numbers, folders and limits, checked and converted."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral, Real
from pathlib import Path

from hipsynth.core.errors import UsageError

Word = str | int | float | Path
Words = Sequence[Word]
Folders = str | Path | Sequence[str | Path]
Defines = Sequence[str] | Mapping[str, str | int | float]
MOST_INTEGER = 1 << 64
MOST_SECONDS = 30 * 24 * 3600.0  # of a limit on time
# What a program's environment holds in any case: where it runs, and its device.
_SET_HERE = re.compile(r"LD_\w*|HIPSYNTH_\w*|PATH|HOME|TMPDIR|TRITON_(?:LIBHIP_PATH|CACHE_DIR)")


def list_words(keyword: str, words: Words) -> tuple[str, ...]:
    """A program's arguments as texts. Raises UsageError for one text, whose characters would be the arguments."""
    if isinstance(words, str | bytes) or not isinstance(words, Iterable):
        listed = ", ".join(repr(word) for word in words.split()) if isinstance(words, str) else repr(words)
        problem = f"{keyword}={words!r} is not a list of arguments"
        raise UsageError(problem, remedy=f"{keyword}=[{listed}]")
    return tuple(map(str, words))


def list_checks(check_args: Sequence[Words]) -> tuple[tuple[str, ...], ...]:
    """The argument lists of the small runs whose outputs are compared. Raises UsageError for one list, or a text."""
    if isinstance(check_args, str | bytes) or any(isinstance(words, str) for words in check_args):
        problem = f"check_args={check_args!r} is not a list of argument lists"
        raise UsageError(problem, remedy="give one list for each run, such as check_args=[['64'], ['100']]")
    return tuple(list_words("check_args", words) for words in check_args)


def list_defines(defines: Defines) -> tuple[str, ...]:
    """Macros as `NAME` or `NAME=VALUE`. Raises UsageError for one text, whose characters would be macros."""
    if isinstance(defines, Mapping):
        return tuple(f"{name}={value}" for name, value in defines.items())
    return list_words("defines", defines)


def list_environment(keyword: str, variables: Mapping[str, str] | None) -> tuple[tuple[str, str], ...]:
    """Variables of a program's environment. Raises UsageError for what is no name, and what is not the caller's to
    set."""
    for name, value in (variables or {}).items():
        if not name or "=" in name or "\0" in f"{name}{value}":
            raise UsageError(f"{keyword}: {name!r} is no variable's name, or holds a null byte")
        if _SET_HERE.fullmatch(name):
            raise UsageError(f"{keyword}: {name} cannot be set", cause="the sandbox or the virtual GPU needs it")
    return tuple((name, str(value)) for name, value in (variables or {}).items())


def with_defines(flags: str, defines: Sequence[str]) -> str:
    """The compiler flags, with a `-D` for each `NAME` or `NAME=VALUE` of `defines`, quoted for a shell. Raises
    UsageError for an open quote."""
    from hipsynth.toolchain.flags import split_flags

    return shlex.join([*split_flags(flags), *(f"-D{text}" for text in defines)]) if defines else flags


def list_folders(folders: Folders) -> tuple[str, ...]:
    """One folder or several, as texts; "" is none."""
    if isinstance(folders, str | Path):
        return (str(folders),) if str(folders) else ()
    return tuple(map(str, folders))


def check_values(values: Mapping[str, float] | None) -> dict[str, float]:
    """Arguments of kernels by name. Raises UsageError for what is no number, or too large for 64 bits."""
    checked: dict[str, float] = {}
    for name, number in (values or {}).items():
        if isinstance(number, Integral):
            fits = abs(int(number)) < MOST_INTEGER
            checked[name] = int(number)
        else:
            fits = isinstance(number, Real) and math.isfinite(number)
            checked[name] = float(number) if fits else 0.0
        if not fits:
            raise UsageError(f"values: {name!r} is {number!r}, which is no number", remedy='such as values={"n": 4096}')
    return checked


def check_positive(**limits: float) -> None:
    """Raises UsageError for a limit, by its keyword, that is no finite number above zero, or more than MOST_SECONDS."""
    for keyword, limit in limits.items():
        if not (isinstance(limit, Real) and math.isfinite(limit) and limit > 0):
            raise UsageError(f"{keyword}={limit!r} is no positive number", remedy=f"such as {keyword}=60")
        if keyword.endswith("_s") and limit > MOST_SECONDS:
            raise UsageError(f"{keyword}={limit!r} is over 30 days", remedy=f"such as {keyword}=60")
