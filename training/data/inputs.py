"""What a model reads besides the source, and how it answers: the part of a recipe that prompts and decoding share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any

from hipsynth.profiling.devices import default_device, load
from hipsynth.profiling.preview.host import HostLaunch, host_launches
from hipsynth.profiling.preview.values import Buffer
from hipsynth.synth.core.errors import HipsynthError

ANY_TARGET = "any"  # stands for architecture and flags where a model must not read them
MOST_LAUNCHES = 6  # shown in a prompt


@dataclass(frozen=True)
class Options:
    """`targets`: the question names architecture and flags. `launches`: it lists the launches that the host code makes.
    `auxiliary`: the answer says the facts of data.auxiliary first. `parallel`: values of a stage are decoded at once
    (each sees the question, the stages before and its own key)."""

    targets: bool = True
    launches: bool = False
    auxiliary: bool = False
    parallel: bool = False

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Options:
        """The options in a recipe's or a model's table of settings; absent ones have their defaults."""
        return cls(**{f.name: bool(record[f.name]) for f in fields(cls) if f.name in record})


@lru_cache(maxsize=65536)
def launch_lines(source: str, arch: str) -> str:
    """The launches of a program as comment lines, for example "// launch axpy grid 4096 1 1 block 256 1 1 arguments
    1048576 8 bytes"; without those whose shape is not known before the program runs.

    Reads text alone: the code need not compile. "" where there is no launch that can be followed.
    """
    table = load(default_device(arch))
    try:
        found, _ = host_launches(source, (), {"warpSize": 64, "multiProcessorCount": int(table["topology.cus"])})
    except (HipsynthError, RecursionError):
        return ""
    return "".join(map(_line, found[:MOST_LAUNCHES]))


def _line(launch: HostLaunch) -> str:
    grid, block = (" ".join(map(str, shape)) for shape in (launch.grid, launch.block))
    return f"// launch {launch.kernel} grid {grid} block {block}{_arguments(launch)}\n"


def _arguments(launch: HostLaunch) -> str:
    shown = [_argument(value) for value in launch.arguments]
    return f" arguments {', '.join(shown)}" if shown else ""


def _argument(value: Any) -> str:
    if isinstance(value, Buffer):
        return f"{value.bytes} bytes" if isinstance(value.bytes, int) else "buffer"
    return f"{value}" if isinstance(value, int | float) else "?"
