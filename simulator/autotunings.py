"""What a script's `triton.autotune` tried: its configurations, in simulated time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class TriedConfiguration:
    """One `triton.Config`. `time_ns`: simulated time of a launch from empty caches; None if it does not compile."""

    meta: Mapping[str, bool | int | str]
    time_ns: float | None
    chosen: bool


@dataclass(frozen=True)
class Autotuning:
    """The choice among the configurations of a kernel for one key, the arguments that it names. `plain`: it
    calls no function before a launch, and its parameters are numbers, truths and texts."""

    kernel: str
    key: Mapping[str, bool | int | str]
    configurations: tuple[TriedConfiguration, ...]
    plain: bool = False

    @property
    def chosen(self) -> TriedConfiguration:
        return next(row for row in self.configurations if row.chosen)
