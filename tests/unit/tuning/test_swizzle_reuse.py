"""The reuse model and its bound, on accesses whose misses are known."""

from __future__ import annotations

import numpy as np
import pytest

from hipsynth.simulator.line_sharing import TOUCH, LineSharing
from hipsynth.tuning.swizzle.l2_reuse import Chips, Reuse, exchange_between_groups, reuse_of
from hipsynth.tuning.swizzle.mapping import GroupMapping, Spread, Tile


def launch(rows: list[tuple[int, int, int, int, int]], grid: tuple[int, int, int], one_in: int = 1) -> LineSharing:
    return LineSharing("k", "all", grid, (64, 1, 1), False, one_in, np.array(rows, TOUCH))


def matrix(grid: tuple[int, int, int], depth: int = 4) -> Reuse:
    """Work-group (x, y) reads `depth` lines of row y and of column x, as a product of matrices does."""
    rows = []
    for group in range(grid[0] * grid[1]):
        x, y = group % grid[0], group // grid[0]
        rows += [(group, y * depth + i, 1, 0, 0) for i in range(depth)]
        rows += [(group, 1000 + x * depth + i, 1, 0, 0) for i in range(depth)]
    return reuse_of(launch(rows, grid))


def misses(reuse: Reuse, mapping: GroupMapping, grid: tuple[int, int, int], chips: Chips) -> float:
    return reuse.misses(mapping.numbers(grid), chips)


def test_a_cache_that_holds_everything_misses_each_line_once() -> None:
    grid = (16, 16, 1)
    assert misses(matrix(grid), GroupMapping(), grid, Chips(1, 32, 10**6)) == 2 * 16 * 4


def test_streams_miss_whatever_the_order() -> None:
    reuse = reuse_of(launch([(g, g, 1, 0, 0) for g in range(256)], (16, 16, 1)))
    chips = Chips(8, 4, 100)
    for mapping in (GroupMapping(), GroupMapping((Spread(8),)), GroupMapping((Tile(4, 4),))):
        assert misses(reuse, mapping, (16, 16, 1), chips) == 256 == reuse.least_misses(chips)


def test_rows_on_one_xcd_each_save_the_other_copies() -> None:
    """A row of 64 groups reads the same line: dealt out to 8 XCDs it is fetched 8 times, spread by rows once."""
    grid = (64, 8, 1)
    reuse = reuse_of(launch([(g, g // 64, 1, 0, 0) for g in range(512)], grid))
    chips = Chips(8, 16, 1000)
    assert misses(reuse, GroupMapping(), grid, chips) == 64
    assert misses(reuse, GroupMapping((Spread(8),)), grid, chips) == 8 == reuse.least_misses(chips)
    assert reuse.lines_by_xcd(GroupMapping().numbers(grid), chips) == [8] * 8
    assert reuse.lines_by_xcd(GroupMapping((Spread(8),)).numbers(grid), chips) == [1] * 8


def test_a_small_cache_prefers_tiles() -> None:
    grid = (32, 32, 1)
    reuse, chips = matrix(grid), Chips(1, 16, 64)
    assert misses(reuse, GroupMapping((Tile(4, 4),)), grid, chips) < misses(reuse, GroupMapping(), grid, chips)


@pytest.mark.parametrize("xcds", [1, 2, 8])
def test_no_order_has_fewer_misses_than_the_bound(xcds: int) -> None:
    grid, rng = (24, 20, 1), np.random.default_rng(3)
    reuse, chips = matrix(grid), Chips(xcds, 8, 10**6)
    bound = reuse.least_misses(chips)
    orders = [rng.permutation(480) for _ in range(20)]
    orders += [
        GroupMapping((Spread(8), Tile(4, 4))).numbers(grid),
        GroupMapping((Tile(0, 1, inner="columns"),)).numbers(grid),
    ]
    assert bound > 0 and all(reuse.misses(order, chips) >= bound for order in orders)


def test_a_line_that_all_groups_use_is_needed_in_every_xcd() -> None:
    reuse = reuse_of(launch([(g, 7, 1, 0, 0) for g in range(64)], (64, 1, 1)))
    assert reuse.least_misses(Chips(8, 4, 100)) == 8


def test_samples_of_lines_keep_the_misses() -> None:
    rows = [(g, line, 1, 0, 0) for g in range(64) for line in range(g * 50, g * 50 + 100)]
    sharing, chips = launch(rows, (64, 1, 1)), Chips(8, 8, 500)
    whole, part = reuse_of(sharing), reuse_of(sharing, most_pairs=1600)
    assert part.one_in == 4
    order = np.arange(64)
    assert part.misses(order, chips) == pytest.approx(whole.misses(order, chips), rel=0.1)


def test_exchange_between_groups_is_found_word_by_word() -> None:
    assert exchange_between_groups(launch([(0, 1, 0, 0b01, 0), (1, 1, 0, 0b10, 0)], (2, 1, 1))) == ""
    assert exchange_between_groups(launch([(0, 1, 0b11, 0, 0), (1, 1, 0b11, 0, 0)], (2, 1, 1))) == ""
    assert exchange_between_groups(launch([(0, 1, 0b1, 0b1, 0), (1, 2, 0b1, 0b1, 0)], (2, 1, 1))) == ""
    assert "writes" in exchange_between_groups(launch([(0, 1, 0, 0b10, 0), (1, 1, 0b10, 0, 0)], (2, 1, 1)))
    assert "writes" in exchange_between_groups(launch([(0, 1, 0, 0b10, 0), (1, 1, 0, 0b10, 0)], (2, 1, 1)))
    assert exchange_between_groups(launch([(0, 1, 0, 0, 0b1), (1, 1, 0, 0, 0b1)], (2, 1, 1))) == ""
    assert "atomics" in exchange_between_groups(launch([(0, 1, 0, 0, 0b1), (1, 1, 0b1, 0, 0)], (2, 1, 1)))
    assert "atomics" in exchange_between_groups(launch([(0, 1, 0b1, 0, 0b1), (1, 1, 0, 0, 0b1)], (2, 1, 1)))
