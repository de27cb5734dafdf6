"""Times configurations to find the fastest: all of them coarsely, and once more those that it may be."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

Configuration = TypeVar("Configuration")
Times = TypeVar("Times")

# How far off a sampled time may be, in the sampler's own estimates of that, and at least, as a share of it. Less than
# profiles print, since all that overlap cost a run: of 40 configurations of a product (script_speed.py),
# those that were sampled were up to 4.5 % off where the sampler expected 11 to 49 %.
COVERS, LEAST = 2.0, 0.03
MOST_ERROR = 0.05  # of a time that a script reads and that is not the best


@dataclass(frozen=True)
class Timing(Generic[Times]):
    """What a benchmark answered, its median `time_ms`, and how far off sampling may have made that. An infinite time:
    it does not compile."""

    answer: Times
    time_ms: float
    error_ms: float = 0.0

    @property
    def low_ms(self) -> float:
        return self.time_ms - self.error_ms if math.isfinite(self.time_ms) else self.time_ms

    @property
    def high_ms(self) -> float:
        return self.time_ms + self.error_ms


def bound_error(time_ms: float, estimate_ms: float) -> float:
    """How far off a time may be, in ms; `estimate_ms`: the sampler's own estimate, 0 if nothing was sampled."""
    return max(COVERS * estimate_ms, LEAST * time_ms) if estimate_ms > 0 else 0.0


class BestTimes:
    """The best time so far of each problem that was benchmarked: of the same kernels on the same arguments, in any
    configuration."""

    def __init__(self) -> None:
        self._high_ms: dict[object, float] = {}

    def settles(self, problem: object, timing: Timing[object]) -> bool:
        """Whether a coarse timing is good enough: nothing was sampled, or it is certainly not the best, and close."""
        if timing.error_ms == 0:
            return True
        is_close = timing.error_ms <= MOST_ERROR * timing.time_ms
        return is_close and timing.low_ms > self._high_ms.get(problem, math.inf)

    def note_time(self, problem: object, timing: Timing[object]) -> None:
        self._high_ms[problem] = min(timing.high_ms, self._high_ms.get(problem, math.inf))


def time_finalists(
    configurations: Sequence[Configuration],
    coarse: Sequence[Timing[Times]],
    measure: Callable[[Configuration], Timing[Times]],
) -> list[Timing[Times]]:
    """The coarse timings, with exact ones in the place of all that may be the fastest: those whose interval overlaps
    that of the best. None is measured if one configuration is faster than all others for certain."""
    timings, settled = list(coarse), {number for number, timing in enumerate(coarse) if timing.error_ms == 0}
    while True:
        limit = min(timing.high_ms for timing in timings)
        finalists = [number for number, timing in enumerate(timings) if timing.low_ms <= limit]
        unsettled = [number for number in finalists if number not in settled]
        if len(finalists) == 1 or not unsettled:
            return timings
        for number in unsettled:
            timings[number] = measure(configurations[number])
            settled.add(number)
