"""Sandbox for untrusted programs: `run` starts one; `available` and `require` test whether isolation works here."""

from hipsynth.toolchain.sandbox.bubblewrap import available, require, unavailable
from hipsynth.toolchain.sandbox.limits import (
    WALL_EXTRA_S,
    WALL_FACTOR,
    SandboxLimits,
    SandboxResult,
    TimeLimits,
    time_limits,
)
from hipsynth.toolchain.sandbox.run import run
from hipsynth.toolchain.sandbox.session import SandboxSession
from hipsynth.toolchain.sandbox.view import job_folder

__all__ = [
    "WALL_EXTRA_S",
    "WALL_FACTOR",
    "SandboxLimits",
    "SandboxResult",
    "SandboxSession",
    "TimeLimits",
    "available",
    "job_folder",
    "require",
    "run",
    "time_limits",
    "unavailable",
]
