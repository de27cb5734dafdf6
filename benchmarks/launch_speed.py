"""What repeated launches cost: 100 equal launches, in launches that are counted

    python benchmarks/launch_speed.py

CPU time of 100 launches, divided by that of the first one on a fresh device, with and without results in memory; and
the same of one launch without the memory model. Ratios of one run, so that the load of the machine matters little.
"""

from __future__ import annotations

import gc
import tempfile
import time
from pathlib import Path
from typing import Any

from hipsynth.simulator.device import SimDevice

SOURCE = Path(__file__).with_name("kernels.hip")
DEVICES = ("mi250", "mi300x")
TIMES = 100
ELEMENTS = 1 << 21
# kernel -> grid, layout, which of three arrays it gets, further arguments
KERNELS: dict[str, tuple[int, str, tuple[int, ...], tuple[int, ...]]] = {
    "vector_add": (ELEMENTS // 256, "QQQi", (0, 1, 2), (ELEMENTS,)),
    "streaming": (ELEMENTS // 256, "QQi", (0, 1), (ELEMENTS,)),
    "alu": (2432, "Qi", (0,), (200,)),
    "lds": (2432, "Qi", (0,), (20,)),
}


def time_launches(device: SimDevice, kernel: str, at: list[int], times: int) -> float:
    """CPU seconds of some launches after each other."""
    groups, layout, arrays, numbers = KERNELS[kernel]
    start = time.process_time()
    for _ in range(times):
        device.launch(kernel, (groups,), (256,), layout, *(at[i] for i in arrays), *numbers)
    return time.process_time() - start


def measure_cost(name: str, kernel: str, scratch: Path, times: int, **options: Any) -> tuple[float, float]:
    """CPU seconds of the first launch on a fresh device, and of this many launches."""
    gc.collect()
    device = SimDevice(name, SOURCE, scratch, **options)
    at = [device.core.allocate(8 * ELEMENTS) for _ in range(3)]
    first = time_launches(device, kernel, at, 1)
    return first, first + time_launches(device, kernel, at, times - 1)


def main() -> None:
    print(f"{'device':8} {'kernel':12} {'ms, first':>10} {'100 launches':>13} {'no results':>11} {'uncounted':>10}")
    with tempfile.TemporaryDirectory(prefix="hipsynth-speed-") as folder:
        for name in DEVICES:
            for kernel in KERNELS:
                first, many = measure_cost(name, kernel, Path(folder), TIMES)
                first_without, many_without = measure_cost(name, kernel, Path(folder), TIMES, values=False)
                _, functional = measure_cost(name, kernel, Path(folder), 3, count=False, reuse=False)
                ratios = (many / first, many_without / first_without, functional / 3 / first)
                cells = " ".join(f"{ratio:{width}.2f}" for ratio, width in zip(ratios, (13, 11, 10), strict=True))
                print(f"{name:8} {kernel:12} {first * 1e3:10.1f} {cells}", flush=True)


if __name__ == "__main__":
    main()
