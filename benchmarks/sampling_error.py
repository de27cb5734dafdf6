"""How far sampled grids are from exact ones: the table of docs/explanation/sampling.md.

Usage: python benchmarks/sampling_error.py [--size 49152] [--above 40000000] [kernel ...]
       python benchmarks/sampling_error.py --large
Each kernel of tests/kernels/programs_grids.hip runs in full and sampled, on both architectures. `worst` is the largest
relative error of a counter, without those that say which lines are still dirty at the end of a dispatch. `--large`
times large grids, which nobody would run in full.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "kernels"))

END_STATE = {"TCC_ALL_TC_OP_WB_WRITEBACK", "TCC_NORMAL_WRITEBACK", "TCC_NORMAL_EVICT"}

# Thousands of work-items: a stream over 10^9 elements, a transpose of 32768^2, a product of 4096^3 in tiles of 16 x 16.
LARGE = {"triad": 976_563, "transpose": 1_048_576, "gemm_tile": 131_072}
# Products of kernels.hip, of as many rows and columns: the side of the tile that one work-group makes.
PRODUCTS = {"product_64": 64, "product_64_buffered": 64, "product_128": 128, "product_matrix": 64}
ROWS = 4096


def timed(name: str, kernel: str, size: int, **options: Any) -> tuple[dict[str, Any], float]:
    from grids import launch

    start = time.process_time()
    return launch(name, kernel, size, **options), time.process_time() - start


def row(name: str, kernel: str, size: int, above: int) -> str:
    from profiling import archs, metrics

    (exact, full_s), (part, part_s) = (
        timed(name, kernel, size, sample_stretches=stretches, sample_above=above) for stretches in (0, 12)
    )
    arch = archs.load(name).arch
    counters = {key: value for key, value in exact["counters"].items() if key not in END_STATE}
    worst, which = max((abs(part["counters"][key] - value) / max(value, 1.0), key) for key, value in counters.items())
    rates = [metrics.compute(one["counters"], one["duration_ns"], arch) for one in (exact, part)]
    points = max(abs((rates[0][key] or 0) - (rates[1][key] or 0)) for key in rates[0] if "Hit_Rate" in key)
    groups = f"{part['groups_simulated']:,} of {exact['groups_simulated']:,}"
    duration = 100 * (part["duration_ns"] / exact["duration_ns"] - 1)
    named = f"{100 * worst:.2f} % {which}" if worst >= 0.00005 else "0"
    return (
        f"| {kernel} | {name} | {groups} | {named} | {points:.2f} | {duration:+.2f} % | {full_s:.1f} | {part_s:.1f} |"
    )


def product_seconds(name: str, kernel: str, scratch: Path) -> float:
    from profiling.sim.device import SimDevice

    device = SimDevice(name, Path(__file__).with_name("kernels.hip"), scratch, sample_stretches=12)
    matrices = [device.core.allocate(4 * ROWS * ROWS) for _ in range(3)]
    start = time.process_time()
    device.launch(kernel, (ROWS // PRODUCTS[kernel],) * 2, (256,), "QQQi", *matrices, ROWS)
    return time.process_time() - start


def large() -> None:
    def report(kernel: str, name: str, seconds: float) -> None:
        print(f"{kernel:20} {name:8} {seconds:6.1f} s of CPU", flush=True)

    for name in ("mi250", "mi300x"):
        for kernel, size in LARGE.items():
            report(kernel, name, timed(name, kernel, size, sample_stretches=12, memory_bytes=64 << 30)[1])
        with tempfile.TemporaryDirectory(prefix="hipsynth-large-") as folder:
            for kernel in PRODUCTS:
                report(kernel, name, product_seconds(name, kernel, Path(folder)))


def main() -> None:
    from grids import KERNELS

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kernels", nargs="*", default=sorted(KERNELS))
    parser.add_argument("--size", type=int, default=49152, help="thousands of work-items")
    parser.add_argument("--above", type=int, default=40_000_000, help="work up to which a grid runs in full")
    parser.add_argument("--large", action="store_true", help="time large grids, sampled only")
    chosen = parser.parse_args()
    if chosen.large:
        large()
        return
    print("| kernel | device | work-groups run | worst counter | hit rates, points | duration | exact s | sampled s |")
    print("|---|---|---|---|---|---|---|---|")
    for kernel in chosen.kernels:
        for name in ("mi250", "mi300x"):
            print(row(name, kernel, chosen.size, chosen.above), flush=True)


if __name__ == "__main__":
    main()
