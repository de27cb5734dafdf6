"""mixbench on one GCD of the MI200 class: from pure streaming to pure arithmetic, five types, 17 intensities each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from hipsynth.simulator.device import SimDevice
from hipsynth.simulator.native_core import Dispatch
from studies.validation import bench
from studies.validation.frame import (
    DURATION,
    ComparisonRow,
    ComparisonTable,
    TableCheck,
    check_median_error,
    check_worst_error,
    collect_features,
    compare_metrics,
    read_recording,
)
from studies.validation.timed import TimedValue

TITLE = "mixbench"
SHOWS = """Every work-item reads eight values one block width apart, does N multiply-adds on each, and writes
nothing: 16,384 groups of 256, five types, N from 0 to 512. The metrics are the vendor's formulas, evaluated on the
recorded counters and on ours; FLOPs count a packed instruction as one, and our kernels use packed instructions as
the recorded code does. The recorded code, from an older compiler, has up to 30 more vector instructions per wave
besides the arithmetic, so instructions per cycle are compared only where these make up at most 5 %. The knee is the
N at which the time is 1.5 times that of N = 0."""
QUICK = False

FLAGS = "-O3 -fno-slp-vectorize"  # packed instructions are explicit in the kernels
BYTES = 256 << 20
GROUPS, BLOCK, ARCH = 16384, 256, "gfx90a"
HIT_POINTS, FABRIC_PERCENT, MEDIAN_PERCENT, WORST_PERCENT, KNEE_PERCENT = 1.5, 1.0, 7.0, 20.0, 20.0
KNEE = 1.5
SEEDS = {"float": "f4x", "float2": "ff", "double": "d", "half2": "ee4x", "int": "i4x"}
FMA = ("F16", "F32", "F64")
EXACT = (*(f"SQ_INSTS_VALU_FMA_{kind}" for kind in FMA), "TCP_TOTAL_CACHE_ACCESSES", "TCP_TCC_READ_REQ")
CLOSE = ("TCC_MISS", "TCC_EA_RDREQ")
ALIKE = 0.05  # compare IPC only if the instruction counts of both compilers differ by at most this share
# Tolerances of metrics in their unit; the others inherit the error of the duration.
ALLOWED = {
    "L1_Cache_Arithmetic_Intensity": 0.0,
    "L2_Cache_Arithmetic_Intensity": 0.0,
    "HBM_Arithmetic_Intensity": FABRIC_PERCENT,
    "VALU_Active_Threads": 0.0,
}


@dataclass(frozen=True)
class MixbenchType:
    """One type of the recording; `fma`: the name of its multiply-adds in counters."""

    name: str
    rows: tuple[tuple[float, ...], ...]
    fma: str = ""


@dataclass(frozen=True)
class MixbenchCounters:
    """The recording. `columns`: of the rows of each type; `zeros`: counters that are zero in every row."""

    device: str
    source: str
    columns: tuple[str, ...]
    zeros: tuple[str, ...]
    type: tuple[MixbenchType, ...]


def build_tables() -> Iterator[ComparisonTable]:
    figures = read_recording("mixbench", MixbenchCounters)
    with bench.open_device(figures.device, "mixbench", FLAGS, values=False) as device:
        data = device.core.allocate(BYTES)
        for mix_type in figures.type:
            runs = {int(row[0]): _launch_mix(device, data, mix_type.name, int(row[0])) for row in mix_type.rows}
            yield _make_table(figures, mix_type, runs)


def _launch_mix(device: SimDevice, data: int, kind: str, steps: int) -> Dispatch:
    layout = SEEDS[kind] + "Q"
    seeds = [1] * (len(layout.replace("4x", "")) - 1)
    return device.launch(f"mix_{kind}_{steps}", (GROUPS,), (BLOCK,), layout, *seeds, data)


def _make_table(figures: MixbenchCounters, mix_type: MixbenchType, runs: dict[int, Dispatch]) -> ComparisonTable:
    times: list[ComparisonRow] = []
    rows: list[ComparisonRow] = []
    for values in mix_type.rows:
        figure = dict(zip(figures.columns, values, strict=True)) | dict.fromkeys(figures.zeros, 0)
        steps, duration, products = int(figure.pop("N")), figure.pop(DURATION), figure.pop("FMA")
        figure |= {f"SQ_INSTS_VALU_FMA_{kind}": products * (kind == mix_type.fma) for kind in FMA}
        label = f"N = {steps}"
        timed = TimedValue((runs[steps],))
        times.append(
            ComparisonRow(DURATION, duration, runs[steps]["duration_ns"], WORST_PERCENT, label=label, timed=timed)
        )
        rows += _compare_counters(figure, runs[steps]["counters"], label)
        rows += _compare_metrics(figure, duration, runs[steps], label)
    checks = (check_median_error(times, MEDIAN_PERCENT), check_worst_error(times, WORST_PERCENT), _check_knee(times))
    return ComparisonTable(
        f"mixbench {mix_type.name}",
        figures.device,
        figures.source,
        (*times, *rows),
        "stream with arithmetic",
        collect_features(*runs.values()),
        checks,
    )


def _compare_counters(figure: dict[str, float], ours: dict[str, float], label: str) -> Iterator[ComparisonRow]:
    for name in EXACT:
        if figure[name]:
            yield ComparisonRow(name, figure[name], ours[name], 0.0, label=label)
    for name in CLOSE:
        yield ComparisonRow(name, figure[name], ours[name], FABRIC_PERCENT, label=label)
    yield ComparisonRow(
        "SQ_BUSY_CU_CYCLES", figure["SQ_BUSY_CU_CYCLES"], ours["SQ_BUSY_CU_CYCLES"], WORST_PERCENT, label=label
    )


def _compare_metrics(figure: dict[str, float], duration: float, run: Dispatch, label: str) -> Iterator[ComparisonRow]:
    """The vendor's formulas evaluated on the recorded counters and on ours."""
    ours = run["counters"]
    alike = abs(ours["SQ_INSTS"] / figure["SQ_INSTS"] - 1) <= ALIKE
    for row in compare_metrics(figure, duration, ours, run["duration_ns"], ARCH):
        if row.quantity != "IPC" or alike:
            allowed = HIT_POINTS if row.points else ALLOWED.get(row.quantity, WORST_PERCENT)
            yield replace(row, allowed=allowed, label=label)


def _check_knee(times: list[ComparisonRow]) -> TableCheck:
    """Distance of our knee from the recorded one, in per cent of the recorded N."""
    steps = [int(row.label.removeprefix("N = ")) for row in times]

    def locate_knee(values: list[float]) -> float:
        reached = next(i for i, value in enumerate(values) if value >= KNEE * values[0])
        low, high = values[reached - 1], values[reached]
        return steps[reached - 1] + (steps[reached] - steps[reached - 1]) * (KNEE * values[0] - low) / (high - low)

    theirs, ours = locate_knee([row.recorded for row in times]), locate_knee([row.ours for row in times])
    return TableCheck("distance of the knee", 100 * abs(ours - theirs) / theirs, KNEE_PERCENT)
