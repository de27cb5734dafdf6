"""The result of a kernel fusion."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Fusion:
    """The program with launches joined: of these kernels, as a new one called `name`. `one_group`: the launches of a
    loop, by one work-group, which is worth it for short ones alone. `many_passes`: its launches make many of a loop."""

    text: str
    name: str
    kernels: tuple[str, ...]
    one_group: bool = False
    many_passes: bool = False
