"""mixbench on one GCD of the MI200 class: from a pure stream to pure arithmetic, five types, 17 intensities each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from profiling.sim.device import SimDevice
from profiling.trust import bench
from profiling.trust.frame import DURATION, Check, Row, Table, features, median_error, recorded, worst_error
from profiling.trust.points import Point

TITLE = "mixbench"
SHOWS = """Every work-item reads eight values a block width apart, does N multiply-adds on each, and writes nothing:
16,384 groups of 256, five types, N from 0 to 512. FLOPs are those of the profiler's formula, which counts a packed
instruction as one; our kernels pack as the recorded code does. Beside the arithmetic that code has up to 30 vector
instructions more per wave, from an older compiler. The knee is the N at which the time is half as long again as that
of N = 0."""
QUICK = False

FLAGS = "-O3 -fno-slp-vectorize"  # the kernels say themselves what is packed
BYTES = 256 << 20
GROUPS, BLOCK = 16384, 256
HIT_POINTS, FABRIC_PERCENT, MEDIAN_PERCENT, WORST_PERCENT, KNEE_PERCENT = 1.5, 1.0, 7.0, 20.0, 20.0
KNEE = 1.5
SEEDS = {"float": "f4x", "float2": "ff", "double": "d", "half2": "ee4x", "int": "i4x"}
FMA = {"half2": "F16", "float": "F32", "float2": "F32", "double": "F64"}


def tables() -> Iterator[Table]:
    figures = recorded("mixbench")
    with bench.device(figures["device"], "mixbench", FLAGS, values=False) as device:
        data = device.core.allocate(BYTES)
        for found in figures["type"]:
            runs = {row[0]: _run(device, data, found["name"], row[0]) for row in found["rows"]}
            yield _table(figures, found, runs)


def measure(device: SimDevice, figures: dict[str, Any]) -> Iterator[Point]:
    """The durations alone, for the fit of constants."""
    data = device.core.allocate(BYTES)
    for found in figures["type"]:
        for steps, duration, *_ in found["rows"]:
            run = _run(device, data, found["name"], steps)
            yield Point(DURATION, f"{found['name']}, N = {steps}", duration, 1.0, (run,), inverted=True)


def _run(device: SimDevice, data: int, kind: str, steps: int) -> dict[str, Any]:
    layout = SEEDS[kind] + "Q"
    seeds = [1] * (len(layout.replace("4x", "")) - 1)
    return device.launch(f"mix_{kind}_{steps}", (GROUPS,), (BLOCK,), layout, *seeds, data)


def _table(figures: dict[str, Any], found: dict[str, Any], runs: dict[int, dict[str, Any]]) -> Table:
    columns = figures["columns"]
    times: list[Row] = []
    rows: list[Row] = []
    for values in found["rows"]:
        figure = dict(zip(columns, values, strict=True))
        run = runs[figure["N"]]
        label = f"N = {figure['N']}"
        times.append(Row(DURATION, figure["duration_ns"], run[DURATION], WORST_PERCENT, label=label))
        rows += _counted(figure, run["counters"], found["name"], label)
    checks = (median_error(times, MEDIAN_PERCENT), worst_error(times, WORST_PERCENT), _knee(times))
    return Table(
        f"mixbench {found['name']}",
        figures["device"],
        figures["source"],
        (*times, *rows),
        "stream with arithmetic",
        features(*runs.values()),
        checks,
    )


def _counted(figure: dict[str, float], ours: dict[str, float], kind: str, label: str) -> Iterator[Row]:
    if kind in FMA:
        flops = 128 * ours[f"SQ_INSTS_VALU_FMA_{FMA[kind]}"]
        yield Row("FLOPs of the profiler's formula", figure["flops"], flops, 0.0, label=label)
    for name in ("TCP_TOTAL_CACHE_ACCESSES", "TCP_TCC_READ_REQ"):
        yield Row(name, figure[name], ours[name], 0.0, label=label)
    hits = 100 * ours["TCC_HIT"] / (ours["TCC_HIT"] + ours["TCC_MISS"])
    recorded_hits = 100 * figure["TCC_HIT"] / (figure["TCC_HIT"] + figure["TCC_MISS"])
    yield Row("L2_Cache_Hit_Rate", recorded_hits, hits, HIT_POINTS, points=True, label=label)
    asked, requested = figure["TCP_TOTAL_CACHE_ACCESSES"], ours["TCP_TOTAL_CACHE_ACCESSES"]
    l1 = 100 - 100 * ours["TCP_TCC_READ_REQ"] / requested
    yield Row(
        "L1_Cache_Hit_Rate", 100 - 100 * figure["TCP_TCC_READ_REQ"] / asked, l1, HIT_POINTS, points=True, label=label
    )
    yield Row("fabric bytes read", 64 * figure["TCC_EA_RDREQ"], 1024 * ours["FETCH_SIZE"], FABRIC_PERCENT, label=label)


def _knee(times: list[Row]) -> Check:
    """How far our knee lies from the recorded one, in per cent of N."""
    steps = [int(row.label.removeprefix("N = ")) for row in times]

    def at(values: list[float]) -> float:
        reached = next(i for i, value in enumerate(values) if value >= KNEE * values[0])
        low, high = values[reached - 1], values[reached]
        return steps[reached - 1] + (steps[reached] - steps[reached - 1]) * (KNEE * values[0] - low) / (high - low)

    theirs, ours = at([row.recorded for row in times]), at([row.ours for row in times])
    return Check("distance of the knee", 100 * abs(ours - theirs) / theirs, KNEE_PERCENT)
