"""A simulated device from Python: compile a HIP source, launch its kernels on numpy arrays, read the counters."""

from __future__ import annotations

import importlib
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hipsynth.profiling import devices, toolchain
from hipsynth.synth.core.errors import Missing


def native_core() -> Any:
    """The native module; raises Missing when it is not built."""
    try:
        return importlib.import_module("hipsynth.profiling.sim._core")
    except ImportError as error:
        raise Missing("the simulator core is not built", cause=str(error), remedy="run `make setup`") from error


class SimDevice:
    """One simulated device with the kernels of one HIP source loaded. `scratch` keeps the build.

    `constants` replace those of the device's table; `options` go to the core.
    """

    def __init__(
        self,
        name: str,
        source: Path,
        scratch: Path,
        flags: str = "-O3",
        constants: Mapping[str, float] | None = None,
        **options: Any,
    ) -> None:
        self.table = devices.load(name)
        build = toolchain.compile_device(source, self.table.arch, flags, scratch / self.table.arch)
        spec = {**self.table.spec(), **(constants or {})}
        self.core = native_core().Device(self.table.arch, spec, **options)
        self.module = self.core.load(build.code_object.read_bytes(), build.disassembly.read_text())

    def upload(self, array: npt.NDArray[Any]) -> int:
        """Copies an array into new device memory; returns its address."""
        address: int = self.core.allocate(array.nbytes)
        self.core.write(address, np.ascontiguousarray(array).view(np.uint8).reshape(-1))
        return address

    def download(self, address: int, like: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The bytes at an address as an array of the type and length of `like`."""
        out = np.zeros(like.nbytes, np.uint8)
        self.core.read(address, out)
        return out.view(like.dtype)

    def launch(
        self, kernel: str, grid: tuple[int, ...], block: tuple[int, ...], layout: str, *args: Any, lds: int = 0
    ) -> dict[str, Any]:
        """Runs one dispatch. `grid` counts work-groups, `layout` is the struct format of the arguments."""
        sizes = [(*shape, 1, 1)[:3] for shape in (grid, block)]
        result: dict[str, Any] = self.core.launch(self.module, kernel, *sizes, struct.pack("@" + layout, *args), lds)
        return result
