"""Builds and runs the programs of tests/kernels/programs on the simulator; one build per program and architecture."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path

import needs

from hipsynth.simulator import api, devices
from hipsynth.simulator.build import build_runnable
from hipsynth.simulator.limits import RunLimits

FOLDER = Path(__file__).with_name("programs")
RUNTIME_SOURCES = Path(api.__file__).parent / "native" / "runtime"


def require_compiler() -> None:
    """A compiler that is not installed is a failure, and so is a simulator that is not built."""
    needs.compiler()


@functools.cache
def _builds() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="hipsynth-programs-")


@functools.cache
def built(name: str, arch: str = "gfx90a", flags: str = "-O3") -> api.Artefacts:
    require_compiler()
    folder = Path(_builds().name) / arch / flags.replace(" ", "") / name
    return build_runnable(FOLDER / f"{name}.hip", arch, flags, folder)


def run(
    name: str,
    scratch: Path,
    args: tuple[str, ...] = (),
    *,
    arch: str = "gfx90a",
    flags: str = "-O3",
    limits: RunLimits | None = None,
) -> api.RunResult:
    device = devices.load_device(devices.default_device(arch))
    bounds = limits or RunLimits(time_s=30.0)
    return api.run_program(built(name, arch, flags), device, scratch, bounds, args)
