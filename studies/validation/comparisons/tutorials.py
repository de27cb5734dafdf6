"""Micro-kernels of the profiler's tutorials, each for one instruction class, bank conflict or occupancy limit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from hipsynth.profiling import metrics
from hipsynth.simulator.device import SimDevice
from hipsynth.simulator.native_core import Dispatch
from studies.validation import bench
from studies.validation.frame import (
    DURATION,
    ComparisonRow,
    ComparisonTable,
    check_mean_error,
    collect_features,
    compare_counters,
    read_recording,
)
from studies.validation.timed import TimedValue

TITLE = "Micro-kernels of the profiler's tutorials"
SHOWS = """Each kernel repeats one instruction class. Event counts must be equal: memory instructions by address
space, arithmetic by type and operation, LDS cycles and bank conflicts. The number of waves per SIMD that a resource
allows must agree within 2 %. Instructions per cycle and times show the issue rate of each unit. The recorded kernels
run 2^20 work-groups with 1,000 instructions per wave; ours run a part of them, and the time is scaled. `s_nop` needs
no unit: the hardware issues more of them per cycle than there are units."""
QUICK = False

DEVICE = "mi250"
SOURCE = "ROCm/rocprofiler-compute, docs/tutorial/includes/"
RECORDED_GROUPS, RECORDED_STEPS = 1 << 20, 1000
# Kernel -> work-groups and instructions per wave of our run; fewer for matrix products, the slowest to simulate.
RUNS = {"matrix_products": (208, 200)}
USUAL = (1664, 1000)
CLOCK = """At the nominal clock, the recorded times would be 4.1 to 4.2 cycles per vector move although the IPC is 1.00:
the clock drops under such loads. Our clock drops as under multiply-adds, which draw more power."""
SHORTEST = """One wave with one memory instruction each. The recorded times are near 2.4 or near 4.5 us, perhaps
depending on whether the translation of the address was still known; ours lie between."""
RATE = "LDS_Bank_Conflict_Rate"
OCCUPANCY_PERCENT, IPC_PERCENT, TIME_PERCENT, SHORTEST_PERCENT = 2.0, 8.0, 10.0, 35.0


@dataclass(frozen=True)
class TutorialFigures:
    """The recording: counter -> value, most of them by kernel (`lds`: by lanes)."""

    memory_instructions: Mapping[str, Mapping[str, float]]
    durations_ns: Mapping[str, float]
    one_of_each: Mapping[str, float]
    lds: Mapping[str, Mapping[str, float]]
    issue: Mapping[str, Mapping[str, float]]
    occupancy: Mapping[str, float]


def build_tables() -> Iterator[ComparisonTable]:
    figures = read_recording("tutorials", TutorialFigures)
    with bench.open_device(DEVICE, "tutorials") as device:
        yield from _compare_memory_instructions(device, figures.memory_instructions, figures.durations_ns)
        yield _compare_instruction_mix(device, figures.one_of_each)
        yield _compare_lds(device, figures.lds)
        yield _compare_issue(device, figures.issue)
        yield _compare_occupancy(device, figures.occupancy)


def _make_table(
    title: str, page: str, rows: list[ComparisonRow], kernels: str, *dispatches: Dispatch
) -> ComparisonTable:
    """A table whose kernels count as timing evidence for the features they use; see
    `_add_counted_features` for the others."""
    return ComparisonTable(title, DEVICE, SOURCE + page, tuple(rows), kernels, collect_features(*dispatches))


def _add_counted_features(table: ComparisonTable, dispatches: list[Dispatch]) -> ComparisonTable:
    return replace(table, counted=collect_features(*dispatches))


def _compare_memory_instructions(
    device: SimDevice, figures: Mapping[str, Mapping[str, float]], durations: Mapping[str, float]
) -> Iterator[ComparisonTable]:
    data = device.core.allocate(4096)
    device.core.write(data, bytes(4096))
    rows, runs = [], []
    for kernel, counters in figures.items():
        generic = kernel.startswith("generic")
        lanes, border = {"generic_read": (1, 1), "generic_atomic": (2, 1)}.get(kernel, (1, 0))
        values = (data, 0, border) if generic else (data, 0)
        runs.append(device.launch(kernel, (1,), (lanes,), "Qii" if generic else "Qi", *values))
        our_counters = runs[-1]["counters"]
        rows += [ComparisonRow(name, value, our_counters[name], 0.0, label=kernel) for name, value in counters.items()]
    page = "vector-memory-operation-counting.rst"
    yield _add_counted_features(_make_table("Memory instructions", page, rows, "single memory instructions"), runs)
    times = [
        ComparisonRow(DURATION, durations[kernel], run["duration_ns"], label=kernel, timed=TimedValue((run,)))
        for kernel, run in zip(figures, runs, strict=True)
    ]
    short = replace(_make_table("Shortest kernels", page, times, "single memory instructions"), note=SHORTEST)
    yield replace(_add_counted_features(short, runs), checks=(check_mean_error(times, SHORTEST_PERCENT),))


def _compare_instruction_mix(device: SimDevice, figures: Mapping[str, float]) -> ComparisonTable:
    our_counters = device.launch("one_of_each", (1,), (64,), "")["counters"]
    rows = list(compare_counters(figures, our_counters, 0.0))
    return _make_table(
        "Arithmetic instructions", "valu-arithmetic-instruction-mix.rst", rows, "one instruction of each type"
    )


def _compare_lds(device: SimDevice, figures: Mapping[str, Mapping[str, float]]) -> ComparisonTable:
    out = device.core.allocate(4096)
    rows, runs = [], []
    for lanes, counters in figures.items():
        runs.append(device.launch("lds_read", (1,), (int(lanes),), "Qii", out, 0, 32))
        our_counters = runs[-1]["counters"]
        rows += [
            ComparisonRow(name, value, our_counters[name], 0.0, label=f"{lanes} lanes")
            for name, value in counters.items()
        ]
        theirs, ours = (
            metrics.compute_metrics(side, 1.0, device.table.arch)[RATE] or 0.0 for side in (counters, our_counters)
        )
        rows.append(ComparisonRow(RATE, theirs, ours, 0.0, points=True, label=f"{lanes} lanes"))
    return _add_counted_features(
        _make_table("LDS bank conflicts", "lds-examples.rst", rows, "LDS reads of one bank"), runs
    )


def _compare_issue(device: SimDevice, figures: Mapping[str, Mapping[str, float]]) -> ComparisonTable:
    rows, runs = [], []
    for kernel, values in figures.items():
        groups, steps = RUNS.get(kernel, USUAL)
        result = device.launch(kernel, (groups,), (1024,), "")
        our_metrics = metrics.compute_metrics(result["counters"], result["duration_ns"], device.table.arch)
        internal = kernel == "no_ops"
        for name in ("IPC", "VALU_Active_Threads"):
            if name in values:
                rows.append(
                    ComparisonRow(
                        name, values[name], our_metrics[name] or 0, None if internal else IPC_PERCENT, label=kernel
                    )
                )
        scale = RECORDED_GROUPS / groups * RECORDED_STEPS / steps
        timed = TimedValue((result,), weights=(scale,))
        ours = timed.compute_time_ns([result["duration_ns"]], {})
        allowed = None if internal else TIME_PERCENT
        rows.append(ComparisonRow(DURATION, values[DURATION], ours, allowed, label=kernel, timed=timed))
        if not internal:
            runs.append(result)
    page = "instructions-per-cycle-and-utilizations.rst"
    table = _make_table("Issue rates", page, rows, "one instruction a thousand times", *runs)
    return replace(table, note=CLOCK)


def _compare_occupancy(device: SimDevice, figures: Mapping[str, float]) -> ComparisonTable:
    out = device.core.allocate(4096)
    rows = []
    for kernel, waves in figures.items():
        values = (out,) if kernel == "much_lds" else ()
        occupancy = device.launch(kernel, (1,), (256,), "Q" * len(values), *values)["occupancy"]
        ours = occupancy["waves_per_cu"] * device.table["topology.cus"]
        rows.append(ComparisonRow("resident wavefronts", waves, ours, OCCUPANCY_PERCENT, label=kernel))
    return _make_table("Occupancy limits", "occupancy-limiters-example.rst", rows, "kernels limited by one resource")
