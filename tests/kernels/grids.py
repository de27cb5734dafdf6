"""The kernels of programs_grids.hip with arguments that fit a grid of any size."""

from __future__ import annotations

import functools
import gc
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import needs
import numpy as np

from hipsynth.core.errors import MissingDependency
from hipsynth.simulator.device import SimDevice

SOURCE = Path(__file__).with_name("programs_grids.hip")


@dataclass(frozen=True)
class Grid:
    """How to launch a kernel: `size` is about how many thousand work-items it gets."""

    layout: str
    block: tuple[int, ...]
    grid: Callable[[int], tuple[int, ...]]
    buffers: Callable[[int], tuple[int, ...]]  # bytes of each pointer argument
    numbers: Callable[[int], tuple[float, ...]]  # the arguments that follow


def _items(size: int) -> int:
    return size * 1024


def _side(size: int, multiple: int) -> int:
    """The side of a square of about `size` thousand items."""
    return max(multiple, round(_items(size) ** 0.5 / multiple) * multiple)


def _power(size: int) -> int:
    return 1 << (_items(size).bit_length() - 1)


def _flat(n: int) -> tuple[int, ...]:
    return ((n + 255) // 256,)


def _vectors(count: int, width: int = 4) -> Callable[[int], tuple[int, ...]]:
    return lambda size: (_items(size) * width,) * count


def _square(count: int, multiple: int) -> Callable[[int], tuple[int, ...]]:
    return lambda size: (_side(size, multiple) ** 2 * 4,) * count


def _tiles(size: int) -> tuple[int, ...]:
    """Matrix products do much work per item: an eighth of the items."""
    return (_side(size // 8, 16) // 16,) * 2


def _matrices(size: int) -> tuple[int, ...]:
    return (_side(size // 8, 16) ** 2 * 4,) * 3


KERNELS: dict[str, Grid] = {
    "triad": Grid("QQQfi", (256,), lambda s: _flat(_items(s)), _vectors(3), lambda s: (3.0, _items(s) - 100)),
    "copy_doubles": Grid("QQi", (256,), lambda s: _flat(_items(s) // 4), _vectors(2, 8), lambda s: (_items(s),)),
    "strided": Grid("QQii", (256,), lambda s: _flat(_items(s)), _vectors(2), lambda s: (17, _items(s))),
    "gather": Grid(
        "QQQi",
        (256,),
        lambda s: _flat(_items(s)),
        lambda s: (_items(s) * 4, 16384, _power(s) * 4),
        lambda s: (_power(s) - 1,),
    ),
    "stencil": Grid(
        "QQii",
        (64, 4),
        lambda s: (_side(s, 64) // 64, _side(s, 64) // 4),
        _square(2, 64),
        lambda s: (_side(s, 64),) * 2,
    ),
    "transpose": Grid("QQi", (32, 8), lambda s: (_side(s, 32) // 32,) * 2, _square(2, 32), lambda s: (_side(s, 32),)),
    "gemm_tile": Grid("QQQi", (16, 16), _tiles, _matrices, lambda s: (_side(s // 8, 16),)),
    "gemm_naive": Grid("QQQi", (16, 16), _tiles, _matrices, lambda s: (_side(s // 8, 16),)),
    "reduce": Grid("QQi", (256,), lambda s: (_items(s) // 512,), _vectors(2), lambda s: (_items(s),)),
    "scan": Grid("QQ", (256,), lambda s: _flat(_items(s)), _vectors(2), lambda s: ()),
    "histogram": Grid("QQ", (256,), lambda s: (_items(s) // 1024,), lambda s: (1024, _items(s) * 4), lambda s: ()),
    "divergent": Grid("Qi", (256,), lambda s: _flat(_items(s)), _vectors(1), lambda s: (_power(s),)),
    "triangle": Grid("QQi", (256,), lambda s: _flat(_items(s)), _vectors(2), lambda s: (_power(s),)),
    "wave_total": Grid(
        "QQi", (64,), lambda s: (_items(s) // 512,), lambda s: (64, _items(s) * 4), lambda s: (_items(s),)
    ),
    "early_exit": Grid("QQi", (256,), lambda s: _flat(_items(s)), _vectors(2), lambda s: (_items(s) // 3,)),
}


@functools.cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="hipsynth-grids-")


def launch(name: str, kernel: str, size: int, *, keep: bool = False, **options: Any) -> Any:
    """Runs one kernel on a fresh device; the dispatch, or with `keep` also the device and its buffers' addresses.

    Pointer arguments are zeros, but for those of 16 KiB: random numbers below 2^20.
    """
    gc.collect()  # a device that is still alive would make this one's memory lie elsewhere
    try:
        device = SimDevice(name, SOURCE, Path(_folder().name), **options)
    except MissingDependency as error:
        needs.missing(str(error))
    how = KERNELS[kernel]
    at = [device.core.allocate(bytes) for bytes in how.buffers(size)]
    for address, bytes in zip(at, how.buffers(size), strict=True):
        if bytes == 16384:
            device.core.write(address, np.random.default_rng(1).integers(0, 1 << 20, 4096, np.int32).view(np.uint8))
    found = device.launch(kernel, how.grid(size), how.block, how.layout, *at, *how.numbers(size))
    return (found, device, at) if keep else found
