"""Processor time of launches beside their price under a budget (native/dispatch/budget.h).

    python benchmarks/budget_prices.py

Each kernel runs counted and without counting. `ratio` is processor time by price: the prices are right where it is 1.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from hipsynth.simulator import api, devices
from hipsynth.simulator.budget_outcome import work_s
from hipsynth.simulator.build import build_runnable
from hipsynth.simulator.limits import RunLimits

SOURCE = Path(__file__).with_name("budget_prices.hip")
TIMES = {"stream": 8, "stencil": 8, "gather": 4, "alu": 2, "doubles": 2, "tiles": 2, "count": 8, "small": 2000}
LAUNCH_S = 40e-6  # kPrices.launch
ENOUGH_S = 10_000.0


def measure_launches(
    artefacts: api.Artefacts, device: str, kernel: str, times: int, *, count: bool
) -> tuple[float, float]:
    """(processor seconds, price in seconds) of some launches of a kernel."""
    limits = RunLimits(time_s=600, budget_s=ENOUGH_S, sampling_units=0, reuse=False, caches=count)
    with tempfile.TemporaryDirectory() as folder:
        arguments = (kernel, str(times))
        result = api.run_program(artefacts, devices.load_device(device), Path(folder), limits, arguments)
    if result.exit_code or result.reason:
        raise SystemExit(f"{kernel}: {result.reason} {result.message}")
    return result.device_s, work_s(result.spending) + times * LAUNCH_S


def main() -> None:
    print("| kernel | device | counted s | ratio | run s | ratio |\n|---|---|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as folder:
        for device in ("mi250", "mi300x"):
            arch = devices.load_device(device).arch
            artefacts = build_runnable(SOURCE, arch, "-O3", Path(folder) / arch)
            for kernel, times in TIMES.items():
                cells = []
                for count in (True, False):
                    spent, price = measure_launches(artefacts, device, kernel, times, count=count)
                    cells.append(f"{spent:.2f} | {spent / price:.2f}")
                print(f"| {kernel} | {device} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
