"""Deterministic, typical workload for the simulator core, recorded by `python -m tools.profile_core`.

    python -m tools.core_work [PART]...

Prints each step with its time. Every part runs on both architectures with full counting: streams, matrix products, LDS,
atomics, divergence, scattered accesses, repeated single instructions; grids in full and sampled as in `synth profile`;
programs from the generator, corpus/handwritten and tests/kernels.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from benchmarks import sampling_error, sim_speed
from hipsynth.core.run_status import RunStatus
from hipsynth.core.scratch import scratch_folder
from hipsynth.simulator import api, devices
from hipsynth.simulator.build import build_runnable
from hipsynth.simulator.device import SimDevice
from hipsynth.simulator.limits import SAMPLING_UNITS, RunLimits
from hipsynth.synth.generate.problem_sizes import shrink_program
from hipsynth.synth.generate.producer import generate_programs

ROOT = Path(__file__).resolve().parents[1]
DEVICES = ("mi250", "mi300x")
Step = tuple[str, Callable[[], object]]

# Sizes are chosen so that every step takes a few tenths of a second and none dominates.
ELEMENTS = 1 << 22
GRID = 1024  # thousands of work-items
SAMPLED_GRID = 8192
ROWS, SAMPLED_ROWS = 512, 1536
GENERATED, SEED = 60, 20
PROGRAMS = (
    *("atomics", "bitonic_sort", "conv2d", "fft", "game_of_life", "group_scan", "half_axpy", "jacobi"),
    *("linked_list", "mandelbrot", "many_launches", "nbody", "reduction", "spmv_csr", "stencil_2d", "textures"),
)
HANDWRITTEN = (
    *("grid_stride/vector_add", "per_thread/fma_chain", "per_tile/transpose", "persistent/work_queue"),
    *("privatisation/histogram", "reduction/atomic_sum", "roofline/fma_ladder", "streaming/vector_copy"),
)


def list_instruction_steps(scratch: Path) -> Iterator[Step]:
    """The kernels of benchmarks/sim_speed.py."""
    for name in DEVICES:
        device = SimDevice(name, sim_speed.SOURCE, scratch)
        a, b = (device.core.allocate(8 * ELEMENTS) for _ in range(2))
        for kernel, steps in sim_speed.STEPS.items():
            yield f"{kernel} {name}", partial(device.launch, kernel, (1216,), (256,), "Qi", a, steps)
        size = ((ELEMENTS // 256,), (256,))
        yield f"streaming {name}", partial(device.launch, "streaming", *size, "QQi", a, b, ELEMENTS)


def list_grid_steps(_: Path) -> Iterator[Step]:
    """The kernels of tests/kernels/programs_grids.hip, in full and sampled."""
    from grids import KERNELS  # sampling_error has set the import path

    for name in DEVICES:
        for kernel in sorted(KERNELS):
            run_grid = partial(sampling_error.time_launch, name, kernel)
            yield f"{kernel} {name}", partial(run_grid, GRID)
            if not kernel.startswith("gemm"):  # matrix products are covered by list_product_steps()
                yield f"{kernel} {name} sampled", partial(run_grid, SAMPLED_GRID, sampling_units=SAMPLING_UNITS)


def list_product_steps(_: Path) -> Iterator[Step]:
    """The matrix products of benchmarks/kernels.hip, in full and sampled."""
    for name in DEVICES:
        for kernel in sampling_error.PRODUCTS:
            run_product = partial(sampling_error.time_product, name, kernel)
            yield f"{kernel} {name}", partial(run_product, ROWS, sampling_units=0)
            yield f"{kernel} {name} sampled", partial(run_product, SAMPLED_ROWS, sampling_units=SAMPLING_UNITS)


def list_program_steps(scratch: Path) -> Iterator[Step]:
    """Whole programs, run as by `synth profile`."""
    written = [ROOT / "tests/kernels/programs" / f"{name}.hip" for name in PROGRAMS]
    written += [ROOT / "corpus/handwritten" / f"{name}.hip" for name in HANDWRITTEN]
    for number, program in enumerate(map(shrink_program, generate_programs(GENERATED, SEED, runs=8))):
        path = scratch / f"generated_{number}.hip"
        path.write_text(program.text)
        written.append(path)
    for name in DEVICES:
        device = devices.load_device(name)
        for number, path in enumerate(written):
            folder = scratch / name / str(number)
            built = build_runnable(path, device.arch, "-O3", folder / "build")
            yield f"{path.stem} {name}", partial(run_kernels, built, device, folder)


def run_kernels(built: api.Artefacts, device: devices.DeviceTable, folder: Path) -> None:
    """Runs a trusted program without the sandbox, so that it can write its part of the core's profile."""
    with (folder / "output").open("w") as output, contextlib.redirect_stdout(output):
        result = api.run_attached(built, device, folder, RunLimits())
    if result.status != RunStatus.OK:
        raise SystemExit(f"core_work: {built.executable}: {result.reason}: {result.message}")


PARTS: dict[str, Callable[[Path], Iterator[Step]]] = {
    "instructions": list_instruction_steps,
    "grids": list_grid_steps,
    "products": list_product_steps,
    "programs": list_program_steps,
}


def main(arguments: list[str]) -> int:
    unknown = sorted(set(arguments) - set(PARTS))
    if unknown:
        print(f"core_work: unknown part {unknown[0]}; choose from {', '.join(PARTS)}", file=sys.stderr)
        return 2
    for part in arguments or PARTS:
        with scratch_folder() as scratch:
            for title, work in PARTS[part](scratch):
                start = time.perf_counter()
                work()
                print(f"{part}: {title}: {time.perf_counter() - start:.2f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
