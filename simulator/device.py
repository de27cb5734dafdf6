"""Python access to a simulated device: compile a HIP source, launch its kernels on numpy arrays, read counters."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar, Unpack

import numpy as np
import numpy.typing as npt

from hipsynth import toolchain
from hipsynth.simulator import devices
from hipsynth.simulator.native_core import DeviceOptions, Dispatch, native_core

Item = TypeVar("Item", bound=np.generic)


class SimDevice:
    """One simulated device with the kernels of one HIP source loaded. `scratch` is the build folder.

    `constants` override constants of the device's table; `options` are passed to the core.
    """

    def __init__(
        self,
        name: str,
        source: Path,
        scratch: Path,
        flags: str = "-O3",
        constants: Mapping[str, float] | None = None,
        **options: Unpack[DeviceOptions],
    ) -> None:
        self.table = devices.load_device(name)
        build = toolchain.compile_device(source, self.table.arch, flags, scratch / self.table.arch)
        spec = {**self.table.spec(), **(constants or {})}
        self.core = native_core().Device(self.table.arch, spec, **options)
        self.module = self.core.load(build.code_object.read_bytes(), build.disassembly.read_text())

    def upload(self, array: npt.NDArray[np.generic]) -> int:
        """Allocates device memory and copies an array to it; returns the device address."""
        address = self.core.allocate(array.nbytes)
        self.core.write(address, np.ascontiguousarray(array).view(np.uint8).reshape(-1))
        return address

    def download(self, address: int, like: npt.NDArray[Item]) -> npt.NDArray[Item]:
        """Copies device memory at an address to a new 1-D array with the type and number of bytes of `like`."""
        out = np.zeros(like.nbytes, np.uint8)
        self.core.read(address, out)
        return out.view(like.dtype)

    def launch(
        self, kernel: str, grid: tuple[int, ...], block: tuple[int, ...], layout: str, *args: float, lds: int = 0
    ) -> Dispatch:
        """Runs one dispatch. `grid` counts work-groups, `layout` is the struct format string of the arguments."""
        packed = struct.pack("@" + layout, *args)
        return self.core.launch(self.module, kernel, _in_three(grid), _in_three(block), packed, lds)


def _in_three(shape: tuple[int, ...]) -> tuple[int, int, int]:
    x, y, z = (*shape, 1, 1)[:3]
    return x, y, z
