"""Loops of dependent vector instructions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hipsynth.simulator.device import SimDevice
from hipsynth.simulator.devices import DeviceTable
from hipsynth.simulator.native_core import Dispatch
from studies.sweeps.sweep import SweepPoint, check_within, count_cycles, group_series, launch_cold

TITLE = "Length of a loop's iterations"
DEMANDS = """A loop of n dependent additions on one CU. A lone wave on each SIMD takes four cycles for each
instruction (a wave of 64 on 16 lanes, CDNA3 ISA guide), more where arithmetic lowers the clock, and
`issue.branch_cycles` for the jump back (LLVM's scheduling model), so the line is straight. Four waves per SIMD hide
the jump: they take what is longer, their additions or one wave alone, and up to both where these are similar."""
KERNEL = "chain_1 ... chain_64"
X = "vector instructions per iteration"
CYCLES, ALONE, ISSUE = "cycles per iteration", "cycles of one wave", "cycles of the SIMD's additions"
Y = (CYCLES, ALONE, ISSUE)
QUICK = True

LENGTHS = (1, 2, 4, 8, 16, 32, 64)
ROUNDS = (1024, 3072)
PER_SIMD = (1, 4)
SIMDS, WAVE = 4, 64
LINEAR, HIDDEN, LONG = 0.01, 0.05, 16  # from LONG instructions on, additions dominate


def measure_points(device: SimDevice) -> Iterator[SweepPoint]:
    table = device.table
    for waves in PER_SIMD:
        for length in LENGTHS:
            runs = [launch_cold(device, f"chain_{length}", 1, waves * SIMDS * WAVE, "i", rounds) for rounds in ROUNDS]
            count = ROUNDS[1] - ROUNDS[0]

            def average_work(counter: str, runs: list[Dispatch] = runs, loops: int = count * waves * SIMDS) -> float:
                return float(runs[1]["work"][counter] - runs[0]["work"][counter]) / loops

            issue = length * table["issue.valu_cycles"] * table["clock.core_mhz"] / table["clock.vector_mhz"]
            others = (average_work("salu") + average_work("flow") - average_work("jumps")) * table["issue.wave_cycles"]
            alone = issue + others + average_work("jumps") * table["issue.branch_cycles"]
            values = {CYCLES: count_cycles(device, *runs) / count, ALONE: alone, ISSUE: issue * waves}
            yield SweepPoint(f"{waves} per SIMD", length, values)


def find_failures(points: Sequence[SweepPoint], table: DeviceTable) -> list[str]:
    wrong: list[str] = []
    for name, curve in group_series(points).items():
        for point in curve:
            alone, issue = point.values[ALONE], point.values[ISSUE]
            if name.startswith("1 "):
                wrong += check_within(point, CYCLES, alone * (1 - LINEAR), alone * (1 + LINEAR))
                continue
            longer = max(alone, issue)
            high = longer * (1 + HIDDEN) if point.x >= LONG else alone + issue
            wrong += check_within(point, CYCLES, longer * (1 - LINEAR), high)
    return wrong
