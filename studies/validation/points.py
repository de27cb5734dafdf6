"""Points of a recorded curve, each with the one or two simulated dispatches that give our value."""

from __future__ import annotations

from dataclasses import dataclass

from hipsynth.simulator.native_core import Dispatch
from studies.validation.frame import ComparisonRow
from studies.validation.timed import TimedValue


@dataclass(frozen=True)
class RecordedPoint:
    """Our value is `amount` over the dispatch's time, or over the time difference of two dispatches.

    The difference of two sizes is the steady-state rate, which long-running recordings show. `inverted`: time over
    amount. `allowed`: tolerance in per cent, None if shown only.
    """

    quantity: str
    label: str
    recorded: float
    amount: float
    runs: tuple[Dispatch, ...]
    allowed: float | None = None
    inverted: bool = False

    @property
    def timed_value(self) -> TimedValue[Dispatch]:
        return TimedValue(self.runs, self.amount, self.inverted)

    def build_row(self) -> ComparisonRow:
        """The comparison of the recorded with the simulated value."""
        ours = self.timed_value.compute_value([run["duration_ns"] for run in self.runs], {})
        return ComparisonRow(self.quantity, self.recorded, ours, self.allowed, label=self.label, timed=self.timed_value)
