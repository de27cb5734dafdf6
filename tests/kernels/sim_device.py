"""A simulated device for tests: compile once, launch kernels of programs_sim.hip with numpy arrays."""

from __future__ import annotations

import functools
import struct
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from profiling import archs, toolchain
from synth.errors import Missing

core = pytest.importorskip("profiling.sim._core", reason="the native core is not built")
SOURCE = Path(__file__).with_name("programs_sim.hip")
FLAGS = "-O3"


@functools.cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="hipsynth-sim-")


@functools.cache
def code(arch: str) -> tuple[bytes, str]:
    """The code object and its disassembly."""
    try:
        toolchain.find()
    except Missing as error:
        pytest.skip(f"no compiler: {error.what}")
    build = toolchain.compile_device(SOURCE, arch, FLAGS, Path(_folder().name) / arch)
    return build.code_object.read_bytes(), build.disassembly.read_text()


class SimDevice:
    """One device with the test module loaded."""

    def __init__(self, name: str, **options: Any) -> None:
        self.table = archs.load(name)
        self.core = core.Device(self.table.arch, self.table.spec(), **options)
        self.module = self.core.load(*code(self.table.arch))

    def upload(self, array: npt.NDArray[Any]) -> int:
        address: int = self.core.allocate(array.nbytes)
        self.core.write(address, np.ascontiguousarray(array).view(np.uint8).reshape(-1))
        return address

    def download(self, address: int, like: npt.NDArray[Any]) -> npt.NDArray[Any]:
        out = np.zeros(like.nbytes, np.uint8)
        self.core.read(address, out)
        return out.view(like.dtype)

    def launch(
        self, kernel: str, grid: tuple[int, ...], block: tuple[int, ...], layout: str, *args: Any, lds: int = 0
    ) -> dict[str, Any]:
        sizes = [(*shape, 1, 1)[:3] for shape in (grid, block)]
        result: dict[str, Any] = self.core.launch(self.module, kernel, *sizes, struct.pack("@" + layout, *args), lds)
        return result
