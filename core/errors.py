"""The error classes: each has an exit code, and every error says what happened, why, and what to do."""

from __future__ import annotations

import difflib
import errno
import re
import traceback
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from hipsynth.core.reasons import Reason

INTERNAL_ERROR_EXIT = 1  # of a defect of hipsynth, wherever it is noticed
_SCRATCH_SOURCE = re.compile(r"(?:/[\w.+-]+)+/[0-9a-f]{8,}\.hip")  # a text, by its id


def suggest_name(name: str, known: Iterable[str]) -> str:
    """The cause of an error about an unknown name: "did you mean X?" if a known one is near it, else ""."""
    near = difflib.get_close_matches(name, list(known), 1)
    return f"did you mean {near[0]}?" if near else ""


def name_scratch_sources(text: str, file: str) -> str:
    """A message with `file` in place of the names of sources in scratch folders, which say nothing to the reader."""
    return _SCRATCH_SOURCE.sub(lambda _: file, text)


def is_disk_full(error: OSError) -> bool:
    """Whether there is no space left: on the disk, in the user's share of it, or in what one file may have."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def locate_defect(error: BaseException) -> tuple[Path, int]:
    """(file, line) where an error was raised; (Path("?"), 0) if it never was."""
    frames = traceback.extract_tb(error.__traceback__)
    return (Path(frames[-1].filename), frames[-1].lineno or 0) if frames else (Path("?"), 0)


class HipsynthError(Exception):
    """Base of every error a user may see.

    `what` went wrong, its likely `cause`, and a `remedy` (else the reason's); `reason` is the short code stored in
    corpora.
    """

    exit_code = 3
    reason: Reason = Reason.ERROR

    def __init__(self, what: str, *, cause: str = "", remedy: str = "", reason: Reason | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.cause = cause
        self.remedy = remedy or (reason.remedy if reason is not None else "")
        if reason is not None:
            self.reason = reason
        if self.reason == Reason.INTERNAL_ERROR:
            self.exit_code = INTERNAL_ERROR_EXIT

    def __str__(self) -> str:
        return self._compose_text("")

    def __reduce__(self) -> tuple[object, ...]:
        """For pickle: the error as it is, whatever its class takes to be made."""
        return _copy_error, (type(self), self.args, self.__dict__)

    def describe(self) -> str:
        """What happened, why, and what to do; of a compiler all messages, where str() has the first."""
        return str(self)

    def _compose_text(self, messages: str) -> str:
        parts = [self.what]
        if self.cause and self.cause not in messages:
            parts.append(f"  cause: {self.cause}")
        if messages:
            parts.append(messages.rstrip())
        if self.remedy:
            parts.append(f"  try:   {self.remedy}")
        return "\n".join(parts)


def _copy_error(kind: type[HipsynthError], args: tuple[object, ...], members: Mapping[str, object]) -> HipsynthError:
    """The error with these arguments and members, made without its class's __init__."""
    error = kind.__new__(kind, *args)
    error.__dict__.update(members)
    return error


class UsageError(HipsynthError):
    """The command line names an option, value or item that does not exist (exit 2)."""

    exit_code = 2
    reason = Reason.USAGE


class BadInput(HipsynthError):
    """A file, program or corpus cannot be used (exit 3)."""

    exit_code = 3
    reason = Reason.BAD_INPUT


class CompileFailed(BadInput):
    """The compiler rejected a program; `diagnostics` holds the compiler's messages (exit 3)."""

    reason = Reason.COMPILE_FAILED

    def __init__(self, what: str, *, diagnostics: str = "", cause: str = "", remedy: str = "") -> None:
        super().__init__(what, cause=cause, remedy=remedy)
        self.diagnostics = diagnostics

    def describe(self) -> str:
        return self._compose_text(self.diagnostics)

    def name_source(self, file: str) -> CompileFailed:
        """The same error of a text that was compiled in a scratch folder and is `file` to the reader."""
        summary, cause, messages = (name_scratch_sources(t, file) for t in (self.what, self.cause, self.diagnostics))
        error = CompileFailed(summary, diagnostics=messages, cause=cause, remedy=self.remedy)
        error.reason = self.reason
        return error


def diagnostics_of(error: HipsynthError) -> str | None:
    """What a compiler said; None if the error is none of a compiler."""
    return (error.diagnostics if isinstance(error, CompileFailed) else "") or None


class TimeLimitReached(BadInput):
    """The input takes more processor time than its limit allows (exit 3)."""

    reason = Reason.TIMEOUT


class MissingDependency(HipsynthError):
    """A required toolchain, backend or package is not installed (exit 4)."""

    exit_code = 4
    reason = Reason.MISSING


class PartialFailure(HipsynthError):
    """Some items of a batch failed; the others are finished and stored (exit 5)."""

    exit_code = 5
    reason = Reason.PARTIAL


@dataclass(frozen=True)
class ErrorDocument:
    """Every error as a JSON document: a code, what happened, the likely cause, and what to do; `diagnostics` are the
    compiler's."""

    error: str
    message: str
    cause: str = ""
    remedy: str = ""
    diagnostics: str | None = None

    @staticmethod
    def of(error: HipsynthError) -> ErrorDocument:
        """The document of an error."""
        return ErrorDocument(error.reason, error.what, error.cause, error.remedy, diagnostics_of(error))
