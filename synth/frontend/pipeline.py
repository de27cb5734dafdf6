"""Passes by name, applied in order. A pass is one module in `passes` with a function `apply`."""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hipsynth.synth.core.errors import UsageError
from hipsynth.synth.frontend import passes
from hipsynth.synth.frontend.parse import Diagnostic, ParseConfig
from hipsynth.synth.frontend.source import Source

Pass = Callable[[Source, str, ParseConfig], tuple[Source | None, list[Diagnostic]]]


@functools.cache
def pass_names() -> tuple[str, ...]:
    """Every pass there is: the modules of `hipsynth.synth.frontend.passes`."""
    return tuple(sorted(m.name for m in pkgutil.iter_modules(passes.__path__)))


def find_pass(name: str) -> Pass:
    """The pass of a name; raises UsageError for an unknown one."""
    if name not in pass_names():
        raise UsageError(f"no pass called {name!r}", remedy=f"one of: {', '.join(pass_names())}")
    function: Pass = importlib.import_module(f"{passes.__name__}.{name}").apply
    return function


@dataclass(frozen=True)
class Outcome:
    """The result of a pipeline: `source` is None when a pass failed; `applied` are the steps that changed the text."""

    source: Source | None
    applied: tuple[str, ...]
    diagnostics: tuple[Diagnostic, ...] = ()

    @property
    def reason(self) -> str:
        return self.diagnostics[0].reason if self.diagnostics else ""


def run(source: Source, steps: Sequence[str], config: ParseConfig) -> Outcome:
    """Applies steps such as "flatten" or "rename:7" (name, then an argument) in order, until one fails."""
    applied: list[str] = []
    for step in steps:
        name, _, argument = step.partition(":")
        before = source.text
        result, problems = find_pass(name)(source, argument, config)
        if result is None:
            return Outcome(None, tuple(applied), tuple(problems))
        if result.text != before:
            applied.append(step)
        source = result
    return Outcome(source, tuple(applied))
