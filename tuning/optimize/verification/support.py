"""What the checks of a verification share: the source of their trials, and what they read from trials."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from hipsynth.core.program import text_id
from hipsynth.profiling.backends.protocol import Target
from hipsynth.tuning.optimize.documents import VerificationCheck
from hipsynth.tuning.optimize.evaluate import CandidateMeasurement
from hipsynth.tuning.optimize.verification.check_sizes import Arguments
from hipsynth.tuning.trial import Conditions, Tolerance, Trial
from hipsynth.tuning.trial.search_clock import Clock

SEEDS = (11, 12)  # the search itself uses the program's own inputs only
POISON = 0x7FF7A5A5  # a NaN as half, float and double, and no usable index


class OutputSource(Protocol):
    """What checks of programs and scripts use of a verifier."""

    sizes: Sequence[Arguments]
    joined: dict[str, int]

    @property
    def original(self) -> str: ...
    @property
    def further_sizes(self) -> Sequence[Arguments]: ...
    def run_conditions(self, size: Arguments) -> Conditions: ...
    def reference_trial(self, conditions: Conditions) -> Trial: ...
    def candidate_trial(self, text: str, conditions: Conditions) -> Trial: ...
    def run_together(self, wanted: Iterable[tuple[str, Conditions]]) -> list[Trial]: ...
    def check_equal(
        self, name: str, text: str, conditions: Conditions, of_candidate: Conditions | None = None
    ) -> VerificationCheck: ...


class TrialSource(OutputSource, Protocol):
    """What checks of programs use besides."""

    target: Target
    clock: Clock
    most_exact_s: float
    timed: tuple[CandidateMeasurement, CandidateMeasurement] | None
    tolerance: Tolerance

    def try_size(self, size: Arguments, *, most_s: float = ...) -> bool: ...
    def keeps_outputs(self, size: Arguments) -> bool: ...
    def run_once(self, text: str, conditions: Conditions) -> Trial: ...


def first_size(source: OutputSource) -> Conditions:
    """Conditions of the program's first problem size."""
    return source.run_conditions(source.sizes[0])


def check_each_size(source: OutputSource, check: Callable[[Conditions], VerificationCheck]) -> VerificationCheck:
    """A check at the first problem size and at the further ones: its first failure, else what it says of a size at
    which it is possible."""
    checks = []
    for size in (source.sizes[0], *source.further_sizes):
        checks.append(check(source.run_conditions(size)))
        if checks[-1].passed is False:
            return checks[-1]
    return next((each for each in checks if each.passed), checks[0])


def run_both(source: OutputSource, text: str, conditions: Conditions) -> tuple[Trial, Trial]:
    """The trial of the original and that of the changed text."""
    before, after = source.run_together([(source.original, conditions), (text, conditions)])
    return before, after


def copies_of(trial: Trial) -> list[str]:
    """Digests of what a program copied to the host; of what it left in memory, if it copied nothing."""
    copied = [output.digest for output in trial.outputs if output.kind == "copy"]
    return copied or [output.digest for output in trial.outputs]


def makes_same_copies(source: OutputSource, one: Conditions, other: Conditions) -> bool:
    """Whether the original copies the same results to the host under both conditions."""
    before, after = source.reference_trial(one), source.reference_trial(other)
    return after.ok and after.exit_code == before.exit_code and copies_of(before) == copies_of(after)


def sum_counters(trial: Trial, names: Sequence[str]) -> float:
    """Sum of counters over all dispatches of all kernels; a kernel without one adds nothing."""
    return sum(kernel.counters.get(name, 0.0) * kernel.dispatches for kernel in trial.kernels for name in names)


def seed_of(text: str) -> int:
    """A seed that who writes a program does not know."""
    return int(text_id(text)[:7], 16) | 1
