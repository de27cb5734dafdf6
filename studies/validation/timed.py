"""What a recorded time or rate is compared with: the work of our dispatches, so that the timing model can be evaluated
again with other constants (fit.py, leave_one_out/) without running them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypedDict, TypeVar

Run = TypeVar("Run")  # a Dispatch, or the work of one
Spec = Mapping[str, float]


class TimedTerms(TypedDict, total=False):
    """The fields of TimedValue without its runs."""

    amount: float
    inverted: bool
    weights: tuple[float, ...]
    terms: Mapping[str, float]
    link_bytes: float
    scaled: Mapping[str, float]
    replaced: Mapping[str, float]


@dataclass(frozen=True)
class TimedValue(Generic[Run]):
    """Our time is a sum over `runs` of their durations times `weights` (empty: the last one, less the first if there
    are several), plus `terms` (weights of constants in ns), and `link_bytes` over the link to the host.

    The value that is compared with the recorded one is `amount` over this time, or, `inverted`, the time over `amount`.
    `scaled` and `replaced`: how the constants of the runs' device differ from its table.
    """

    runs: tuple[Run, ...]
    amount: float = 1.0
    inverted: bool = True
    weights: tuple[float, ...] = ()
    terms: Mapping[str, float] = field(default_factory=dict)
    link_bytes: float = 0.0
    scaled: Mapping[str, float] = field(default_factory=dict)
    replaced: Mapping[str, float] = field(default_factory=dict)

    def drop_runs(self) -> TimedTerms:
        """Its fields but the runs."""
        return TimedTerms(
            amount=self.amount,
            inverted=self.inverted,
            weights=self.weights,
            terms=self.terms,
            link_bytes=self.link_bytes,
            scaled=self.scaled,
            replaced=self.replaced,
        )

    def adjust_spec(self, table: Spec) -> dict[str, float]:
        """The constants under which the runs were made, given those of the device's table."""
        changed = {key: table[key] * factor for key, factor in self.scaled.items()}
        return {**table, **changed, **self.replaced}

    def list_weights(self) -> tuple[float, ...]:
        """The weight of each run."""
        if self.weights:
            return self.weights
        return (1.0,) if len(self.runs) == 1 else (-1.0, *[0.0] * (len(self.runs) - 2), 1.0)

    def compute_time_ns(self, times_ns: Sequence[float], table: Spec) -> float:
        """Our time in ns for given durations of the runs."""
        launched = sum(weight * ns for weight, ns in zip(self.list_weights(), times_ns, strict=True))
        linked = self.link_bytes / table["host.link_gbps"] if self.link_bytes else 0.0
        return launched + sum(weight * table[key] for key, weight in self.terms.items()) + linked

    def compute_value(self, times_ns: Sequence[float], table: Spec) -> float:
        """What is compared with the recorded value."""
        spent = self.compute_time_ns(times_ns, table)
        return spent / self.amount if self.inverted else self.amount / spent

    def compute_recorded_ns(self, recorded: float) -> float:
        """The time that a recorded value stands for."""
        return recorded * self.amount if self.inverted else self.amount / recorded

    @property
    def is_difference(self) -> bool:
        """Whether the time is a difference, free of launch and ramps."""
        return min(self.list_weights()) < 0 < max(self.list_weights()) and not self.terms
