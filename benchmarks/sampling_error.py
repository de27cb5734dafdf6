"""How far sampled grids are from exact ones: the table of docs/log/sampling.md.

Usage: python benchmarks/sampling_error.py [--size 49152] [--above 40000000] [kernel ...]
       python benchmarks/sampling_error.py --large
       python benchmarks/sampling_error.py --products 4096
       python benchmarks/sampling_error.py --in-part 4096
Each kernel of tests/kernels/programs_grids.hip runs in full and sampled, on both architectures. `worst` is the largest
relative error of a counter, except those that depend on which lines are still dirty at the end of a dispatch. `--large`
times grids that are too large to run in full; `--products` compares matrix products in full and sampled; `--in-part`
compares products that take long to replay: in full, in part as `synth profile` of a program does, and sampled.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Unpack

from hipsynth.core.scratch import scratch_folder
from hipsynth.profiling.metrics.uncertainty import END_STATE
from hipsynth.simulator.limits import PATIENT_REPLAYS
from hipsynth.simulator.native_core import DeviceOptions, Dispatch

TESTS = Path(__file__).resolve().parents[1] / "tests"
sys.path[:0] = [str(TESTS / "kernels"), str(TESTS / "support")]

# Thousands of work-items: a stream over 10^9 elements, a transpose of 32768^2, a product of 4096^3 in tiles of 16 x 16.
LARGE = {"triad": 976_563, "transpose": 1_048_576, "gemm_tile": 131_072}
# Matrix products in kernels.hip -> side of the square tile that one work-group computes.
PRODUCTS = {"product_64": 64, "product_64_buffered": 64, "product_128": 128, "product_matrix": 64}
LONG_PRODUCTS = {"product_naive": 16, "product_16": 16}
IN_FULL = 100_000  # times the work of a grid that runs in full, which a replay may take
ROWS = 4096
SAMPLING_UNITS = 12  # as `synth profile` samples
DOUBTFUL = 0.02  # larger errors are shown with the error estimate of the sampled run


def time_launch(name: str, kernel: str, size: int, **options: Unpack[DeviceOptions]) -> tuple[Dispatch, float]:
    from grids import launch

    start = time.process_time()
    return launch(name, kernel, size, **options), time.process_time() - start


def format_comparison(kernel: str, name: str, exact: tuple[Dispatch, float], part: tuple[Dispatch, float]) -> str:
    """A row of the table from (result, CPU seconds) of both runs."""
    from hipsynth.profiling import metrics
    from hipsynth.simulator import devices

    exact_run, sampled = exact[0], part[0]
    arch = devices.load_device(name).arch
    counters = {key: value for key, value in exact_run["counters"].items() if key not in END_STATE}
    off = {key: abs(sampled["counters"][key] - value) / max(value, 1.0) for key, value in counters.items()}
    worst, which = max((error, key) for key, error in off.items())
    rates = [metrics.compute_metrics(exact["counters"], exact["duration_ns"], arch) for exact in (exact_run, sampled)]
    points = max(abs((rates[0][key] or 0) - (rates[1][key] or 0)) for key in rates[0] if metrics.is_hit_rate(key))
    duration = 100 * (sampled["duration_ns"] / exact_run["duration_ns"] - 1)
    estimate = f" (estimated: {100 * sampled['sampling']['error'].get(which, 0):.0f} %)" if worst > DOUBTFUL else ""
    cells = [
        kernel,
        name,
        f"{sampled['sampling']['groups_simulated']:,} of {exact_run['sampling']['groups_simulated']:,}",
        f"{100 * worst:.2f} % {which}{estimate}" if worst >= 0.00005 else "0",
        f"{points:.2f}",
        f"{duration:+.2f} %",
        f"{exact[1]:.1f}",
        f"{part[1]:.1f}",
    ]
    return f"| {' | '.join(cells)} |"


def compare_kernel(name: str, kernel: str, size: int, above: int) -> str:
    exact, part = (time_launch(name, kernel, size, sampling_units=n, sample_above=above) for n in (0, SAMPLING_UNITS))
    return format_comparison(kernel, name, exact, part)


def time_product(name: str, kernel: str, rows: int, **options: Unpack[DeviceOptions]) -> tuple[Dispatch, float]:
    """The result and CPU seconds of a matrix product in kernels.hip of `rows` rows and columns."""
    from hipsynth.simulator.device import SimDevice

    with scratch_folder() as scratch:
        source = Path(__file__).with_name("kernels.hip")
        chosen: DeviceOptions = {"values": False, "sampling_units": SAMPLING_UNITS, **options}
        device = SimDevice(name, source, scratch, **chosen)
        matrices = [device.core.allocate(4 * rows * rows) for _ in range(3)]
        start = time.process_time()
        result = device.launch(
            kernel, (rows // (PRODUCTS | LONG_PRODUCTS)[kernel],) * 2, (256,), "QQQi", *matrices, rows
        )
        return result, time.process_time() - start


def time_large_grids() -> None:
    def print_time(kernel: str, name: str, seconds: float) -> None:
        print(f"{kernel:20} {name:8} {seconds:6.1f} s of CPU", flush=True)

    for name in ("mi250", "mi300x"):
        for kernel, size in LARGE.items():
            print_time(
                kernel, name, time_launch(name, kernel, size, sampling_units=SAMPLING_UNITS, memory_bytes=64 << 30)[1]
            )
        for kernel in PRODUCTS:
            print_time(kernel, name, time_product(name, kernel, ROWS)[1])


def print_long_products(rows: int) -> None:
    """Prints a table of the products that take longest to replay."""
    from hipsynth.profiling import metrics
    from hipsynth.simulator import devices

    print(
        "| product | device | work-groups | duration, us | own estimate | hit rates vL1D, L2 | fabric read, GB/s | s |"
    )
    print("|---|---|---:|---:|---:|---:|---:|---:|")
    modes: dict[str, DeviceOptions] = {
        "in full": {"replayable": IN_FULL}, "in part": {"replayable": PATIENT_REPLAYS, "in_part": True}, "sampled": {}
    }  # fmt: skip
    for kernel in LONG_PRODUCTS:
        for name in ("mi250", "mi300x"):
            for mode, options in modes.items():
                result, seconds = time_product(name, kernel, rows, **options)
                arch = devices.load_device(name).arch
                values = metrics.compute_metrics(result["counters"], result["duration_ns"], arch)
                rates = [values[metric] or 0.0 for metric in ("L1_Cache_Hit_Rate", "L2_Cache_Hit_Rate")]
                error = result["sampling"]["error"].get("Duration", 0.0)
                cells = [
                    f"`{kernel}` {mode}",
                    name,
                    f"{result['sampling']['groups_simulated']:,} of {(rows // LONG_PRODUCTS[kernel]) ** 2:,}",
                    f"{result['duration_ns'] / 1000:,.0f}",
                    f"{100 * error:.1f} %",
                    ", ".join(f"{rate:.1f} %" for rate in rates),
                    f"{values['L2_Fabric_Read_BW'] or 0.0:.0f}",
                    f"{seconds:.0f}",
                ]
                print(f"| {' | '.join(cells)} |", flush=True)


def main() -> None:
    from grids import KERNELS

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kernels", nargs="*", default=sorted(KERNELS))
    parser.add_argument("--size", type=int, default=49152, help="thousands of work-items")
    parser.add_argument("--above", type=int, default=40_000_000, help="grids with more work than this are sampled")
    parser.add_argument("--large", action="store_true", help="time large grids, sampled only")
    parser.add_argument("--products", type=int, metavar="ROWS", help="matrix products of this size instead")
    parser.add_argument("--in-part", type=int, metavar="ROWS", help="products that are replayed in part instead")
    chosen = parser.parse_args()
    if chosen.in_part:
        print_long_products(chosen.in_part)
        return
    if chosen.large:
        time_large_grids()
        return
    print("| kernel | device | work-groups run | worst counter | hit rates, points | duration | exact s | sampled s |")
    print("|---|---|---|---|---|---|---|---|")
    for kernel in PRODUCTS if chosen.products else chosen.kernels:
        for name in ("mi250", "mi300x"):
            if chosen.products:
                exact, part = (
                    time_product(name, kernel, chosen.products, sampling_units=n) for n in (0, SAMPLING_UNITS)
                )
                print(format_comparison(kernel, name, exact, part), flush=True)
            else:
                print(compare_kernel(name, kernel, chosen.size, chosen.above), flush=True)


if __name__ == "__main__":
    main()
