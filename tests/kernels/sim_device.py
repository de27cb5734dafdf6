"""A simulated device for tests, with the kernels of programs_sim.hip."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path
from typing import Any

import needs

from hipsynth import toolchain
from hipsynth.core.errors import MissingDependency
from hipsynth.simulator import device

core = needs.core()
SOURCE = Path(__file__).with_name("programs_sim.hip")
FLAGS = "-O3"


@functools.cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="hipsynth-sim-")


@functools.cache
def code(arch: str) -> tuple[bytes, str]:
    """The code object and its disassembly."""
    needs.compiler()
    build = toolchain.compile_device(SOURCE, arch, FLAGS, Path(_folder().name) / arch)
    return build.code_object.read_bytes(), build.disassembly.read_text()


class KernelTestDevice(device.SimDevice):
    """One device with the test module loaded."""

    def __init__(self, name: str, **options: Any) -> None:
        try:
            super().__init__(name, SOURCE, Path(_folder().name), FLAGS, **options)
        except MissingDependency as error:
            needs.missing(str(error))
