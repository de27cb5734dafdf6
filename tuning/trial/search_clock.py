"""The wall clock of a search: when to stop trying, and how long a run may still take."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

LATEST = 1.2  # of the budget: when the answer must be there
LEAST_RUN_S = 2.0  # processor time that any run gets


@dataclass
class Clock:
    """`budget_s`: of the search and its verification together. `reserve_s`: what verification will take of it, as far
    as runs so far tell; it may use the time until LATEST, too."""

    budget_s: float = math.inf
    now: Callable[[], float] = time.monotonic
    reserve_s: float = 0.0
    started: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        self.started = self.now()

    @property
    def spent_s(self) -> float:
        return self.now() - self.started

    def over(self, next_s: float = 0.0) -> bool:
        """Whether work of `next_s` would leave too little time for verification, in which the original and a candidate
        run for as long, too."""
        spent = self.spent_s + next_s
        return spent > self.budget_s or spent + 2 * next_s + self.reserve_s > LATEST * self.budget_s

    @property
    def late(self) -> bool:
        return self.spent_s > self.budget_s

    @property
    def hurry(self) -> bool:
        """Whether a quarter of the budget is gone, so that preparations must end."""
        return self.spent_s > self.budget_s / 4

    def run_s(self, most: float) -> float:
        """The processor time that a run may take now."""
        return min(most, max(LEAST_RUN_S, LATEST * self.budget_s - self.spent_s))
