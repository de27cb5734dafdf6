"""The interface of a change of source text that a search tries on its fastest program."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from hipsynth.profiling.backends.protocol import Target
from hipsynth.tuning.optimize.analysis.program_model import ParsedProgram
from hipsynth.tuning.optimize.evaluate import CandidateMeasurement

LEAST_CHANGED_SHARE = 0.1  # of the program's time, from which a kernel's source or order of groups is changed


@dataclass(frozen=True)
class SourceChange:
    """A program with one kernel changed, and why that may be faster."""

    kernel: str
    text: str
    why: str


@dataclass(frozen=True)
class SourceChanger:
    """One kind of change. `counter`: what it should move; `list_changes`: those of a program whose run is given;
    `alternatives`: they exclude each other, so that the fastest is wanted and not the first that gains."""

    counter: str
    list_changes: Callable[[ParsedProgram, CandidateMeasurement, Target], Iterator[SourceChange]]
    alternatives: bool = False
