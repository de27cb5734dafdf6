"""Sandbox for untrusted programs: `run` starts one; `available` and `require` test whether isolation works here."""

from hipsynth.profiling.sandbox.bubblewrap import available, require, unavailable
from hipsynth.profiling.sandbox.limits import (
    WALL_EXTRA_S,
    WALL_FACTOR,
    SandboxLimits,
    SandboxResult,
    TimeLimits,
    time_limits,
)
from hipsynth.profiling.sandbox.run import run
from hipsynth.profiling.sandbox.session import Session
from hipsynth.profiling.sandbox.view import job_folder

__all__ = [
    "WALL_EXTRA_S",
    "WALL_FACTOR",
    "SandboxLimits",
    "SandboxResult",
    "Session",
    "TimeLimits",
    "available",
    "job_folder",
    "require",
    "run",
    "time_limits",
    "unavailable",
]
