"""What Python scripts with Triton kernels cost: start, launches, one large product, and a sweep by triton.autotune

    python benchmarks/script_speed.py [--sweep N] [--verify]

`processor` is time of all threads, `clock` what passed; on a busy machine they differ. Launches: of a kernel with one
program, its simulation included. The sweep: N configurations (40) of a product of 2048 x 2048 matrices. --verify times
all of them in full as well, which takes some fifteen seconds for each, and says how much slower the chosen one is than
the fastest.
"""

from __future__ import annotations

import argparse
import functools
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from hipsynth.core.languages import SourceLanguage
from hipsynth.core.program import Project, SourceFile, project_program
from hipsynth.core.run_status import RunStatus
from hipsynth.profiling.backends.protocol import Target, TargetResult
from hipsynth.profiling.backends.sim import SimBackend
from hipsynth.simulator.limits import RunLimits

MATMUL = Path(__file__).resolve().parents[1] / "examples" / "matmul.py"
TARGET = Target("gfx942", "-O3", "mi300x")
TIME_S, EXACT_S, TIMES = 600.0, 7200.0, 1000
LAUNCHES = """
import sys, time, torch, triton, triton.language as tl
@triton.jit
def double(x_ptr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + offsets, 2 * tl.load(x_ptr + offsets))
x = torch.zeros(64, device="cuda")
double[(1,)](x, BLOCK=64)
start = time.process_time()
for _ in range(int(sys.argv[1])):
    double[(1,)](x, BLOCK=64)
print(time.process_time() - start)
"""
SWEEP = """
import sys, torch, triton
from matmul import matmul_kernel
SHAPES = [(m, n, k, w) for k in (32, 64) for w in (4, 8) for m in (64, 128, 256) for n in (32, 64, 128, 256)]
tuned = triton.autotune(configs=[
    triton.Config(dict(BLOCK_M=m, BLOCK_N=n, BLOCK_K=k, GROUP_M=8, matrix_instr_nonkdim=16), num_warps=w, num_stages=2)
    for m, n, k, w in SHAPES[: int(sys.argv[1])]], key=["M"])(matmul_kernel)
M = 2048
a, b = (torch.randn((M, M), device="cuda", dtype=torch.float16) for _ in range(2))
c = torch.empty((M, M), device="cuda", dtype=torch.float16)
tuned[lambda meta: (triton.cdiv(M, meta["BLOCK_M"]) * triton.cdiv(M, meta["BLOCK_N"]),)](
    a, b, c, M, M, M, M, 1, M, 1, M, 1)
"""
IMPORTS = "import torch, triton\n"


def measure_clock(action: Callable[[], object]) -> float:
    """Seconds that an action takes; processor time of what runs in the sandbox is not this process's."""
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def profile_script(script: Path, *arguments: str, limits: RunLimits | None = None) -> TargetResult:
    """The profile of a script. Raises RuntimeError if it fails."""
    limits = limits or RunLimits(TIME_S)
    project = Project((SourceFile(script, SourceLanguage.PYTHON),), script.parent, arguments)
    result = SimBackend().profile(project_program(project), TARGET, script.parent.parent / "scratch", limits)
    if result.status != RunStatus.OK or result.exit_code:
        raise RuntimeError(f"{script.name}: {result.reason} {result.message}")
    return result


def print_start(folder: Path) -> None:
    """A script that launches nothing, beside plain Python."""
    script = folder / "imports.py"
    script.write_text(IMPORTS)
    synth = [str(Path(sys.executable).with_name("synth")), "run", str(script), "--arch", TARGET.arch]
    plain = [sys.executable, str(script)]
    subprocess.run(plain, check=True)  # reads the packages
    seconds = [measure_clock(functools.partial(subprocess.run, words, check=True)) for words in (plain, synth)]
    print_cost("start above plain Python", clock_s=seconds[1] - seconds[0])


def print_launches(folder: Path) -> None:
    script = folder / "launches.py"
    script.write_text(LAUNCHES)
    print_cost(f"{TIMES} launches of one program", float(profile_script(script, str(TIMES)).stdout))


def print_product(folder: Path) -> None:
    """Its kernels alone: a small one, with which the device is warm, and that of 4096."""
    print_cost("product of 4096, with counters", profile_script(folder / MATMUL.name, "4096").times["kernels"])


def print_sweep(folder: Path, configurations: int, verify: bool) -> None:
    script, results = folder / "sweep.py", list[TargetResult]()
    script.write_text(SWEEP)
    clock_s = measure_clock(lambda: results.append(profile_script(script, str(configurations))))
    processor_s = sum(results[0].times.values())  # of the script, in a sandbox that goes on
    [tuning] = results[0].autotunings
    timed = sum(row.time_ns is not None for row in tuning.configurations)
    print_cost(f"sweep of {len(tuning.configurations)}, {timed} of which fit", processor_s, clock_s)
    if verify:
        in_full = profile_script(script, str(configurations), limits=RunLimits(EXACT_S, sampling_units=0))
        times = {str(row.meta): row.time_ns for row in in_full.autotunings[0].configurations if row.time_ns is not None}
        loss = times[str(tuning.chosen.meta)] / min(times.values()) - 1
        print(f"chosen configuration slower than the fastest by {100 * loss:.2f} %", flush=True)


def print_cost(title: str, processor_s: float | None = None, clock_s: float | None = None) -> None:
    costs = ((processor_s, "s processor"), (clock_s, "s clock"))
    cells = (f"{seconds:8.2f} {unit:12}" if seconds is not None else " " * 21 for seconds, unit in costs)
    print(f"{title:34} {' '.join(cells)}".rstrip(), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sweep", type=int, default=40, metavar="N")
    parser.add_argument("--verify", action="store_true")
    choices = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hipsynth-scripts-") as scratch:
        folder = Path(scratch) / "code"
        folder.mkdir()
        shutil.copy(MATMUL, folder)
        print_start(folder)
        print_launches(folder)
        print_product(folder)
        print_sweep(folder, choices.sweep, choices.verify)
    return 0


if __name__ == "__main__":
    sys.exit(main())
