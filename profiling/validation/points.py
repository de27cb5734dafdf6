"""Points of a recorded curve beside ours: one or two dispatches each, and what their times say.

A point keeps what its dispatches did, so that fit.py can time them again with other constants without running them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hipsynth.profiling.validation.frame import Row


@dataclass(frozen=True)
class Point:
    """`amount` over the time of the one dispatch, or over the time that the second takes longer than the first.

    The difference of two sizes is the steady rate, as long recordings show it. `inverted`: time over amount.
    """

    quantity: str
    label: str
    recorded: float
    amount: float
    runs: tuple[Mapping[str, Any], ...]
    allowed: float | None = None
    inverted: bool = False

    def value(self, times_ns: list[float]) -> float:
        spent = times_ns[-1] - times_ns[0] if len(times_ns) > 1 else times_ns[0]
        return spent / self.amount if self.inverted else self.amount / spent

    def row(self) -> Row:
        ours = self.value([run["duration_ns"] for run in self.runs])
        return Row(self.quantity, self.recorded, ours, self.allowed, label=self.label)

    def work(self) -> list[dict[str, float]]:
        """What each dispatch did, for the timing model."""
        return [run["work"] for run in self.runs]
