"""What isolation costs: milliseconds per start of a program, and the share of a batch.

    python benchmarks/isolation_speed.py [--json] [--count N]

Starts: /bin/true as a job of a kept sandbox, as a job outside any, and in a sandbox of its own. Batch: N generated
programs (default 48) compiled and profiled with and without the sandbox, cold (no builds in the cache) and warm, in
alternating order. All figures are of one run on one machine, so that the differences and ratios can be compared.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from unittest import mock

from hipsynth.core.run_status import RunStatus
from hipsynth.core.scratch import scratch_folder
from hipsynth.profiling.backends.protocol import Target
from hipsynth.profiling.backends.sim import SimBackend
from hipsynth.simulator.limits import RunLimits
from hipsynth.synth.generate.problem_sizes import shrink_program
from hipsynth.synth.generate.producer import generate_programs
from hipsynth.toolchain import sandbox
from hipsynth.toolchain.sandbox import jail

TARGET = Target("gfx90a", "-O3", "mi250")
STARTS = 40


def measure_median_ms(work: Callable[[], object], repeat: int) -> float:
    """Milliseconds of the median of `repeat` calls, after a first one."""
    work()
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        work()
        times.append(1e3 * (time.perf_counter() - start))
    return sorted(times)[repeat // 2]


def start_program(isolate: bool) -> None:
    with sandbox.job_folder() as folder:
        (folder / "run").mkdir()
        sandbox.run_sandboxed(["/bin/true"], folder / "run", isolate=isolate)


def start_in_fresh_sandbox() -> None:
    for jails in list(jail._pool.idle.values()):
        while jails:
            jails.pop().close()
    start_program(isolate=True)


def measure_starts() -> dict[str, float]:
    """Milliseconds by row name."""
    return {
        "start in a kept sandbox, ms": measure_median_ms(lambda: start_program(isolate=True), STARTS),
        "start without a sandbox, ms": measure_median_ms(lambda: start_program(isolate=False), STARTS),
        "start in a sandbox of its own, ms": measure_median_ms(start_in_fresh_sandbox, STARTS // 4),
    }


def time_batch(count: int, isolate: bool) -> float:
    """Seconds for compiling and profiling `count` generated programs of small sizes, one after another."""
    backend, limits = SimBackend(), RunLimits(isolate=isolate)
    began = time.perf_counter()
    for number, program in enumerate(map(shrink_program, generate_programs(count, 1, runs=8))):
        with scratch_folder() as folder:
            result = backend.profile(program, TARGET, folder, limits)
            assert result.status == RunStatus.OK, (number, result.reason, result.message)
    return time.perf_counter() - began


def time_batches(count: int) -> dict[str, float]:
    """Seconds of a batch by row name, with and without the sandbox: with a cache folder of its own for each, cold and
    then warm."""
    from hipsynth.toolchain import locate

    rows: dict[str, float] = {}
    tree = locate.tree_path()
    with scratch_folder() as folder:
        for isolate in (True, False):
            name = "isolated" if isolate else "not isolated"
            cache = folder / name.replace(" ", "-")
            cache.mkdir(mode=0o755)
            (cache / tree.name).symlink_to(tree)
            with mock.patch.dict(os.environ, {"HIPSYNTH_CACHE": str(cache)}):
                time_batch(4, isolate)  # the precompiled headers
                rows[f"{name}, cold, s"] = time_batch(count, isolate)
                rows[f"{name}, warm, s"] = min(time_batch(count, isolate) for _ in range(2))
    return rows


def measure_isolation(count: int) -> dict[str, float]:
    """All rows of the table; their names say the units."""
    rows = measure_starts() | time_batches(count)
    for state in ("cold", "warm"):
        with_it, without = rows[f"isolated, {state}, s"], rows[f"not isolated, {state}, s"]
        rows[f"overhead, {state}, ms per program"] = 1e3 * (with_it - without) / count
        rows[f"overhead, {state}, %"] = 100 * (with_it / without - 1)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--count", type=int, default=48)
    options = parser.parse_args()
    rows = measure_isolation(options.count)
    if options.json:
        print(json.dumps(rows))
        return
    for name, value in rows.items():
        print(f"{name:<40} {value:8.1f}")


if __name__ == "__main__":
    main()
