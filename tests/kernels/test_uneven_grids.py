"""Does a dispatch take the time of its working work-groups and waves, whatever part of it leaves at once or waits?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hipsynth.simulator.device import SimDevice

SOURCE = Path(__file__).with_name("uneven.hip")
DEVICES = pytest.mark.parametrize("name", ["mi250", "mi300x"])
BYTES, STEPS, GROUP = 64 << 20, 40, 256
MASK = BYTES // 16 - 1


def launch(
    name: str, tmp_path: Path, kernel: str, groups: int, items: int, layout: str, *values: Any
) -> dict[str, Any]:
    device = SimDevice(name, SOURCE, tmp_path)
    data = device.core.allocate(BYTES)
    result: dict[str, Any] = device.launch(kernel, (groups,), (items,), "Q" + layout, data, *values)
    return result


def guarded(name: str, tmp_path: Path, groups: int, working: int) -> float:
    result = launch(name, tmp_path, "guarded", groups, GROUP, "iii", working * GROUP, STEPS, MASK)
    assert result["sampling"]["strategy"] == "exact"
    return float(result["duration_ns"])


@DEVICES
@pytest.mark.parametrize("working", [26, 104, 260, 1040])
def test_groups_that_leave_at_once_cost_only_their_launch(name: str, working: int, tmp_path: Path) -> None:
    few, many = guarded(name, tmp_path, working, working), guarded(name, tmp_path, 4 * working, working)
    empty = guarded(name, tmp_path, 4 * working, 0) - guarded(name, tmp_path, 1, 0)
    assert 0.98 * few < many < 1.02 * few + empty


@DEVICES
@pytest.mark.parametrize("kernel", ["first_wave_works", "others_wait"])
def test_waves_that_leave_or_wait_do_not_shorten_a_group(name: str, kernel: str, tmp_path: Path) -> None:
    alone, beside = (
        launch(name, tmp_path, kernel, 104, items, "ii", STEPS, MASK)["duration_ns"] for items in (64, 1024)
    )
    assert beside == pytest.approx(alone, rel=0.05)


@DEVICES
def test_waves_that_take_turns_take_the_sum_of_their_times(name: str, tmp_path: Path) -> None:
    one, four = (launch(name, tmp_path, "take_turns", 104, items, "ii", STEPS, MASK) for items in (64, 256))
    none = launch(name, tmp_path, "take_turns", 104, 64, "ii", 0, MASK)
    turn = one["duration_ns"] - none["duration_ns"]
    assert four["duration_ns"] - none["duration_ns"] == pytest.approx(4 * turn, rel=0.15)


@DEVICES
def test_equal_groups_all_work(name: str, tmp_path: Path) -> None:
    work = launch(name, tmp_path, "guarded", 208, GROUP, "iii", 208 * GROUP, STEPS, MASK)["work"]
    assert work["working_groups"] == pytest.approx(work["groups"], rel=0.05)  # as far as all take equally long
    assert work["working_waves"] == pytest.approx(work["waves"], rel=0.1)


@DEVICES
def test_groups_that_have_a_cu_each_end_with_the_longest(name: str, tmp_path: Path) -> None:
    """Recorded on an MI300X: lavaMD of 27 boxes takes as much longer than of 8 as its longest box has neighbours."""
    alone = launch(name, tmp_path, "guarded", 1, GROUP, "iii", GROUP, STEPS, MASK)
    beside = launch(name, tmp_path, "lasting", 27, GROUP, "ii", STEPS, MASK)
    last = launch(name, tmp_path, "guarded", 1, GROUP, "iii", GROUP, 27 * STEPS // 8, MASK)
    assert alone["duration_ns"] < 0.5 * beside["duration_ns"]
    assert beside["duration_ns"] == pytest.approx(last["duration_ns"], rel=0.1)


@DEVICES
def test_a_sampled_grid_has_the_working_share_of_the_full_one(name: str, tmp_path: Path) -> None:
    def run(**options: Any) -> dict[str, Any]:
        device = SimDevice(name, SOURCE, tmp_path, values=False, **options)
        working, turns = 8192, 16
        arrays = device.core.allocate(4 * GROUP * working), device.core.allocate(4 * GROUP * working * turns)
        result: dict[str, Any] = device.launch(
            "guarded_columns", (4 * working,), (GROUP,), "QQii", *arrays, working, turns
        )
        return result

    exact, sampled = run(), run(sampling_units=12, sample_above=700_000)
    assert (exact["sampling"]["strategy"], sampled["sampling"]["strategy"]) == ("exact", "sampled")
    for kind in ("groups", "waves"):
        shares = [result["work"][f"working_{kind}"] / result["work"][kind] for result in (exact, sampled)]
        assert shares[0] == pytest.approx(0.25, abs=0.02)
        assert shares[1] == pytest.approx(shares[0], abs=0.08)
    assert sampled["duration_ns"] == pytest.approx(exact["duration_ns"], rel=0.07)


@DEVICES
def test_an_empty_kernel_takes_as_long_as_a_profiler_reports(name: str, tmp_path: Path) -> None:
    """Recorded on an MI250: 2.24 to 2.88 us for three kernels of one wave and one memory instruction."""
    device = SimDevice(name, SOURCE, tmp_path)
    shortest = device.launch("nothing", (1,), (64,), "")["duration_ns"]
    assert 2000 < shortest < (3000 if name == "mi250" else 4000)
