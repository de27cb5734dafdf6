"""Points of a recorded curve, each with the one or two simulated dispatches that give our value.

A point keeps the work counts of its dispatches, so that fit.py can evaluate the timing model again without rerunning.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hipsynth.profiling.validation.frame import Row


@dataclass(frozen=True)
class Point:
    """Our value is `amount` over the dispatch's time, or over the time difference of two dispatches.

    The difference of two sizes is the steady-state rate, which long-running recordings show. `inverted`: time over
    amount. `allowed`: tolerance in per cent, None if shown only.
    """

    quantity: str
    label: str
    recorded: float
    amount: float
    runs: tuple[Mapping[str, Any], ...]
    allowed: float | None = None
    inverted: bool = False

    def value(self, times_ns: list[float]) -> float:
        """The point's value for given times of its dispatches in ns."""
        spent = times_ns[-1] - times_ns[0] if len(times_ns) > 1 else times_ns[0]
        return spent / self.amount if self.inverted else self.amount / spent

    def row(self) -> Row:
        """The comparison of the recorded with the simulated value."""
        ours = self.value([run["duration_ns"] for run in self.runs])
        return Row(self.quantity, self.recorded, ours, self.allowed, label=self.label)

    def work(self) -> list[dict[str, float]]:
        """What each dispatch did, for the timing model."""
        return [run["work"] for run in self.runs]
