"""What a launch costs without the memory model, in launches that are counted

    python benchmarks/functional_speed.py

Each kernel is launched counted, then without counting on one thread, then again with changed inputs, when it may use
all cores. Ratios of CPU time and of elapsed time within one run, best of several launches.
"""

from __future__ import annotations

import gc
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from hipsynth.simulator.device import SimDevice

SOURCE = Path(__file__).with_name("kernels.hip")
DEVICES = ("mi250", "mi300x")
TIMES = 6
ELEMENTS = 1 << 20
STEPS = {"alu": 200, "integers": 100, "some_lanes": 100, "halves": 60, "transcendental": 20, "matrix": 10, "lds": 10}


def prepare_launches(name: str, scratch: Path, **options: Any) -> dict[str, Callable[[], object]]:
    """A function for each kernel that changes its memory and launches it."""
    gc.collect()
    device = SimDevice(name, SOURCE, scratch, **options)
    a, b, c = (device.core.allocate(8 * ELEMENTS) for _ in range(3))
    calls: dict[str, tuple[Any, ...]] = {kernel: (1216, "Qi", a, steps) for kernel, steps in STEPS.items()}
    calls["streaming"] = (ELEMENTS // 256, "QQi", a, b, ELEMENTS)
    calls["vector_add"] = (ELEMENTS // 256, "QQQi", a, b, c, ELEMENTS)
    changes = iter(range(1 << 20))

    def prepare_launch(kernel: str) -> Callable[[], object]:
        groups, layout, *arguments = calls[kernel]

        def launch_kernel() -> None:
            device.core.write(a, np.full(4096, next(changes) % 251, np.uint8))
            device.launch(kernel, (groups,), (256,), layout, *arguments)

        return launch_kernel

    return {kernel: prepare_launch(kernel) for kernel in calls}


def time_fastest(run: Callable[[], object]) -> tuple[float, float]:
    """CPU seconds and elapsed seconds."""
    rates = []
    for _ in range(TIMES):
        cpu, wall = time.process_time(), time.perf_counter()
        run()
        rates.append((time.process_time() - cpu, time.perf_counter() - wall))
    return min(cpu for cpu, _ in rates), min(wall for _, wall in rates)


def main() -> None:
    print(f"{'device':8} {'kernel':16} {'ms, counted':>12} {'one thread':>11} {'all cores, elapsed':>19}")
    with tempfile.TemporaryDirectory(prefix="hipsynth-speed-") as folder:
        for name in DEVICES:
            modes = (
                prepare_launches(name, Path(folder), reuse=False),
                prepare_launches(name, Path(folder), count=False, reuse=False),
                prepare_launches(name, Path(folder), count=False),
            )
            for kernel in modes[0]:
                (counted, elapsed), (rate, _), (_, all_cores) = (time_fastest(mode[kernel]) for mode in modes)
                print(
                    f"{name:8} {kernel:16} {counted * 1e3:12.1f} {counted / rate:10.2f}x {elapsed / all_cores:18.2f}x"
                )


if __name__ == "__main__":
    main()
