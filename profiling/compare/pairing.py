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
    """(pairs, left in `first`, left in `second`): by name, launch shape and meta-parameters, by name and
    meta-parameters, by name, then by order. The order tells something only if as many kernels are left on both sides.
    """
    pairs: list[tuple[ProfiledKernel, ProfiledKernel, Pairing]] = []
    a, b = list(first), list(second)
    matches, a, b = pair_equal(a, b, lambda kernel: (kernel.name, kernel.grid, kernel.block, _meta_key(kernel)))
    pairs += [(x, y, "launch") for x, y in matches]
    matches, a, b = pair_equal(a, b, lambda kernel: (kernel.name, _meta_key(kernel)) if kernel.meta else id(kernel))
    pairs += [(x, y, "meta") for x, y in matches]
    matches, a, b = _pair_alike(a, b)
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
        matches, a, b = pair_equal(a, b, key)
        pairs += matches
    if len(a) == len(b) == 1:
        pairs, a, b = [*pairs, (a[0], b[0])], [], []
    return pairs, a, b


def _meta_key(kernel: ProfiledKernel) -> tuple[tuple[str, bool | int | str], ...]:
    return tuple(sorted((kernel.meta or {}).items()))


def _pair_alike(
    first: Sequence[ProfiledKernel], second: Sequence[ProfiledKernel]
) -> tuple[list[Pair[ProfiledKernel]], list[ProfiledKernel], list[ProfiledKernel]]:
    """Pairs of kernels with one name: those with most meta-parameters in common first, else in order."""
    ranked = sorted(
        (-len(set(_meta_key(x)) & set(_meta_key(y))), i, j)
        for i, x in enumerate(first)
        for j, y in enumerate(second)
        if x.name == y.name
    )
    taken_a, taken_b = dict[int, int](), set[int]()
    for _, i, j in ranked:
        if i not in taken_a and j not in taken_b:
            taken_a[i] = j
            taken_b.add(j)
    return (
        [(first[i], second[j]) for i, j in sorted(taken_a.items())],
        [kernel for i, kernel in enumerate(first) if i not in taken_a],
        [kernel for j, kernel in enumerate(second) if j not in taken_b],
    )


def pair_equal(
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
