"""Runs our validation kernels on a fresh simulated device."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from hipsynth.core.scratch import scratch_folder
from hipsynth.profiling.validation.frame import KERNELS
from hipsynth.simulator.device import SimDevice


@contextlib.contextmanager
def device(name: str, kernels: str, flags: str = "-O3", **options: Any) -> Iterator[SimDevice]:
    """A simulated device `name` with empty caches and kernels/<kernels>.hip loaded; `options` go to SimDevice."""
    with scratch_folder() as scratch:
        yield SimDevice(name, KERNELS / f"{kernels}.hip", scratch, flags, **options)
