"""Runs passes by name, in order. A pass is a module in `passes` with a function `plan_sites`, whose sites are changed
(see reform_source), or `apply_pass`."""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hipsynth.core.errors import UsageError, suggest_name
from hipsynth.source.parse import Diagnostic, ParseConfig
from hipsynth.synth.frontend import passes
from hipsynth.synth.frontend.pass_input import ProgramSource
from hipsynth.synth.frontend.rewrite_sites import reform_source

Pass = Callable[[ProgramSource, str, ParseConfig], tuple[ProgramSource | None, list[Diagnostic]]]


@functools.cache
def pass_names() -> tuple[str, ...]:
    """The names of all passes: the modules of `hipsynth.synth.frontend.passes`."""
    return tuple(sorted(m.name for m in pkgutil.iter_modules(passes.__path__)))


def find_pass(name: str) -> Pass:
    """The function of a pass; raises UsageError for an unknown name."""
    if name not in pass_names():
        raise UsageError(
            f"unknown pass {name!r}",
            cause=suggest_name(name, pass_names()),
            remedy=f"one of: {', '.join(pass_names())}",
        )
    module = importlib.import_module(f"{passes.__name__}.{name}")
    function: Pass = getattr(module, "apply_pass", None) or functools.partial(reform_source, plan=module.plan_sites)
    return function


@dataclass(frozen=True)
class PipelineResult:
    """The result of a pipeline: `source` is None if a pass failed; `applied` are the steps that changed the text."""

    source: ProgramSource | None
    applied: tuple[str, ...]
    diagnostics: tuple[Diagnostic, ...] = ()

    @property
    def reason(self) -> str:
        """The reason code of the first diagnostic, or ""."""
        return self.diagnostics[0].reason if self.diagnostics else ""


def run_steps(source: ProgramSource, steps: Sequence[str], config: ParseConfig) -> PipelineResult:
    """Applies steps such as "flatten" or "rename:7" (pass name, then its argument) in order, until one fails."""
    applied: list[str] = []
    for step in steps:
        name, _, argument = step.partition(":")
        before = source.text
        result, problems = find_pass(name)(source, argument, config)
        if result is None:
            return PipelineResult(None, tuple(applied), tuple(problems))
        if result.text != before:
            applied.append(step)
        source = result
    return PipelineResult(source, tuple(applied))
