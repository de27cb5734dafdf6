"""How long a small kernel takes to compile: through the driver, with a precompiled header, and from the cache.

    python benchmarks/compile_speed.py [--json] [--repeat N]

The first row is the reference: one clang command and llvm-objdump, run directly.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from hipsynth.core.scratch import scratch_folder
from hipsynth.toolchain import compilable_archs, compile_device, compile_host, find_toolchain, parse_flags
from hipsynth.toolchain.compile import RUNTIME
from hipsynth.toolchain.driver import device_arguments

KERNEL = """#include <hip/hip_runtime.h>
__global__ void copy(const double* a, double* b, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) b[i] = a[i];
}
int main() { return 0; }
"""
FLAGS = "-O3"


def time_fastest(work: Callable[[], object], repeat: int) -> float:
    """Seconds of the fastest of `repeat` runs, after a warm-up run."""
    work()
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def compile_directly(source: Path, arch: str, folder: Path) -> None:
    """Compiles and disassembles with the tools directly, without the build cache."""
    toolchain = find_toolchain()
    arguments = device_arguments(toolchain, arch, parse_flags(FLAGS))
    subprocess.run([toolchain.clang, *arguments, source, "-o", folder / "x.co"], check=True)
    subprocess.run([toolchain.objdump, "-d", folder / "x.co"], check=True, stdout=subprocess.DEVNULL)


def time_compilers(repeat: int) -> dict[str, float]:
    """Seconds by row name."""
    rows: dict[str, float] = {}
    with scratch_folder() as folder:
        source = folder / "copy.hip"
        source.write_text(KERNEL)
        for arch in compilable_archs():
            rows[f"{arch}, clang and llvm-objdump by hand"] = time_fastest(
                lambda: compile_directly(source, arch, folder),  # noqa: B023
                repeat,
            )
            for name, cache, header in (("without", False, False), ("with", False, True), ("cached", True, True)):
                label = "from the build cache" if cache else f"{name} a precompiled header"
                rows[f"{arch}, {label}"] = time_fastest(
                    lambda: compile_device(source, arch, FLAGS, folder, use_cache=cache, use_pch=header),  # noqa: B023
                    repeat,
                )
        if RUNTIME.exists():
            rows["host side, without a precompiled header"] = time_fastest(
                lambda: compile_host(source, FLAGS, folder, use_cache=False, use_pch=False), repeat
            )
            rows["host side, with a precompiled header"] = time_fastest(
                lambda: compile_host(source, FLAGS, folder, use_cache=False), repeat
            )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--repeat", type=int, default=5)
    options = parser.parse_args()
    rows = time_compilers(options.repeat)
    if options.json:
        print(json.dumps(rows))
        return
    for name, seconds in rows.items():
        print(f"{name:<48} {seconds * 1000:8.1f} ms")


if __name__ == "__main__":
    main()
