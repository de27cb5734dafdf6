"""Generated programs, and runs of them that are small enough for the oracle and for exact simulation."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import cache

from hipsynth.core.program import Program, ProgramRun
from hipsynth.source.arguments import run_text
from hipsynth.synth.generate.build import build_module
from hipsynth.synth.generate.choices import Choices
from hipsynth.synth.generate.headers import find_template, template_of
from hipsynth.synth.generate.oracle import count_work
from hipsynth.synth.generate.problem_sizes import run_at
from hipsynth.synth.generate.producer import draw_program
from hipsynth.synth.generate.types import IRError

SMALL = 1 << 15  # work-items and elements


def drawn(family: str, seed: int = 5) -> Iterator[Program]:
    """Programs of the family, of any size that fits into memory."""
    index = 0
    while True:
        with contextlib.suppress(IRError):
            yield draw_program(seed, index, 0, family)
        index += 1


def small_run(program: Program) -> ProgramRun | None:
    """A run of at most SMALL work-items and elements: sizes are halved in turn as long as the family allows it."""
    sizes = {p.name: program.params[p.name] for p in find_template(template_of(program.family)).parameters if p.size}
    found, shrinking = None, True
    while shrinking:
        shrinking = False
        for name in sizes:
            fewer = {**sizes, name: sizes[name] // 2}
            run = run_at(program, fewer)
            if run is not None:
                found, sizes, shrinking = run, fewer, True
                module = build_module(program.family, Choices(replay=program.choices), sizes=sizes)[1]
                if count_work(module) <= SMALL:
                    return found
    return None


@cache
def small(family: str, seed: int = 5) -> tuple[Program, ProgramRun]:
    """The first drawn program of the family that has a small run with other sizes than its defaults."""
    for program in drawn(family, seed):
        run = small_run(program)
        if run is not None and run_text(program.text, " ".join(run.arguments)) != program.text:
            return program, run
    raise AssertionError("draws never end")
