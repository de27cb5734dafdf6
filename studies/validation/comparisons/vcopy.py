"""Vector copy: every recorded instruction, vL1D, L2 and fabric counter of two dispatches on three devices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from hipsynth.simulator.device import SimDevice
from hipsynth.simulator.native_core import Dispatch
from studies.validation import bench
from studies.validation.frame import (
    DURATION,
    ComparisonRow,
    ComparisonTable,
    collect_features,
    compare_counters,
    compare_metrics,
    read_recorded_rows,
)
from studies.validation.timed import TimedValue

TITLE = "Vector copy"
SHOWS = """`c[id] = a[id]` over 1,048,576 doubles, block 256, first and second dispatch. Instruction and vL1D counts
are the same in every recording and must be equal; L2 misses and fabric requests scatter by up to 0.07 % between
recordings and may differ by 0.5 %, the L2 hit rate by 1.5 points, durations by 15 %. The counters of the MI300X come
from a system with ROCm 6.2, which took 16.2 and 13.7 us; another one with ROCm 7.0 took half as long with the same
counters, and we compare durations with the latter. The gfx90a recordings come from a 104-CU device of the MI210
class, which equals one GCD of an MI250. Its clock had not risen yet in the first dispatch, as the recorded busy cycles
show: 0.87 GHz. We compare its times with those of a device of that clock."""
QUICK = True

ELEMENTS = 1 << 20
CLOCKED = ("core", "vector", "f64", "matrix")
BUSY = "SQ_BUSY_CU_CYCLES"
NEAR_PERCENT = 0.5
L2_HIT_POINTS = 1.5
DURATION_PERCENT = 15.0


@dataclass(frozen=True)
class RecordedDispatch:
    """One recorded dispatch. `exact`, `near`, `shown`: counters, by how closely ours must agree. `clock_mhz`: at which
    clock it was recorded, if not at the device's."""

    name: str
    device: str
    kernel: str
    dispatch: int
    source: str
    duration_ns: float
    l2_hit_percent: float
    exact: Mapping[str, float]
    near: Mapping[str, float]
    shown: Mapping[str, float]
    clock_mhz: float | None = None
    earlier_duration_ns: float | None = None  # of another device of the kind


def build_tables() -> Iterator[ComparisonTable]:
    targets = read_recorded_rows("vcopy", "target", RecordedDispatch)
    for name in dict.fromkeys(target.device for target in targets):
        with bench.open_device(name, "streams") as device:
            results = _launch_copies(device)
            for target in targets:
                if target.device == name:
                    dispatch, clocks = results[target.dispatch], _list_clocks(target)
                    if clocks:
                        dispatch = _apply_clock(target, dispatch, clocks)
                    yield compare_dispatch(
                        target, dispatch, device.table.arch, "copy of doubles", DURATION_PERCENT, clocks
                    )


def _list_clocks(target: RecordedDispatch) -> dict[str, float]:
    """The constants of the device table that the clock of a recording replaces."""
    return {} if target.clock_mhz is None else {f"clock.{unit}_mhz": float(target.clock_mhz) for unit in CLOCKED}


def _apply_clock(target: RecordedDispatch, dispatch: Dispatch, clocks: Mapping[str, float]) -> Dispatch:
    """The dispatch with the times that it has at the clock at which it was recorded."""
    with bench.open_device(target.device, "streams", constants=clocks) as device:
        slow = _launch_copies(device)[target.dispatch]
    counters = {**dispatch["counters"], BUSY: slow["counters"][BUSY]}
    return {**dispatch, "counters": counters, "duration_ns": slow["duration_ns"], "work": slow["work"]}


def _launch_copies(device: SimDevice) -> list[Dispatch]:
    a, b, c = (device.core.allocate(8 * ELEMENTS) for _ in range(3))
    return [device.launch("copy_f64", (4096,), (256,), "QQQii", a, b, c, ELEMENTS, 1) for _ in range(2)]


def compare_dispatch(
    target: RecordedDispatch,
    dispatch: Dispatch,
    arch: str,
    kernels: str,
    duration_percent: float | None = None,
    clocks: Mapping[str, float] | None = None,
) -> ComparisonTable:
    """Compares counters, metrics and duration of one recorded dispatch with ours; metrics are shown, not asserted."""
    ours, figures = dispatch["counters"], {**target.exact, **target.near, **target.shown}
    hit = 100 * ours["TCC_HIT"] / (ours["TCC_HIT"] + ours["TCC_MISS"])
    rows = [
        *compare_counters(target.exact, ours, 0.0),
        *compare_counters(target.near, ours, NEAR_PERCENT),
        *compare_counters(target.shown, ours, None),
        ComparisonRow("L2_Cache_Hit_Rate", target.l2_hit_percent, hit, L2_HIT_POINTS, points=True),
        *(
            row
            for row in compare_metrics(figures, target.duration_ns, ours, dispatch["duration_ns"], arch)
            if "L2_Cache_Hit" not in row.quantity
        ),
        ComparisonRow(
            DURATION,
            target.duration_ns,
            dispatch["duration_ns"],
            duration_percent,
            timed=TimedValue((dispatch,), replaced=clocks or {}),
        ),
    ]
    return ComparisonTable(target.name, target.device, target.source, tuple(rows), kernels, collect_features(dispatch))
