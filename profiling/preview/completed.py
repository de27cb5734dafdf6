"""Device code of a half-written program: its text is completed until it compiles."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from hipsynth.core.errors import CompileFailed
from hipsynth.core.program import Project
from hipsynth.profiling.preview.interpret import Code
from hipsynth.profiling.preview.programs import device_code
from hipsynth.source.completion.repair import (
    close_before,
    complete_statements,
    declare_name,
    delete_statement,
    find_cuts,
    position_of,
)
from hipsynth.source.completion.scope import enclosing_kernel
from hipsynth.toolchain.diagnostics import CompilerError, read_compiler_errors

MOST_COMPILES = 14
MOST_REPAIRS = 4  # that build on each other
MOST_CHARACTERS = 200_000  # of a text that is completed
_CANDIDATES = 5  # of one error


@dataclass(frozen=True)
class CompletedProgram:
    """A text that compiles in place of one that does not. `deleted`: whether a statement was left out for it."""

    text: str
    code: Code
    deleted: bool


@dataclass(frozen=True)
class _Attempt:
    text: str
    errors: tuple[CompilerError, ...]
    repairs: int
    deleted: bool

    def progress(self) -> tuple[int, int, int]:
        """Sorts the better first: fewer errors, then those whose first error comes later."""
        first = self.errors[0].line if self.errors else 0
        return len(self.errors) + 3 * self.deleted, self.repairs, -first


def complete_program(
    text: str, arch: str, flags: str, failure: CompileFailed, project: Project | None = None
) -> CompletedProgram | None:
    """A completion of a program that clang rejected with `failure`; None if none of MOST_COMPILES texts compiles, or
    the text is long. `project`: the folder whose headers it includes. Raises OutOfTime."""
    if len(text) > MOST_CHARACTERS:
        return None
    waiting = [_Attempt(text, read_compiler_errors(failure.diagnostics), 0, False)]
    tried = {text}
    compiles = 0
    while waiting:
        waiting.sort(key=_Attempt.progress)
        attempt = waiting.pop(0)
        for changed, deleted in _candidates(attempt):
            if changed in tried:
                continue
            if compiles == MOST_COMPILES:
                return None
            tried.add(changed)
            compiles += 1
            try:
                code = device_code(changed, arch, flags, project=project)
            except CompileFailed as error:
                errors = read_compiler_errors(error.diagnostics)
                if errors and attempt.repairs + 1 < MOST_REPAIRS:
                    waiting.append(_Attempt(changed, errors, attempt.repairs + 1, attempt.deleted or deleted))
                continue
            return CompletedProgram(changed, code, attempt.deleted or deleted)
    return None


def _candidates(attempt: _Attempt) -> Iterator[tuple[str, bool]]:
    """Changed texts for the first error, and whether something was deleted."""
    if not attempt.errors:
        return
    error, text = attempt.errors[0], attempt.text
    at = position_of(text, error.line, error.column)
    if enclosing_kernel(text, at) is None:
        return
    number = 0
    changed = declare_name(text, error.undeclared, at) if error.undeclared else None
    if changed is None and text[at : at + 1] in (";", "{"):
        changed = close_before(text, at)
    if changed is not None:
        yield changed, False
        number = 1
    if not attempt.repairs or not error.undeclared:
        for cut in find_cuts(text, at):
            for changed in islice(complete_statements(text, cut), max(0, _CANDIDATES - number)):
                yield changed, False
                number += 1
    yield delete_statement(text, at), True
