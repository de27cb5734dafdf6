"""Finds the counterparts of kernels and targets in two profiles."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TypeVar

from hipsynth.profiling.compare.documents import Pairing
from hipsynth.profiling.reports.documents import ProfiledKernel, ProfileResult

T = TypeVar("T")
Pair = tuple[T, T]


def pair_kernels(
    first: Sequence[ProfiledKernel], second: Sequence[ProfiledKernel]
) -> tuple[list[tuple[ProfiledKernel, ProfiledKernel, Pairing]], list[ProfiledKernel], list[ProfiledKernel]]:
    """(pairs, left in `first`, left in `second`): by name and launch shape, then by name, then by order. The order
    tells something only if as many kernels are left on both sides."""
    pairs: list[tuple[ProfiledKernel, ProfiledKernel, Pairing]] = []
    a, b = list(first), list(second)
    matches, a, b = _pair_equal(a, b, lambda kernel: (kernel.name, kernel.grid, kernel.block))
    pairs += [(x, y, "launch") for x, y in matches]
    matches, a, b = _pair_equal(a, b, lambda kernel: kernel.name)
    pairs += [(x, y, "name") for x, y in matches]
    if len(a) == len(b):
        pairs += [(x, y, "order") for x, y in zip(a, b, strict=True)]
        a, b = [], []
    place = {id(kernel): number for number, kernel in enumerate(first)}
    return sorted(pairs, key=lambda pair: place[id(pair[0])]), a, b


def pair_targets(
    first: Sequence[ProfileResult], second: Sequence[ProfileResult]
) -> tuple[list[Pair[ProfileResult]], list[ProfileResult], list[ProfileResult]]:
    """(pairs, left in `first`, left in `second`): equal targets; then equal devices; else one left on each side is a
    pair, as for two devices that were asked for."""
    pairs: list[Pair[ProfileResult]] = []
    a, b = list(first), list(second)
    keys: tuple[Callable[[ProfileResult], Hashable], ...] = (
        lambda result: (result.device, result.flags),
        lambda result: result.device,
    )
    for key in keys:
        matches, a, b = _pair_equal(a, b, key)
        pairs += matches
    if len(a) == len(b) == 1:
        pairs, a, b = [*pairs, (a[0], b[0])], [], []
    return pairs, a, b


def _pair_equal(
    first: Sequence[T], second: Sequence[T], key: Callable[[T], Hashable]
) -> tuple[list[Pair[T]], list[T], list[T]]:
    """Pairs of items with equal keys, in order; and what is left on each side."""
    waiting: dict[Hashable, list[T]] = {}
    for item in second:
        waiting.setdefault(key(item), []).append(item)
    pairs, left = list[Pair[T]](), list[T]()
    for item in first:
        if others := waiting.get(key(item)):
            pairs.append((item, others.pop(0)))
        else:
            left.append(item)
    unused = {id(item) for items in waiting.values() for item in items}
    return pairs, left, [item for item in second if id(item) in unused]
