"""Compares the outputs of two programs: bit for bit, or within a tolerance that has a reason."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from hipsynth.simulator.observation import Elements, Output
from hipsynth.tuning.trial.output_elements import ParameterTypes
from hipsynth.tuning.trial.paired_buffers import list_orders
from hipsynth.tuning.trial.rounding import ROUNDINGS, NumberDifference, compare_numbers
from hipsynth.tuning.trial.run import Trial
from hipsynth.tuning.trial.unordered_outputs import (
    ALL_ORDERED,
    OutputName,
    UnorderedOutputs,
    find_broken_record,
    find_crossed_border,
    holds_same_words,
    outputs_by_name,
)

_NUMBER = re.compile(r"([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)")
_REAL = re.compile(r"[.eE]")
_OF_THE_DEVICE = frozenset({"buffer", "variable"})  # of which a changed program may have more

Nudged = tuple[Sequence[Trial], float | None]  # trials, and how often a number may differ by what they change in it


# Sums in another order, and multiply-adds that the compiler fuses elsewhere, change the last bits of each addition.
TOLERANCES = {"float": 2e-5, "double": 1e-12, "half": 4e-3, "bfloat16": 3.2e-2}
KINDS = {
    Elements.FLOATS: "float",
    Elements.DOUBLES: "double",
    Elements.HALVES: "half",
    Elements.BFLOATS: "bfloat16",
    Elements.INTEGERS: "",
}


@dataclass(frozen=True)
class Tolerance:
    """Allowed difference of numbers of `kind` (one of TOLERANCES): relative to the largest in the output.

    `reason` says why bits may differ at all, such as the order of a sum. "" as the kind: no difference is allowed.
    `types`: of kernels' parameters, so that outputs whose elements are known have the tolerance of these, at `least`
    so much; `kind` is that of the others.
    """

    kind: str = ""
    relative: float = 0.0
    reason: str = ""
    types: ParameterTypes | None = None
    least: float = 0.0

    def may_hold_integers(self, output: Output) -> bool:
        """Whether integers may lie between the numbers of an output, as far as the types of parameters say it."""
        return self.types is not None and not self.types.holds_numbers_only(output)

    def for_output(self, output: Output) -> Tolerance:
        """The tolerance for an output's elements."""
        elements = self.types.classify(output) if self.kind and self.types else Elements.UNKNOWN
        kind = KINDS.get(elements, self.kind)
        if elements is Elements.UNKNOWN or kind == self.kind:
            return self
        return replace(self, kind=kind, relative=max(TOLERANCES[kind], self.least)) if kind else BIT_FOR_BIT


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
    unordered: UnorderedOutputs = ALL_ORDERED,
    nudged: Sequence[Trial] = (),
    roundings: float | None = None,
    more_allocations: bool = True,
) -> TrialComparison:
    """Compares exit codes, texts, launches and outputs of two exact trials.

    Where `after` makes the allocations of `before`, perhaps followed by more, the contents of each are compared, but
    for steps on the way to results; else what is copied to the host is, and what kernels write in the same parameters.
    `texts=False` leaves out exit codes and texts, for inputs drawn again: a program's own check compares with the
    inputs that it made. `unordered`: outputs whose words may be in another order. `nudged`: the first program with
    inputs whose last bits were moved, so that each number is allowed what such a bit may change in it, `roundings`
    times (None: as often as its type allows). `more_allocations=False`: where `after` makes more, they are not all at
    its end.
    """
    for name, trial in (("the original", before), ("the changed program", after)):
        if not trial.ok:
            return TrialComparison(False, False, reason=f"{name} failed: {trial.reason}: {trial.message[:300]}")
    if texts and before.exit_code != after.exit_code:
        return TrialComparison(False, False, reason=f"exit code {after.exit_code} instead of {before.exit_code}")
    if texts and not same_words(before.texts, after.texts):
        return TrialComparison(False, False, reason=describe_other_texts(before, after))
    if before.kernels and not after.kernels:
        return TrialComparison(False, False, reason="it launches no kernel")
    orders = list_orders(before, after, tolerance.types or ParameterTypes(), more_allocations)
    comparisons = (_compare_outputs(*order, tolerance, unordered, (nudged, roundings)) for order in orders)
    comparison = _choose_comparison(comparisons)
    if not texts or not comparison.equal or before.texts == after.texts:
        return comparison
    if comparison.exact:
        return TrialComparison(False, False, reason=describe_other_texts(before, after))
    return compare_printed(before, after, tolerance, nudged, comparison, roundings)


def compare_printed(
    before: Trial,
    after: Trial,
    tolerance: Tolerance,
    nudged: Sequence[Trial],
    comparison: TrialComparison,
    roundings: float | None = None,
) -> TrialComparison:
    """The comparison of outputs that differ by roundings, if the numbers that are printed or written do, too: by no
    more than what the last bits of the inputs change in them, `roundings` times, or than the tolerance where they are
    no integers. So may a sum that cancels, or the largest error; no number may where nothing is known of that."""
    words = _NUMBER.split(before.texts)[1::2]
    ours, theirs, *others = (
        [float(number) for number in _NUMBER.split(run.texts)[1::2]] for run in (before, after, *nudged)
    )
    others = [numbers for numbers in others if len(numbers) == len(ours)]
    factor = roundings or ROUNDINGS.get(tolerance.kind, 0.0)
    for at, (word, number, other) in enumerate(zip(words, ours, theirs, strict=True)):
        moved = max((abs(numbers[at] - number) for numbers in others), default=0.0)
        relative = tolerance.relative if others and _REAL.search(word) else 0.0
        if not abs(number - other) <= max(relative * abs(number), factor * moved):
            return replace(comparison, equal=False, reason="it prints or writes other numbers")
    return comparison


def describe_other_texts(before: Trial, after: Trial) -> str:
    """Whether it is what `after` prints or what it writes that differs."""
    same = before.stdout == after.stdout and before.stderr == after.stderr
    return "it writes other files" if same else "it prints something else"


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


def _choose_comparison(comparisons: Iterable[TrialComparison]) -> TrialComparison:
    """The first comparison that holds, else the first one."""
    failed: list[TrialComparison] = []
    for comparison in comparisons:
        if comparison.equal:
            return comparison
        failed.append(comparison)
    return failed[0]


def _compare_outputs(
    before: Trial,
    after: Trial,
    tolerance: Tolerance,
    unordered: UnorderedOutputs,
    nudged: Nudged,
) -> TrialComparison:
    ours, theirs = outputs_by_name(before), outputs_by_name(after)
    has_copies = any(kind == "copy" for kind, _ in ours)  # then programs need not have the other's variables
    missing = [name for name in ours if name not in theirs and not (has_copies and name[0] == "variable")]
    more = [name for name in theirs if name not in ours and name[0] not in _OF_THE_DEVICE]
    if missing or more:
        where = _describe_name((missing or more)[0])
        return TrialComparison(False, False, reason=f"{where} is in only one of the two programs")
    worst, exact = 0.0, True
    for name, number in ours.items():
        if name not in theirs:
            continue
        data_before, other = before.outputs[number], after.outputs[theirs[name]]
        if (data_before.bytes, data_before.digest) == (other.bytes, other.digest):
            continue
        exact = False
        if name in unordered.unknown and has_copies:
            continue
        label = f"{_describe_name(name)} of {data_before.bytes} bytes"
        if name in unordered.names and holds_same_words(before, after, number, theirs[name]):
            if find_crossed_border(before, after, number, theirs[name], unordered):
                return TrialComparison(False, False, worst, f"{label} has words at places that no order gives them")
            continue
        allowed = tolerance.for_output(data_before)
        if data_before.bytes != other.bytes or not allowed.kind:
            return TrialComparison(False, False, worst, f"{label} differs")
        mixed = tolerance.may_hold_integers(data_before)
        difference = _compare_recorded(before, after, (number, theirs[name]), allowed, nudged, mixed)
        worst = max(worst, difference.error)
        if difference.reason:
            return TrialComparison(False, False, worst, f"{label} {difference.reason}")
    if broken := find_broken_record(before, after, unordered):
        return TrialComparison(False, False, worst, broken)
    return TrialComparison(True, exact, worst)


def _describe_name(name: OutputName) -> str:
    return "a variable of the device" if name[0] == "variable" else f"{name[0]} {name[1]}"


def _compare_recorded(
    before: Trial, after: Trial, places: tuple[int, int], tolerance: Tolerance, nudged: Nudged, mixed: bool
) -> NumberDifference:
    mine, other = places
    ours, theirs = (before.recorded or {}).get(mine), (after.recorded or {}).get(other)
    if ours is None or theirs is None:
        return NumberDifference(0.0, f"differs, and its numbers of type {tolerance.kind} were not kept")
    trials, roundings = nudged
    same = [trial for trial in trials if [o.bytes for o in trial.outputs] == [o.bytes for o in before.outputs]]
    moved = [(trial.recorded or {}).get(mine, b"") for trial in same]
    return compare_numbers(ours, theirs, tolerance.kind, tolerance.relative, moved, roundings, mixed)
