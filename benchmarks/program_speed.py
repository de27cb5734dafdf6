"""How long generated programs take on the simulator: CPU time of the whole process, compiling apart.

    python benchmarks/program_speed.py [--count N] [--seed S] [--arch A] [--json]

Runs N generated programs (default 200), built with -O3, sequentially and without the sandbox. CPU time covers the whole
process: start-up, the program's host code, and every dispatch with full counting. The first line is the time of a
program with an empty kernel. Other load on the machine increases the times.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
from pathlib import Path

from hipsynth.profiling import devices
from hipsynth.profiling.sim import api, channel, document
from hipsynth.profiling.sim.build import build_text
from hipsynth.profiling.sim.limits import Limits
from hipsynth.synth.core.scratch import scratch_folder
from hipsynth.synth.generate.producer import generate

TARGET_S = 0.1
EMPTY = "#include <hip/hip_runtime.h>\n__global__ void nothing() {}\nint main() { nothing<<<1, 64>>>(); return 0; }\n"


def cpu_seconds(text: str, name: str, arch: str, folder: Path) -> tuple[float, float]:
    """CPU seconds of one run, and the number of wave instructions executed."""
    artefacts, _ = build_text(text, name, arch, "-O3", folder)
    settings = channel.configuration(artefacts, devices.device_of(arch), Limits())
    library = str(api.library_path().parent)
    with channel.opened(settings) as results:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            [artefacts.executable],
            env={**os.environ, channel.VARIABLE: str(results.fd), "LD_LIBRARY_PATH": library},
            stdout=subprocess.DEVNULL,
            check=True,
            cwd=folder,
            pass_fds=(results.fd,),
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        kernels = document.read(results.document() or b"").kernels
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return spent, sum(kernel.counters["SQ_INSTS"] for kernel in kernels)


def quantile(values: list[float], share: float) -> float:
    return sorted(values)[round(share * (len(values) - 1))]


def measure(count: int, seed: int, arch: str) -> dict[str, float]:
    with scratch_folder() as folder:
        cpu_seconds(EMPTY, "empty", arch, folder / "empty")
        empty = min(cpu_seconds(EMPTY, "empty", arch, folder / "empty")[0] for _ in range(3))
        runs = [
            cpu_seconds(program.text, f"p{index}", arch, folder / str(index))
            for index, program in enumerate(generate(count, seed, workers=1))
        ]
    seconds = [spent for spent, _ in runs]
    return {
        "programs": len(runs),
        "empty_s": empty,
        **{f"p{round(100 * share)}_s": quantile(seconds, share) for share in (0.5, 0.9, 0.99, 1)},
        "mean_s": sum(seconds) / len(seconds),
        "share_under_target": sum(spent < TARGET_S for spent in seconds) / len(seconds),
        "wave_instructions": sum(executed for _, executed in runs),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--arch", choices=devices.architectures(), action="append")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    result = {arch: measure(options.count, options.seed, arch) for arch in options.arch or devices.architectures()}
    if options.json:
        print(json.dumps(result, indent=2))
        return
    for arch, row in result.items():
        print(f"{arch}: {row['programs']:.0f} programs, {row['wave_instructions'] / 1e6:.1f} M wave instructions")
        print(f"  an empty program      {1e3 * row['empty_s']:8.1f} ms")
        for key in ("p50_s", "p90_s", "p99_s", "p100_s", "mean_s"):
            print(f"  {key.removesuffix('_s'):<21} {1e3 * row[key]:8.1f} ms")
        print(f"  under {1e3 * TARGET_S:.0f} ms          {100 * row['share_under_target']:8.1f} %")


if __name__ == "__main__":
    main()
