"""Mappings of work-groups: every step is a bijection on every grid; published patterns that are none are named."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hipsynth.core.errors import UsageError
from hipsynth.core.languages import TRITON
from hipsynth.tuning.swizzle import index_expression as e
from hipsynth.tuning.swizzle.mapping import CURVES, Formula, GroupMapping, RowSpread, Spread, Tile, candidate_mappings
from hipsynth.tuning.swizzle.proof import prove_bijection, swaps_digits

GRIDS = st.tuples(st.integers(1, 40), st.integers(1, 40), st.integers(1, 4))
SPREADS = st.sampled_from([Spread, RowSpread]).flatmap(
    lambda kind: st.builds(kind, st.integers(1, 40), st.integers(0, 40))
)
TILES = st.builds(
    Tile,
    st.integers(0, 12),
    st.integers(0, 12),
    st.sampled_from(["rows", "columns"]),
    st.sampled_from(["rows", "columns"]),
    st.sampled_from(["X", "X * Y", "7", "64"]),
)
SIDES = st.sampled_from([2, 4, 8, 16])
CURVED = st.tuples(SIDES, st.sampled_from(CURVES), st.sampled_from(["rows", "columns"])).map(
    lambda drawn: Tile(drawn[0], drawn[0], drawn[2], drawn[1])
)
MAPPINGS = st.lists(SPREADS | TILES | CURVED, min_size=1, max_size=3).map(lambda steps: GroupMapping(tuple(steps)))


@settings(max_examples=150, deadline=None)
@given(MAPPINGS, GRIDS)
def test_every_product_of_steps_is_a_bijection_on_every_grid(mapping: GroupMapping, grid: tuple[int, int, int]) -> None:
    found = mapping.numbers(grid)
    assert (np.sort(found) == np.arange(grid[0] * grid[1] * grid[2])).all()
    assert prove_bijection(mapping, grid).kind == "symbolic"


@pytest.mark.parametrize("grid", [(1, 1, 1), (5, 1, 1), (64, 48, 1), (31, 17, 3), (4096, 1, 1)])
def test_the_grammar_has_no_doubles_and_all_of_it_is_proven(grid: tuple[int, int, int]) -> None:
    mappings = candidate_mappings(grid, 8, 304)
    assert len({mapping.label for mapping in mappings}) == len(mappings)
    assert {prove_bijection(mapping, grid).kind for mapping in mappings} <= {"symbolic"}
    assert len(mappings) > 100 or grid[0] * grid[1] < 64 or grid[1] == 1


def test_spreading_gives_each_xcd_consecutive_groups() -> None:
    found = GroupMapping((Spread(8),)).numbers((80, 1, 1))
    assert (found[0::8] == np.arange(10)).all() and (found[7::8] == np.arange(70, 80)).all()
    runs = GroupMapping((Spread(8, 4),)).numbers((64, 1, 1))
    assert runs[0::8].tolist() == [0, 1, 2, 3, 32, 33, 34, 35]


def test_a_remainder_keeps_its_place() -> None:
    found = GroupMapping((Spread(8),)).numbers((83, 1, 1))
    assert found[80:].tolist() == [80, 81, 82]
    rows = GroupMapping((Tile(4, 1, inner="columns", width="10"),)).numbers((83, 1, 1))
    assert rows[80:].tolist() == [80, 81, 82] and rows[:5].tolist() == [0, 10, 20, 30, 1]


def test_curves_step_between_neighbours() -> None:
    found = GroupMapping((Tile(8, 8, inner="hilbert"),)).numbers((8, 8, 1))
    assert (np.abs(np.diff(found % 8)) + np.abs(np.diff(found // 8)) == 1).all()
    assert GroupMapping((Tile(4, 4, inner="morton"),)).numbers((4, 4, 1))[:6].tolist() == [0, 1, 4, 5, 2, 3]


# Patterns like those of the paper's public experiment branch, where most work was skipped.
BROKEN = {
    "only one block of each XCD's share": ("id % 8 * 8 + id / 8 % 8", (256, 128, 1), "skips"),
    "rounded up where the grid does not divide": ("id % 8 * ((n + 7) / 8) + id / 8", (100, 1, 1), "out of range"),
    "rounded down where the grid does not divide": ("id % 8 * (n / 8) + id / 8", (100, 1, 1), "repeats"),
    "clamped instead of guarded": ("min(id % 8 * ((n + 7) / 8) + id / 8, n - 1)", (101, 1, 1), "repeats"),
    "rows and columns mixed up": ("id % Y * Y + id / Y", (64, 48, 1), "repeats"),
    "a mask for a size that is no power of two": ("id & (n - 1)", (100, 1, 1), "skips"),
    "a difference below 0": ("(id - 5) % n", (1000, 1, 1), "repeats"),
    "a product of more than 32 bits": ("id * 2000000011 % n", (1000, 1, 1), "repeats"),
    "XCD and slot not separated": ("id / 8 * 8 + id % 8 * 8 % n", (64, 1, 1), "out of range"),
}


@pytest.mark.parametrize("text, grid, fault", BROKEN.values(), ids=list(BROKEN))
def test_patterns_that_are_no_bijections_are_rejected(text: str, grid: tuple[int, int, int], fault: str) -> None:
    found = prove_bijection(GroupMapping((Formula(text),)), grid)
    assert (found.kind, found.fault) == ("", fault)
    assert re.search(r"\d+ of \d+", found.reason)


def test_numbers_of_triton_are_signed() -> None:
    grid = (1024, 1, 1)
    odd, below = (GroupMapping((Formula(text),)) for text in ("id * 2000000011 % n", "(id - 5 + n) % n"))
    assert prove_bijection(odd, grid).kind == "exhaustive", "2^32 is a multiple of n"
    assert prove_bijection(odd, grid, TRITON).fault == "out of range"
    assert prove_bijection(below, grid).kind == prove_bijection(below, grid, TRITON).kind == "exhaustive"
    halves = GroupMapping((Formula("(id - 3) / 2 * 2"),)).numbers((5, 1, 1), is_signed=True)
    assert halves.tolist() == [-2, -2, 0, 0, 0], "rounded towards zero"
    with pytest.raises(UsageError, match="more than 31 bits"):
        prove_bijection(GroupMapping((Formula("(id + 1500000000 * 2) % n"),)), grid, TRITON)


def test_a_pattern_that_fits_one_grid_is_proven_for_that_grid_alone() -> None:
    pattern = GroupMapping((Formula("id % 8 * (n / 8) + id / 8"),))
    assert prove_bijection(pattern, (64, 4, 1)).kind == "exhaustive"
    assert prove_bijection(pattern, (65, 4, 1)).kind == ""


def test_groups_of_other_grids_than_the_proven_ones_keep_their_places() -> None:
    pattern = GroupMapping((Formula("id % 8 * 32 + id / 8 + 0 / (X % 5)"),), grids=((64, 4, 1), (256, 1, 1)))
    assert all(prove_bijection(pattern, grid).kind == "exhaustive" for grid in pattern.grids)
    assert pattern.numbers((64, 4, 1))[1] == 32
    assert (pattern.numbers((65, 4, 1)) == np.arange(260)).all()


SYMBOLIC = [
    "select(id < n / 8 * 8, id % 8 * (n / 8) + id / 8, id)",
    "select(id < n / 64 * 64, id / 64 * 64 + id % 8 * 8 + id % 64 / 8, id)",
    "select(id < X * Y, id % Y * X + id / Y, id)",
]
NOT_SYMBOLIC = [
    "id",
    "select(id < n / 8 * 8, id % 8 * (n / 4) + id / 8, id)",  # weights do not fit
    "select(id < n / 8 * 8, id % 8 * (n / 8) + id / 4, id)",  # digits overlap
    "select(id < n / 8 * 8, id % 8 * (n / 8), id)",  # a digit is lost
    "select(id < 2 * n, id % 8 * (n / 8) + id / 8, id)",  # more than the grid
    "select(id < 1000, id % 10 * 100 + id / 10, id)",  # some grids are smaller
    "select(id < n / 8 * 8, id % 8 * (n / 8) + id / 8, n - 1)",
]


def test_digit_swaps_are_proven_symbolically_and_others_are_not() -> None:
    assert [text for text in SYMBOLIC if not swaps_digits(e.parse_formula(text))] == []
    assert [text for text in NOT_SYMBOLIC if swaps_digits(e.parse_formula(text))] == []


@pytest.mark.parametrize(
    "text", ["__import__('os')", "id.real", "id if n else 0", "foo", "id +", "2 ** 3", "1.5", "-1"]
)
def test_formulas_are_integer_expressions_and_nothing_else(text: str) -> None:
    with pytest.raises(UsageError):
        e.parse_formula(text)


def test_formulas_are_read_as_c_reads_them() -> None:
    for text, same in (
        ("id & 1 == 1", "id & (1 == 1)"),
        ("id < 8 ? n : 1", "select(id < 8, n, 1)"),
        ("id // 010", "id / 8"),
    ):
        assert e.parse_formula(text) == e.parse_formula(same)
    with pytest.raises(UsageError, match="at most 200"):
        e.parse_formula("+".join(["id"] * 600))


def test_a_division_by_zero_is_named() -> None:
    with pytest.raises(UsageError, match="divides by zero"):
        prove_bijection(GroupMapping((Formula("id / (n - n)"),)), (8, 1, 1))


def test_the_emitted_source_computes_the_same_numbers(tmp_path: Path) -> None:
    """The device function, compiled as plain C++ with the coordinates as globals."""
    grids = [(7, 5, 1), (33, 17, 2), (64, 1, 1), (12, 12, 1)]
    mappings = [
        GroupMapping((Spread(8, 4), Tile(4, 4, inner="hilbert"))),
        GroupMapping((Spread(8), Tile(8, 8, "columns", "morton"))),
        GroupMapping((Tile(3, 5, "columns", "columns", "X * Y"),)),
        GroupMapping((RowSpread(4, 2),)),
        GroupMapping((RowSpread(8), RowSpread(3))),
        GroupMapping((Formula("select(id < X * Y, (id % Y) * X + id / Y, id) ^ (id & 0) | (id >> 31)"),)),
        GroupMapping((Tile(4, 1, inner="columns", width="10"), Spread(304))),
        GroupMapping((Formula("(id - 5) % n"),)),
        GroupMapping((Formula("(id * 2000000011 >> 3) % n"),)),
        GroupMapping((Formula("id % 8 * 8 + id / 8"),), grids=((64, 1, 1), (32, 2, 1))),
        GroupMapping((RowSpread(4, 2),), grids=((33, 17, 2),)),
    ]
    functions = "".join(mapping.source(f"f{i}") for i, mapping in enumerate(mappings))
    calls = "".join(f"show(f{i}());" for i in range(len(mappings)))
    loops = "".join(f"run({x}, {y}, {z});" for x, y, z in grids)
    (tmp_path / "f.cpp").write_text(
        "#include <cstdio>\n#define __device__\n#define __ffs __builtin_ffs\nstruct dim3 { unsigned x, y, z;"
        " dim3(unsigned a = 0, unsigned b = 0, unsigned c = 0) : x(a), y(b), z(c) {} };\ndim3 gridDim, blockIdx;\n"
        + functions
        + 'void show(dim3 b) { std::printf("%u ", (b.z * gridDim.y + b.y) * gridDim.x + b.x); }\n'
        + "void run(unsigned x, unsigned y, unsigned z) { gridDim = dim3(x, y, z);"
        + " for (unsigned i = 0; i < x * y * z; ++i) { blockIdx = dim3(i % x, i / x % y, i / x / y);"
        + calls
        + ' } std::puts(""); }\nint main() { '
        + loops
        + " }\n"
    )
    subprocess.run(["clang++-22", "-O1", "-w", "f.cpp", "-o", "f"], cwd=tmp_path, check=True)
    lines = subprocess.run([tmp_path / "f"], capture_output=True, text=True, check=True).stdout.splitlines()
    for grid, line in zip(grids, lines, strict=True):
        found = np.array(line.split(), np.int64).reshape(-1, len(mappings))
        for i, mapping in enumerate(mappings):
            assert (found[:, i] == mapping.numbers(grid)).all(), (grid, mapping.label)
