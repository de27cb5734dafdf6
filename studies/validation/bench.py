"""Runs our validation kernels on a fresh simulated device."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Unpack

from hipsynth.core.scratch import scratch_folder
from hipsynth.simulator.device import SimDevice
from hipsynth.simulator.native_core import DeviceOptions
from studies.validation.frame import KERNELS


@contextlib.contextmanager
def open_device(
    name: str,
    kernels: str,
    flags: str = "-O3",
    constants: Mapping[str, float] | None = None,
    **options: Unpack[DeviceOptions],
) -> Iterator[SimDevice]:
    """A simulated device `name` with empty caches and kernels/<kernels>.hip loaded; the rest goes to SimDevice."""
    with scratch_folder() as scratch:
        yield SimDevice(name, KERNELS / f"{kernels}.hip", scratch, flags, constants, **options)
