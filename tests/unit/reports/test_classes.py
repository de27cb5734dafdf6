"""The class of a kernel from its counters: one hand-made kernel of each."""

from __future__ import annotations

import pytest

from hipsynth.profiling.uncertainty import classes, expected_error

WAVES = 1 << 16
LONG = 1e6


def counters(**changes: float) -> dict[str, float]:
    """A float copy of 64 lanes per wave on gfx90a: 4 look-ups, 4 read and 4 write requests, 2 + 2 lines."""
    one = {
        "SQ_INSTS_VALU": 6.0, "SQ_INSTS_VMEM_RD": 1.0, "SQ_INSTS_VMEM_WR": 1.0, "TCP_TOTAL_CACHE_ACCESSES": 8.0,
        "TCP_TCC_READ_REQ": 4.0, "TCP_TCC_WRITE_REQ": 4.0, "TCC_MISS": 4.0, "EXACT_READ_BYTES": 256.0,
        "EXACT_WRITE_BYTES": 256.0,
    }  # fmt: skip
    return {name: WAVES * value for name, value in {**one, **changes}.items()}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, classes.STREAMING),
        ({"TCC_MISS": 1.0}, classes.REUSE),
        # A column of a matrix: a line per lane, all of which the L2 still has.
        ({"TCP_TOTAL_CACHE_ACCESSES": 128.0, "TCP_TCC_READ_REQ": 64.0, "TCC_MISS": 4.0}, classes.STRIDED),
        # The same, from memory each time.
        ({"TCP_TOTAL_CACHE_ACCESSES": 128.0, "TCP_TCC_READ_REQ": 64.0, "TCC_MISS": 66.0}, classes.GATHER),
        ({"SQ_INSTS_VALU": 500.0}, classes.LOOPS),
        ({"SQ_INSTS_LDS": 2.0}, classes.LDS),
        ({"TCP_TCC_ATOMIC_WITHOUT_RET_REQ": 64.0}, classes.ATOMICS),
    ],
)
def test_one_kernel_of_each_class(changes: dict[str, float], expected: str) -> None:
    assert classes.classify(counters(**changes), LONG) == expected
    assert classes.classify(counters(**changes), classes.SHORT_NS - 1) == classes.SHORT


def test_misses_of_scalar_loads_do_not_make_a_gather() -> None:
    """Arithmetic only, whose arguments and instructions missed the L2."""
    assert classes.classify({"SQ_INSTS_VALU": 1000.0, "TCC_MISS": 12.0}, LONG) == classes.LOOPS


def test_a_short_kernel_is_short_for_its_time_only() -> None:
    assert expected_error.class_of("Duration", counters(), 1e3) == classes.SHORT
    assert expected_error.class_of("L2_Cache_Hit_Rate", counters(), 1e3) == classes.STREAMING


@pytest.mark.parametrize(
    ("quantity", "sort"),
    [
        ("Duration", expected_error.TIME),
        ("L1_Cache_Bandwidth", expected_error.TIME),
        ("IPC", expected_error.TIME),
        ("L2_Cache_Hit_Rate", expected_error.L2_HIT),
        ("TCC_EA0_RDREQ", expected_error.TRAFFIC),
        ("HBM_Arithmetic_Intensity", expected_error.TRAFFIC),
        ("SQ_INSTS_VALU", None),
        ("L1_Cache_Arithmetic_Intensity", None),
    ],
)
def test_what_an_error_follows_from(quantity: str, sort: str | None) -> None:
    assert expected_error.sort_of(quantity) == sort
