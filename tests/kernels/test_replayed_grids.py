"""Grids of identical work-groups are replayed from a recorded trace, with exact counters; other grids are not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hipsynth.simulator.device import SimDevice

SOURCE = Path(__file__).with_name("replayed.hip")
PRODUCTS = Path(__file__).parents[2] / "benchmarks" / "kernels.hip"
GRID, TURNS = (40, 32), 64
ABOVE = 200_000  # work above which a grid does not run in full; it is replayed up to twenty times that
DEVICES = ("mi250", "mi300x")


def launches(name: str, scratch: Path, kernel: str, times: int = 1, **options: Any) -> list[dict[str, Any]]:
    """The dispatches of one kernel after each other on a fresh device."""
    device = SimDevice(name, SOURCE, scratch, values=False, **options)
    many = GRID[0] * GRID[1] * 256 * 16
    arguments = (device.core.allocate(many), device.core.allocate(many * TURNS), device.core.allocate(4096), TURNS)
    return [device.launch(kernel, GRID, (256,), "QQQi", *arguments) for _ in range(times)]


def product(name: str, scratch: Path, kernel: str, tile: int, rows: int, **options: Any) -> dict[str, Any]:
    device = SimDevice(name, PRODUCTS, scratch, values=False, **options)
    matrices = [device.core.allocate(4 * rows * rows) for _ in range(3)]
    found: dict[str, Any] = device.launch(kernel, (rows // tile,) * 2, (256,), "QQQi", *matrices, rows)
    return found


def strategy(result: dict[str, Any]) -> str:
    return str(result["sampling"]["strategy"])


def check_equal(exact: dict[str, Any], replayed: dict[str, Any]) -> None:
    """In all but how they came about."""
    assert (strategy(exact), strategy(replayed)) == ("exact", "replayed")
    how = replayed["sampling"]
    assert how["groups_simulated"] == exact["sampling"]["groups_simulated"] and how["groups_recorded"] > 0
    assert not any(how["error"].values())
    assert {**replayed, "sampling": None} == {**exact, "sampling": None}


@pytest.mark.parametrize("name", DEVICES)
@pytest.mark.parametrize(("kernel", "above"), [("alike", ABOVE * 20), ("cut_up", ABOVE * 5)])
def test_identical_work_groups_are_replayed_exactly(name: str, kernel: str, above: int, tmp_path: Path) -> None:
    """Also in a second dispatch, when the Infinity Cache holds data of the first."""
    exact = launches(name, tmp_path, kernel, 2)
    replayed = launches(name, tmp_path, kernel, 2, sampling_units=12, sample_above=above)
    assert len(exact) == 2
    for one, other in zip(exact, replayed, strict=True):
        check_equal(one, other)


@pytest.mark.parametrize("name", DEVICES)
@pytest.mark.parametrize("kernel", ["bounded", "scattered", "chased", "uneven"])
def test_different_work_groups_are_not_replayed(name: str, kernel: str, tmp_path: Path) -> None:
    """They are less work than `cut_up`, which is replayed under the same limit."""
    (result,) = launches(name, tmp_path, kernel, sampling_units=12, sample_above=ABOVE * 5)
    assert strategy(result) == "sampled" and not result["unreplayed"]


def test_grids_that_are_too_large_to_replay_are_sampled(tmp_path: Path) -> None:
    (result,) = launches("mi250", tmp_path, "alike", sampling_units=12, sample_above=ABOVE)
    assert strategy(result) == "sampled" and result["unreplayed"]
    (larger,) = launches("mi250", tmp_path, "alike", sampling_units=12, sample_above=ABOVE, replayable=512)
    assert strategy(larger) == "replayed" and not larger["unreplayed"]


@pytest.mark.parametrize(("replayable", "replays"), [(128, 1), (256, 2), (512, 3)])
def test_replays_of_a_device_share_their_limit(replayable: int, replays: int, tmp_path: Path) -> None:
    how = {"sampling_units": 12, "sample_above": ABOVE, "replayable": replayable, "reuse": False}
    results = launches("mi250", tmp_path, "alike", 3, **how)
    assert [strategy(each) for each in results] == ["replayed"] * replays + ["sampled"] * (3 - replays)
    assert [each["unreplayed"] for each in results] == [strategy(each) == "sampled" for each in results]


@pytest.mark.parametrize(("kernel", "above"), [("alike", ABOVE * 3), ("cut_up", 250_000)])
def test_a_part_of_a_grid_is_replayed(kernel: str, above: int, tmp_path: Path) -> None:
    (exact,) = launches("mi250", tmp_path, kernel)
    (part,) = launches("mi250", tmp_path, kernel, sampling_units=12, sample_above=above, replayable=40, in_part=True)
    how = part["sampling"]
    assert strategy(part) == "sampled" and not part["unreplayed"] and how["groups_recorded"] > 0
    assert 1.25 * 728 < how["groups_simulated"] < exact["sampling"]["groups_simulated"]
    for name, count in exact["counters"].items():
        if name.startswith(("SQ_WAVES", "SQ_INSTS", "SQ_ITEMS", "SQ_LDS", "EXACT_FLOPS")):
            assert part["counters"][name] == count, name
    for name in ("TCP_TOTAL_CACHE_ACCESSES", "TCC_READ", "TCC_WRITE", "TCC_MISS", "TCC_EA_RDREQ"):
        assert part["counters"][name] == pytest.approx(exact["counters"][name], rel=0.05), name
    assert part["duration_ns"] == pytest.approx(exact["duration_ns"], rel=0.08)


@pytest.mark.parametrize("name", DEVICES)
@pytest.mark.parametrize("kernel", ["product_64", "product_64_buffered", "product_matrix"])
def test_products_are_replayed_exactly(name: str, kernel: str, tmp_path: Path) -> None:
    exact, replayed = (
        product(name, tmp_path, kernel, 64, 1024, **options)
        for options in ({}, {"sampling_units": 12, "sample_above": 3_000_000})
    )
    check_equal(exact, replayed)


@pytest.mark.full
@pytest.mark.parametrize("name", DEVICES)
@pytest.mark.parametrize(
    ("kernel", "tile"), [("product_64", 64), ("product_64_buffered", 64), ("product_128", 128), ("product_matrix", 64)]
)
def test_large_products_are_replayed_exactly(name: str, kernel: str, tile: int, tmp_path: Path) -> None:
    """As `synth profile` does by default."""
    exact, replayed = (
        product(name, tmp_path, kernel, tile, 4096, **options) for options in ({}, {"sampling_units": 12})
    )
    check_equal(exact, replayed)
