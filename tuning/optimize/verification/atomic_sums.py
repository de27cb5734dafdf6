"""Sums that atomics add up: what the original's own order of additions loses is no fault of a changed program."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from dataclasses import replace

from hipsynth.tuning.optimize.verification.support import TrialSource
from hipsynth.tuning.trial import Conditions, Trial, TrialComparison, UnorderedOutputs, compare_trials
from hipsynth.tuning.trial.unordered_outputs import ALL_ORDERED

NUDGES = (21, 22)  # seeds by which the last bits of inputs move
# Further ones where those explain too little: whether a large score of a softmax is rounded up or down changes its
# whole row, and two draws may leave a row as it is that others change.
FURTHER_NUDGES = (23, 24, 25, 26, 27, 28)
# A sum of the changed program may be so many times as far from the exact one as those of the original that are known.
LOSSES = 2.0
_ADDS = re.compile(r"\b(unsafeAtomicAdd|atomicAdd(?:_system)?|fetch_add|__(?:hip|scoped)?_?atomic_fetch_add)\b")


def nudged_trials(source: TrialSource, conditions: Conditions, seeds: Sequence[int] = NUDGES) -> list[Trial]:
    """The original with inputs whose last bits were moved."""
    trials = source.run_together((source.original, replace(conditions, nudge=seed)) for seed in seeds)
    return [trial for trial in trials if trial.ok]


def compare_exact_sums(
    source: TrialSource,
    text: str,
    conditions: Conditions,
    of_candidate: Conditions,
    unordered: UnorderedOutputs = ALL_ORDERED,
) -> TrialComparison | None:
    """Compares both programs with sums from which rounding takes nothing: these do not depend on their order. Then the
    changed program's own results may not be further from those than the original's. None where the original loses
    nothing in sums by atomics."""
    if not source.tolerance.kind or not _ADDS.search(source.original):
        return None
    exact = replace(conditions, exact_sums=True, count=False)
    changed = replace(of_candidate, exact_sums=True, count=False)
    rounded = source.reference_trial(conditions)
    before, after = source.run_together([(source.original, exact), (text, changed)])
    if not before.ok or [o.digest for o in before.outputs] == [o.digest for o in rounded.outputs]:
        return None
    compare = functools.partial(
        compare_trials,
        before,
        tolerance=source.tolerance,
        texts=False,
        unordered=unordered,
        more_allocations=conditions.calls == 1,
    )
    same = compare(after)
    if not same.exact:
        same = compare(after, nudged=nudged_trials(source, exact))
    if not same.equal:
        return same
    nudged = [rounded, *nudged_trials(source, conditions)]
    return compare(source.candidate_trial(text, of_candidate), nudged=nudged, roundings=LOSSES)
