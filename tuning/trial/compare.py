"""Compares the outputs of two programs: bit for bit, or within a tolerance that has a reason."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from hipsynth.tuning.trial.run import Trial

Array = np.ndarray[Any, np.dtype[Any]]
_TYPES = {"float": np.float32, "double": np.float64, "half": np.float16}
_UNCOMPARED = frozenset({"host_writes"})  # a number without contents
# Rounding leaves most numbers nearly as they are, also small ones beside large ones. Of those above a NOISE-th of the
# tolerance, at most SHARE may differ by more than OWN of themselves, or OWN_TOLERANCES times the tolerance.
NOISE, SHARE, OWN, OWN_TOLERANCES = 16, 0.01, 0.01, 50


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
    stands_for: Callable[[str], int] = lambda kernel: 1,
    unordered: Container[tuple[str, int]] = (),
) -> TrialComparison:
    """Compares exit codes, texts, launches and outputs of two exact trials.

    `after` may launch a kernel no less often in all, so that skipped launches are found; allocations that only it makes
    at the end are not compared. `texts=False` leaves out exit codes and texts, for inputs drawn again: a program's own
    check compares with the inputs that it made. `stands_for`: of how many launches one launch of a kernel does the
    work. `unordered`: outputs, by kind and index, whose words may be in another order.
    """
    for name, trial in (("the original", before), ("the changed program", after)):
        if not trial.ok:
            return TrialComparison(False, False, reason=f"{name} failed: {trial.reason}: {trial.message[:300]}")
    if texts and before.exit_code != after.exit_code:
        return TrialComparison(False, False, reason=f"exit code {after.exit_code} instead of {before.exit_code}")
    if texts and before.stdout != after.stdout:
        return TrialComparison(False, False, reason="it prints something else")
    if sum(k.dispatches * stands_for(k.name) for k in after.kernels) < sum(k.dispatches for k in before.kernels):
        return TrialComparison(False, False, reason="it launches fewer kernels")
    return _compare_outputs(before, after, tolerance, unordered)


def _compare_outputs(
    before: Trial, after: Trial, tolerance: Tolerance, unordered: Container[tuple[str, int]] = ()
) -> TrialComparison:
    ours, theirs = _by_name(before), _by_name(after)
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
        error = _largest_error(before.recorded or {}, after.recorded or {}, number, theirs[name], tolerance.kind)
        if error is None:
            return TrialComparison(
                False, False, worst, f"{label} differs, and not only in numbers of type {tolerance.kind}"
            )
        worst = max(worst, error)
        if error > tolerance.relative:
            return TrialComparison(False, False, worst, f"{label} differs by {error:.2g} of its largest number")
        if _small_numbers_differ(
            *_output_numbers(before, after, number, theirs[name], tolerance.kind), tolerance.relative
        ):
            return TrialComparison(False, False, worst, f"{label} differs in many of its small numbers")
    return TrialComparison(True, exact, worst)


def differing_outputs(one: Trial, other: Trial) -> frozenset[tuple[str, int]]:
    """The outputs, by kind and index, that are not bit for bit the same in two trials of a program."""
    ours, theirs = _by_name(one), _by_name(other)
    return frozenset(
        name
        for name in ours.keys() & theirs.keys()
        if one.outputs[ours[name]].digest != other.outputs[theirs[name]].digest
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


def _output_numbers(before: Trial, after: Trial, mine: int, other: int, kind: str) -> tuple[Array, Array]:
    data = (before.recorded or {})[mine], (after.recorded or {})[other]
    numbers, two = (np.frombuffer(part, _TYPES[kind]).astype(np.float64) for part in data)
    return numbers, two


def _small_numbers_differ(ours: Array, theirs: Array, relative: float) -> bool:
    finite = np.isfinite(ours) & np.isfinite(theirs)
    ours, theirs = ours[finite], theirs[finite]
    size = np.maximum(np.abs(ours), np.abs(theirs))
    if not len(size):
        return False
    counted = size > size.max() * relative / NOISE
    differs = np.abs(ours - theirs)[counted] > max(OWN, OWN_TOLERANCES * relative) * size[counted]
    return bool(differs.sum() > max(1, SHARE * counted.sum()))


def _largest_error(
    before: Mapping[int, bytes], after: Mapping[int, bytes], mine: int, other: int, kind: str
) -> float | None:
    """The largest difference, relative to the largest magnitude; None where the bytes are not known, or where a word
    that is no finite number differs."""
    if mine not in before or other not in after or len(before[mine]) % np.dtype(_TYPES[kind]).itemsize:
        return None
    a, b = (np.frombuffer(data, _TYPES[kind]) for data in (before[mine], after[other]))
    same = a.view(np.uint8).reshape(len(a), -1) == b.view(np.uint8).reshape(len(b), -1)
    differs: Array = ~same.all(axis=1)
    x, y = a[differs].astype(np.float64), b[differs].astype(np.float64)
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        return None
    finite = a[np.isfinite(a)].astype(np.float64)
    return float(np.abs(x - y).max() / max(np.abs(finite).max(), np.finfo(np.float64).tiny))
