"""Do two arrays of floating-point numbers differ by rounding alone?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
# How the numbers of a kind are stored. A bfloat16 is the upper half of a float.
WORDS = {"float": np.uint32, "double": np.uint64, "half": np.uint16, "bfloat16": np.uint16}
_STORED = {"float": np.float32, "double": np.float64, "half": np.float16}
# Rounding leaves most numbers nearly as they are, also small ones beside large ones. Of those above a NOISE-th of the
# tolerance, at most SHARE may differ by more than OWN_TOLERANCE of themselves, or OWN_TOLERANCES times the tolerance.
NOISE, SHARE, OWN_TOLERANCE, OWN_TOLERANCES = 16, 0.01, 0.01, 50
# Where the last bit of every input has been moved, a number may differ by so many times what that changed in it, which
# leaves room for sums of many terms in another order. The share MOST_OUTLIER_SHARE of them may differ by more, where a
# comparison decides.
ROUNDINGS = {"float": 256.0, "double": 256.0, "half": 16.0, "bfloat16": 16.0}
MOST_OUTLIER_SHARE = 0.001
# By size of a number, how many times the smallest normal one those are "a little larger" than denormal ones.
LITTLE_LARGER = {2: 2.0**4, 4: 2.0**26, 8: 2.0**60}
# From so many numbers on, the usual change of one says what the last bits of the inputs change in any other. Where
# fewer than LEAST_MOVED_SHARE of them move at all, those that do take a step, such as a rounding up instead of down:
# outliers may take the usual step, and the rest none.
LEAST_NUMBERS_FOR_MEDIAN = 64
LEAST_MOVED_SHARE = 0.25
QUIET_NANS = {"float": 0x7FC00000, "double": 0x7FF8000000000000, "half": 0x7E00, "bfloat16": 0x7FC0}


@dataclass(frozen=True)
class NumberDifference:
    """`error`: the largest difference, relative to the largest number; `reason`: why that is no rounding, or ""."""

    error: float
    reason: str = ""


def compare_numbers(
    before: bytes,
    after: bytes,
    kind: str,
    relative: float,
    nudged: Sequence[bytes] = (),
    roundings: float | None = None,
    may_hold_integers: bool = False,
) -> NumberDifference:
    """Compares numbers of a kind. `nudged`: the first ones as they become when the inputs' last bits are moved: then
    each number has an allowance of its own, `roundings` times what that changed in it (None: as ROUNDINGS says).
    `may_hold_integers`: nobody knows that these are all numbers of the kind, as of structures."""
    if len(before) != len(after) or len(before) % np.dtype(WORDS[kind]).itemsize:
        return NumberDifference(0.0, f"differs, and not only in numbers of type {kind}")
    ours, theirs = (read_numbers(data, kind) for data in (before, after))
    differs: Array = ~_same_words(before, after, kind)
    finite: Array = np.isfinite(ours) & np.isfinite(theirs)
    among = may_hold_integers and _differ_in_integers(ours, theirs, differs)
    if _are_integers(ours) or among or not finite[differs].all():
        return NumberDifference(0.0, f"differs, and not only in numbers of type {kind}")
    x, y = ours[finite].astype(np.float64), theirs[finite].astype(np.float64)
    if not len(x):
        return NumberDifference(0.0)
    largest = max(float(np.abs(x).max()), float(np.finfo(np.float64).tiny))
    error = float(np.abs(x - y).max()) / largest
    scale = _response(ours, kind, nudged)
    if scale is None:
        return NumberDifference(error, _normwise_reason(x, y, error, relative))
    return NumberDifference(error, _elementwise_reason(x, y, scale[finite], relative, roundings or ROUNDINGS[kind]))


def read_numbers(data: bytes, kind: str) -> Array:
    """The numbers of a kind that bytes hold."""
    if kind == "bfloat16":
        numbers: Array = (np.frombuffer(data, np.uint16).astype(np.uint32) << 16).view(np.float32)
        return numbers
    return np.frombuffer(data, _STORED[kind])


def _same_words(before: bytes, after: bytes, kind: str) -> Array:
    """Which numbers are the same, bit for bit; quiet NaNs of either sign are the same."""
    word = np.dtype(WORDS[kind])
    a, b = np.frombuffer(before, word), np.frombuffer(after, word)
    unsigned = word.type((1 << (8 * word.itemsize - 1)) - 1)
    quiet = word.type(QUIET_NANS[kind])
    same: Array = (a == b) | (((a & unsigned) == quiet) & ((b & unsigned) == quiet))
    return same


def _are_integers(numbers: Array) -> bool:
    """Whether these are rather integers: read as floating-point numbers, small integers are denormal."""
    finite = np.abs(numbers[np.isfinite(numbers)])
    return bool(len(finite)) and 0 < finite.max() < np.finfo(numbers.dtype).smallest_normal


def _differ_in_integers(ours: Array, theirs: Array, differs: Array) -> bool:
    """Whether numbers differ that are rather integers: denormal ones, of which there are more than numbers a little
    larger, as underflows would leave."""
    least = float(np.finfo(ours.dtype).smallest_normal)
    sizes = np.abs(ours.astype(np.float64))
    denormal: Array = (sizes > 0) & (sizes < least)
    if int(denormal.sum()) <= int(((sizes >= least) & (sizes < least * LITTLE_LARGER[ours.dtype.itemsize])).sum()):
        return False
    others = np.abs(theirs.astype(np.float64))
    return bool((differs & (denormal | ((others > 0) & (others < least)))).any())


def _response(ours: Array, kind: str, nudged: Sequence[bytes]) -> Array | None:
    """How far each number moved when the last bits of the inputs did; None if that is not known, or none moved."""
    size = ours.size * np.dtype(WORDS[kind]).itemsize
    others = [read_numbers(data, kind) for data in nudged if len(data) == size]
    if not others:
        return None
    with np.errstate(invalid="ignore"):
        moved: Array = np.max([np.abs(other.astype(np.float64) - ours.astype(np.float64)) for other in others], axis=0)
    moved[~np.isfinite(moved)] = np.inf  # whether it is a number at all depends on the last bits
    return moved if (moved[np.isfinite(moved)] > 0).any() else None


def _elementwise_reason(x: Array, y: Array, scale: Array, relative: float, roundings: float) -> str:
    allowed = np.maximum(relative * np.abs(x), roundings * np.maximum(scale, _usual_change(x, scale)))
    difference = np.abs(x - y)
    beyond: Array = difference > allowed
    if not beyond.any():
        return ""
    largest = float(np.abs(x).max())
    worst = float(difference[beyond].max())
    step = float(np.median(scale[_find_moved(scale)])) if _take_steps(scale) else 0.0
    if worst > max(relative * largest, step):
        return f"differs by {worst / max(largest, float(np.finfo(np.float64).tiny)):.2g} of its largest number"
    if beyond.sum() > MOST_OUTLIER_SHARE * len(x):
        return f"differs by more than rounding explains in {int(beyond.sum())} of its {len(x)} numbers"
    return ""


def _find_moved(scale: Array) -> Array:
    moved: Array = np.isfinite(scale) & (scale > 0)
    return moved


def _take_steps(scale: Array) -> bool:
    """Whether the last bits of the inputs change few of many numbers: those that a rounding or comparison decides."""
    moved = int(_find_moved(scale).sum())
    return len(scale) >= LEAST_NUMBERS_FOR_MEDIAN and 0 < moved < LEAST_MOVED_SHARE * len(scale)


def _usual_change(x: Array, scale: Array) -> Array:
    """What the last bits of the inputs usually change in a number: where these are few, and perhaps of different kinds,
    such as a sum and a mean, in one of its size."""
    moves = _find_moved(scale)
    if len(x) < LEAST_NUMBERS_FOR_MEDIAN:
        moves &= x != 0
    if not moves.any() or _take_steps(scale):
        return np.zeros_like(x)
    if len(x) >= LEAST_NUMBERS_FOR_MEDIAN:
        return np.full_like(x, np.median(scale[moves]))
    sizes: Array = np.median(scale[moves] / np.abs(x[moves])) * np.abs(x)
    return sizes


def _normwise_reason(x: Array, y: Array, error: float, relative: float) -> str:
    if error > relative:
        return f"differs by {error:.2g} of its largest number"
    size = np.maximum(np.abs(x), np.abs(y))
    counted = size > size.max() * relative / NOISE
    differs = np.abs(x - y)[counted] > max(OWN_TOLERANCE, OWN_TOLERANCES * relative) * size[counted]
    return "differs in many of its small numbers" if differs.sum() > SHARE * counted.sum() else ""
