"""What a model reads besides the source, and how it answers: the part of a recipe that prompts and decoding share."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any

from hipsynth.core.errors import HipsynthError
from hipsynth.profiling.preview.host import host_launches
from hipsynth.profiling.preview.launching import HostLaunch
from hipsynth.profiling.preview.values import HostAllocation
from hipsynth.simulator.devices import default_device, load_device
from hipsynth.training.data.numbers import number_format

ANY_TARGET = "any"  # stands for architecture and flags where a model must not read them
LARGE = 1000  # from which an argument is shown as a magnitude
MOST_LAUNCHES = 6  # shown in a prompt


@dataclass(frozen=True)
class PromptOptions:
    """`targets`: the question names architecture and flags. `launches`: it lists the launches that the host code makes.
    `auxiliary`: the answer says the facts of data.auxiliary first. `parallel`: values of a stage are decoded at once
    (each sees the question, the stages before and its own key)."""

    targets: bool = True
    launches: bool = False
    auxiliary: bool = False
    parallel: bool = False

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> PromptOptions:
        """The options in a recipe's or a model's table of settings; absent ones have their defaults."""
        return cls(**{f.name: bool(record[f.name]) for f in fields(cls) if f.name in record})


@lru_cache(maxsize=65536)
def launch_lines(source: str, arch: str) -> str:
    """The launches of a program as comment lines, for example "// launch axpy grid 4096 1 1 +3410 block 256 1 1 +2256
    items +6105 arguments +6105, +6419 bytes"; without those whose shape is not known before the program runs. Products
    and large numbers are in the form "exp3" of answers (data.numbers), so that a small model can copy them.

    Reads text alone: the code need not compile. "" where there is no launch that can be followed.
    """
    table = load_device(default_device(arch))
    try:
        found, _ = host_launches(source, (), {"warpSize": 64, "multiProcessorCount": int(table["topology.cus"])})
    except (HipsynthError, RecursionError):
        return ""
    return "".join(map(_line, found[:MOST_LAUNCHES]))


def _line(launch: HostLaunch) -> str:
    groups, size = math.prod(launch.grid), math.prod(launch.block)
    grid, block = (" ".join(map(str, shape)) for shape in (launch.grid, launch.block))
    shape = f"grid {grid} {_magnitude(groups)} block {block} {_magnitude(size)} items {_magnitude(groups * size)}"
    return f"// launch {launch.kernel} {shape}{_arguments(launch)}\n"


def _magnitude(value: float) -> str:
    return number_format("exp3").written(value)


def _arguments(launch: HostLaunch) -> str:
    shown = [_argument(value) for value in launch.arguments]
    return f" arguments {', '.join(shown)}" if shown else ""


def _argument(value: Any) -> str:
    if isinstance(value, HostAllocation):
        return f"{_magnitude(value.bytes)} bytes" if isinstance(value.bytes, int) else "buffer"
    if isinstance(value, int) and value >= LARGE:
        return _magnitude(value)
    return f"{value}" if isinstance(value, int | float) else "?"
