"""Compares the outputs of two programs: bit for bit, or within a tolerance that has a reason."""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hipsynth.tuning.trial.rounding import ROUNDINGS, NumberDifference, compare_numbers
from hipsynth.tuning.trial.run import Trial

_NUMBER = re.compile(r"([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)")
_REAL = re.compile(r"[.eE]")
_UNCOMPARED = frozenset({"host_writes"})  # a number without contents

Nudged = tuple[Sequence[Trial], float | None]  # trials, and how often a number may differ by what they change in it


@dataclass(frozen=True)
class Tolerance:
    """Allowed difference of numbers of `kind` ("float", "double" or "half"): relative to the largest in the output.

    `reason` says why bits may differ at all, such as the order of a sum. "" as the kind: no difference is allowed.
    """

    kind: str = ""
    relative: float = 0.0
    reason: str = ""


BIT_FOR_BIT = Tolerance()


@dataclass(frozen=True)
class TrialComparison:
    """`equal`: nothing differs, or only within the tolerance; `exact`: nothing differs. `error`: the largest relative
    difference of numbers; `reason`: the first difference that is not allowed."""

    equal: bool
    exact: bool
    error: float = 0.0
    reason: str = ""


def compare_trials(
    before: Trial,
    after: Trial,
    tolerance: Tolerance = BIT_FOR_BIT,
    *,
    texts: bool = True,
    unordered: Container[tuple[str, int]] = (),
    nudged: Sequence[Trial] = (),
    roundings: float | None = None,
    more_allocations: bool = True,
) -> TrialComparison:
    """Compares exit codes, texts, launches and outputs of two exact trials.

    Where `after` makes the allocations of `before`, perhaps followed by more, the contents of each are compared; else
    what is copied to the host is. `texts=False` leaves out exit codes and texts, for inputs drawn again: a program's
    own check compares with the inputs that it made. `unordered`: outputs, by kind and index, whose words may be in
    another order. `nudged`: the first program with inputs whose last bits were moved, so that each number is allowed
    what such a bit may change in it, `roundings` times (None: as often as its type allows). `more_allocations=False`:
    where `after` makes more, they are not all at its end.
    """
    for name, trial in (("the original", before), ("the changed program", after)):
        if not trial.ok:
            return TrialComparison(False, False, reason=f"{name} failed: {trial.reason}: {trial.message[:300]}")
    if texts and before.exit_code != after.exit_code:
        return TrialComparison(False, False, reason=f"exit code {after.exit_code} instead of {before.exit_code}")
    if texts and not same_words(before.stdout, after.stdout):
        return TrialComparison(False, False, reason="it prints something else")
    if before.kernels and not after.kernels:
        return TrialComparison(False, False, reason="it launches no kernel")
    alike = same_allocations(before, after, more_allocations)
    comparison = _compare_outputs(before, after, tolerance, unordered, (nudged, roundings), alike)
    if not texts or not comparison.equal or before.stdout == after.stdout:
        return comparison
    if comparison.exact:
        return TrialComparison(False, False, reason="it prints something else")
    return compare_printed(before, after, tolerance, nudged, comparison, roundings)


def compare_printed(
    before: Trial,
    after: Trial,
    tolerance: Tolerance,
    nudged: Sequence[Trial],
    comparison: TrialComparison,
    roundings: float | None = None,
) -> TrialComparison:
    """The comparison of outputs that differ by roundings, if the numbers that are printed do, too: by no more than what
    the last bits of the inputs change in them, `roundings` times, or than the tolerance where they are no integers. So
    may a sum that cancels, or the largest error; no number may where nothing is known of that."""
    words = _NUMBER.split(before.stdout)[1::2]
    ours, theirs, *others = (
        [float(number) for number in _NUMBER.split(run.stdout)[1::2]] for run in (before, after, *nudged)
    )
    others = [numbers for numbers in others if len(numbers) == len(ours)]
    factor = roundings or ROUNDINGS.get(tolerance.kind, 0.0)
    for at, (word, number, other) in enumerate(zip(words, ours, theirs, strict=True)):
        moved = max((abs(numbers[at] - number) for numbers in others), default=0.0)
        relative = tolerance.relative if others and _REAL.search(word) else 0.0
        if not abs(number - other) <= max(relative * abs(number), factor * moved):
            return replace(comparison, equal=False, reason="it prints other numbers")
    return comparison


def same_words(text: str, other: str) -> bool:
    """Whether two printed texts are the same but for numbers, and blanks that align these."""
    ours, theirs = ([part.strip(" ") for part in _NUMBER.split(printed)[::2]] for printed in (text, other))
    return ours == theirs


def replace_printed_times(text: str, other: str, retimed: str) -> str:
    """The other text with the first one's measured times: numbers that are others in `retimed`, too, which is what the
    first program prints where its kernels take other times. As it is where more than numbers differs."""
    ours, theirs, again = (_NUMBER.split(printed) for printed in (text, other, retimed))
    if ours[::2] != theirs[::2] or len(again) != len(ours):
        return other
    rows = enumerate(zip(ours, theirs, again, strict=True))
    return "".join(a if place % 2 and a != c else b for place, (a, b, c) in rows)


def _compare_outputs(
    before: Trial,
    after: Trial,
    tolerance: Tolerance,
    unordered: Container[tuple[str, int]],
    nudged: Nudged,
    alike: bool,
) -> TrialComparison:
    ours, theirs = _by_name(before), _by_name(after)
    if not alike and any(kind == "copy" for kind, _ in ours):
        ours, theirs = ({name: at for name, at in row.items() if name[0] == "copy"} for row in (ours, theirs))
    missing = [name for name in ours if name not in theirs]
    more = [name for name in theirs if name not in ours and name[0] != "buffer"]
    if missing or more:
        kind, index = (missing or more)[0]
        return TrialComparison(False, False, reason=f"{kind} {index} is in only one of the two programs")
    worst, exact = 0.0, True
    for name, number in ours.items():
        data_before, other = before.outputs[number], after.outputs[theirs[name]]
        if (data_before.bytes, data_before.digest) == (other.bytes, other.digest):
            continue
        exact = False
        label = f"{name[0]} {name[1]} of {data_before.bytes} bytes"
        if name in unordered and _same_words(before, after, number, theirs[name]):
            continue
        if data_before.bytes != other.bytes or not tolerance.kind:
            return TrialComparison(False, False, worst, f"{label} differs")
        difference = _compare_recorded(before, after, number, theirs[name], tolerance, nudged)
        worst = max(worst, difference.error)
        if difference.reason:
            return TrialComparison(False, False, worst, f"{label} {difference.reason}")
    return TrialComparison(True, exact, worst)


def same_allocations(before: Trial, after: Trial, more: bool = True) -> bool:
    """Whether `after` makes the allocations of `before`, perhaps followed by `more`."""
    sizes = [
        {output.index: output.bytes for output in trial.outputs if output.kind == "buffer"} for trial in (before, after)
    ]
    return sizes[0].items() <= sizes[1].items() if more else sizes[0] == sizes[1]


def _compare_recorded(
    before: Trial, after: Trial, mine: int, other: int, tolerance: Tolerance, nudged: Nudged
) -> NumberDifference:
    ours, theirs = (before.recorded or {}).get(mine), (after.recorded or {}).get(other)
    if ours is None or theirs is None:
        return NumberDifference(0.0, f"differs, and its numbers of type {tolerance.kind} were not kept")
    trials, roundings = nudged
    same = [trial for trial in trials if [o.bytes for o in trial.outputs] == [o.bytes for o in before.outputs]]
    moved = [(trial.recorded or {}).get(mine, b"") for trial in same]
    return compare_numbers(ours, theirs, tolerance.kind, tolerance.relative, moved, roundings)


def differing_outputs(one: Trial, other: Trial) -> frozenset[tuple[str, int]]:
    """The outputs, by kind and index, that are not bit for bit the same in two trials of a program."""
    ours, theirs = _by_name(one), _by_name(other)
    return frozenset(
        name
        for name in ours.keys() & theirs.keys()
        if one.outputs[ours[name]].digest != other.outputs[theirs[name]].digest
    )


def permuted_outputs(one: Trial, other: Trial) -> frozenset[tuple[str, int]]:
    """Those of differing_outputs() that hold the same words of 4 bytes in another order."""
    ours, theirs = _by_name(one), _by_name(other)
    return frozenset(
        name for name in differing_outputs(one, other) if _same_words(one, other, ours[name], theirs[name])
    )


def _same_words(before: Trial, after: Trial, mine: int, other: int) -> bool:
    """Whether two outputs hold the same words of 4 bytes, in any order."""
    words_before, two = (before.recorded or {}).get(mine), (after.recorded or {}).get(other)
    if words_before is None or two is None or len(words_before) != len(two) or len(words_before) % 4:
        return False
    return bool(np.array_equal(np.sort(np.frombuffer(words_before, np.uint32)), np.sort(np.frombuffer(two, np.uint32))))


def _by_name(trial: Trial) -> dict[tuple[str, int], int]:
    outputs = enumerate(trial.outputs)
    return {(output.kind, output.index): number for number, output in outputs if output.kind not in _UNCOMPARED}
