"""Runs of a script that are compared with each other: what its kernels wrote, and other numbers from its generators.

Written beside the script, which may damage it: whoever reads the file checks its form (simulator.scripts.trial).
"""

from __future__ import annotations

import atexit
import ctypes
import hashlib
import itertools
import json
import os
import random
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
import torch

from . import torch_cuda
from .placement import is_on_device, tensors_in
from .triton_driver import Launcher

STEP = 0x9E3779B9  # between the seeds of two trials
SEED_RANGE = 1 << 32
CLOCKS = ("time", "perf_counter", "monotonic", "process_time", "thread_time")
LARGE = 256.0
DRAWN = {torch: ("randn", "rand", "randn_like", "rand_like", "normal"), torch.Tensor: ("normal_", "uniform_")}
NS, START_NS, READING_NS, STILL_MS = 10**9, 1_750_000_000 * 10**9, 10**6, 1.0


@dataclass
class WrittenTensor:
    """What a kernel last left in memory of a tensor."""

    dtype: str
    data: bytes


class TensorRecorder:
    """Keeps what each kernel wrote to each of its tensors. Tensors of the same kernel, at the same place among its
    arguments and in memory, count as one: what the last launch left there is kept."""

    def __init__(self) -> None:
        self.written: dict[tuple[str, int, int, int], WrittenTensor] = {}

    def watch_launch(self, kernel: str, arguments: Iterable[object], launch: Callable[[], None]) -> None:
        """Launches, and keeps the tensors among the arguments whose bytes are other ones than before."""
        with torch._C.DisableTorchFunction():
            tensors = [tensor for tensor in _tensors_of(arguments) if is_on_device(tensor)]
            places = [(tensor.untyped_storage().data_ptr(), tensor.untyped_storage().nbytes()) for tensor in tensors]
        before = [_digest_memory(*place) for place in places]
        launch()
        for number, (tensor, place, digest) in enumerate(zip(tensors, places, before, strict=True)):
            key = (kernel, number, *place)
            if key in self.written or _digest_memory(*place) != digest:
                data = bytes(_memory_of(*place))
                self.written[key] = WrittenTensor(str(tensor.dtype).removeprefix("torch."), data)

    def write_file(self, path: Path) -> None:
        """One line of JSON, and the bytes of all tensors behind it."""
        rows = [[row.dtype, len(row.data)] for row in self.written.values()]
        with path.open("wb") as file:
            file.write(json.dumps(rows).encode() + b"\n")
            file.writelines(row.data for row in self.written.values())


def _tensors_of(arguments: Iterable[object]) -> Iterator[torch.Tensor]:
    """The tensors of a launch, also inside descriptors."""
    yield from tensors_in(getattr(value, "base", value) for value in arguments)


def _memory_of(address: int, size: int) -> ctypes.Array[ctypes.c_char]:
    return (ctypes.c_char * size).from_address(address)


def _digest_memory(address: int, size: int) -> bytes:
    return hashlib.blake2b(_memory_of(address, size), digest_size=16).digest()


def shift_seed(seed: int, by: int) -> int:
    """The seed of trial number `by` in the place of a script's own; the same one in trial 0."""
    return (seed + by * STEP) % SEED_RANGE if by else seed


def activate_trial() -> None:
    """Does what the environment asks for: {"seed": number of the trial, "family": of numbers
    that are drawn, "tensors": file for what kernels write,
    "still": whether times stay the same}."""
    settings = json.loads(os.environ.get("HIPSYNTH_SCRIPT_TRIAL", "null"))
    if settings is None:
        return
    _seed_generators(int(settings["seed"]))
    if change := FAMILIES.get(settings["family"]):
        _change_drawn_numbers(change)
    if settings["still"]:
        _hold_clocks()
    if settings["tensors"]:
        recorder = TensorRecorder()
        Launcher.watch_launch = staticmethod(recorder.watch_launch)
        atexit.register(recorder.write_file, Path(settings["tensors"]))


def _hold_clocks() -> None:
    """Kernels take one time, whatever they do; the clocks of Python tell how often they were read."""
    torch_cuda.Event.elapsed_time = lambda self, end: STILL_MS  # type: ignore[method-assign]
    readings = itertools.count(START_NS, READING_NS)
    for name in CLOCKS:
        setattr(time, name, lambda: next(readings) / NS)
        setattr(time, f"{name}_ns", lambda: next(readings))


def _seed_generators(by: int) -> None:
    """Gives every generator a seed, and the trial's in the place of those that the script sets."""

    def shifted(seed_by: Callable[..., Any]) -> Callable[..., Any]:
        def seed(value: Any = None, *args: Any, **kwargs: Any) -> Any:
            number = value if value is not None else 0
            return seed_by(shift_seed(number, by) if isinstance(number, int) else number, *args, **kwargs)

        return seed

    torch.manual_seed = torch.random.manual_seed = shifted(torch.manual_seed)
    torch.cuda.manual_seed = shifted(torch.cuda.manual_seed)
    seed_generator = torch.Generator.manual_seed
    torch.Generator.manual_seed = lambda self, seed: seed_generator(self, shift_seed(seed, by))  # type: ignore[method-assign]
    numpy.random.default_rng = shifted(numpy.random.default_rng)
    numpy.random.RandomState = _seeded_state(by)  # type: ignore[misc]
    numpy.random.seed = shifted(numpy.random.seed)
    random.seed = shifted(random.seed)
    numpy.random.seed()
    random.seed()
    torch.manual_seed(0)


def _enlarge_numbers(numbers: torch.Tensor) -> None:
    numbers.mul_(LARGE)


def _clear_quarter(numbers: torch.Tensor) -> None:
    numbers.view(-1)[::4] = 0


FAMILIES: dict[str, Callable[[torch.Tensor], None]] = {"LARGE": _enlarge_numbers, "ZEROS": _clear_quarter}


def _change_drawn_numbers(change: Callable[[torch.Tensor], None]) -> None:
    """Makes a change to every floating-point tensor that PyTorch draws at random."""

    def wrap_draw(draw: Callable[..., Any]) -> Callable[..., Any]:
        def draw_changed(*args: Any, **kwargs: Any) -> Any:
            numbers = draw(*args, **kwargs)
            with torch.no_grad(), torch._C.DisableTorchFunction():
                if numbers.is_floating_point() and numbers.is_contiguous():
                    change(numbers.detach())
            return numbers

        return draw_changed

    for place, names in DRAWN.items():
        for name in names:
            setattr(place, name, wrap_draw(getattr(place, name)))


def _seeded_state(by: int) -> type[numpy.random.RandomState]:
    class SeededState(numpy.random.RandomState):
        def __init__(self, seed: Any = None) -> None:
            number = 0 if seed is None else seed
            super().__init__(shift_seed(number, by) if isinstance(number, int) else number)

    return SeededState
