"""A model of reuse in the L2s of an accelerator with chiplets, and a bound that no mapping can beat.

Work-group `i` of the dispatch order runs on XCD `i % xcds`. Each XCD takes its groups in order, `resident` at a time: a
wave of groups. What two groups of one wave share is fetched once; what a later wave shares with an earlier one is still
there if the lines touched in between fit into the L2 (docs/explanation/swizzle.md).
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from hipsynth.simulator.line_sharing import LINE_BYTES, LineSharing
from hipsynth.tuning.swizzle.index_expression import Array


@dataclass(frozen=True)
class Chips:
    """`resident`: work-groups that run on one XCD at the same time; `l2_lines`: lines of one XCD's L2."""

    xcds: int
    resident: int
    l2_lines: int


@dataclass(frozen=True)
class Reuse:
    """The lines that the work-groups of one launch touch, prepared for many orders.

    `groups` and `lines`: [pairs] of work-group and line, lines numbered from 0; `one_in`: the sampled share of lines.
    """

    total_groups: int
    groups: Array
    lines: Array
    one_in: int

    @functools.cached_property
    def sharers(self) -> Array:
        """How many work-groups touch each line, [lines]."""
        return np.bincount(self.lines) if len(self.lines) else np.zeros(0, np.int64)

    def misses(self, order: Array, chips: Chips) -> float:
        """L2 misses of all XCDs. `order`: [groups], the work-group that each dispatched one computes."""
        place = np.empty(self.total_groups, np.int64)
        place[order] = np.arange(self.total_groups)
        xcd, wave = place % chips.xcds, place // chips.xcds // chips.resident
        waves = int(wave.max()) + 1 if len(wave) else 1
        slot = xcd * waves + wave
        key = np.unique(self.lines * (chips.xcds * waves) + slot[self.groups])
        line, slots = np.divmod(key, chips.xcds * waves)
        size = np.bincount(slots, minlength=chips.xcds * waves)
        # Lines that an XCD has touched up to the middle of each of its waves.
        middle = np.cumsum(size.reshape(chips.xcds, waves), axis=1).reshape(-1) - size / 2
        again = (line[1:] == line[:-1]) & (slots[1:] // waves == slots[:-1] // waves)
        near = middle[slots[1:]] - middle[slots[:-1]] <= chips.l2_lines / self.one_in
        return float((len(key) - int((again & near).sum())) * self.one_in)

    def least_misses(self, chips: Chips) -> float:
        """A bound for every assignment of work-groups to XCDs: an XCD runs at most `ceil(groups / xcds)` of them, so a
        line that `k` groups touch is needed, and first missed, in at least `k` divided by that many XCDs."""
        most = -(-self.total_groups // chips.xcds)
        return float((-(-self.sharers // most)).sum() * self.one_in)

    def lines_by_xcd(self, order: Array, chips: Chips) -> list[int]:
        """Distinct lines that each XCD touches: what it has to fetch at least."""
        place = np.empty(self.total_groups, np.int64)
        place[order] = np.arange(self.total_groups)
        pairs = np.unique(self.lines * chips.xcds + (place % chips.xcds)[self.groups])
        return [int(count) * self.one_in for count in np.bincount(pairs % chips.xcds, minlength=chips.xcds)]


@dataclass(frozen=True)
class SharedLines:
    """The lines of memory that the work-groups of a kernel touch, and how many of them several groups do. Of the lines,
    one in `lines_one_in` was followed; misses are those of the L2, `least_misses` with any mapping."""

    lines: int
    shared_lines: int
    groups_per_line: float
    lines_one_in: int
    lines_by_xcd: tuple[int, ...]
    least_misses: float
    modelled_misses: float
    lines_by_xcd_after: tuple[int, ...] | None = None  # with the mapping that was found


def reuse_of(sharing: LineSharing, most_pairs: int = 400_000) -> Reuse:
    """Prepares a launch's touches; more than `most_pairs` are thinned out by lines, drawn with a fixed seed."""
    numbers, lines = np.unique(sharing.touches["line"], return_inverse=True)
    groups, one_in = sharing.touches["group"].astype(np.int64), sharing.one_in
    more = -(-len(lines) // most_pairs)
    if more > 1:
        is_kept = np.random.default_rng(0).permutation(len(numbers)) < len(numbers) // more
        chosen = is_kept[lines]
        lines, groups, one_in = np.unique(lines[chosen], return_inverse=True)[1], groups[chosen], one_in * more
    return Reuse(sharing.groups, groups, lines.astype(np.int64), one_in)


def exchange_between_groups(sharing: LineSharing) -> str:
    """How work-groups exchange data within the launch, "" if they do not: a word that one writes and another uses, or
    that one updates by atomics and another uses otherwise. Then results may depend on their order."""
    touches = np.sort(sharing.touches, order="line")
    if not len(touches):
        return ""
    starts = np.flatnonzero(np.r_[True, touches["line"][1:] != touches["line"][:-1]])
    several = np.diff(np.r_[starts, len(touches)]) > 1
    writes, atomics = touches["writes"], touches["atomics"]
    anyhow = touches["reads"] | writes
    for word in range(LINE_BYTES // 4):
        bit = np.uint32(1 << word)
        wrote = np.add.reduceat((writes & bit != 0).astype(np.int64), starts)
        used = np.add.reduceat((anyhow & bit != 0).astype(np.int64), starts)
        updated = np.add.reduceat((atomics & bit != 0).astype(np.int64), starts)
        both = np.add.reduceat(((atomics & bit != 0) & (anyhow & bit != 0)).astype(np.int64), starts)
        if (several & (wrote > 0) & (used > 1)).any():
            return "a work-group writes what another one reads or writes, so results may depend on their order"
        if (several & (updated > 0) & ((used > both) | ((updated > 1) & (both > 0)))).any():
            return "a work-group uses what another one updates by atomics, so results may depend on their order"
    return ""
