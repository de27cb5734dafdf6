"""The result of a kernel fusion, and names for what it defines."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Fusion:
    """The program with launches joined: of these kernels, as a new one called `name`."""

    text: str
    name: str
    kernels: tuple[str, ...]


def choose_free_name(name: str, taken: Mapping[str, str] | str) -> str:
    """A name that does not occur in `taken`."""
    words = set(re.findall(r"\w+", taken)) if isinstance(taken, str) else taken
    candidate, number = name, 2
    while candidate in words:
        candidate, number = f"{name}_{number}", number + 1
    return candidate
