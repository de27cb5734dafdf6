"""Sandbox for untrusted programs: `run_sandboxed` starts one; `is_available` and `require_sandbox` test whether
isolation works here."""

from hipsynth.toolchain.sandbox.bubblewrap import is_available, require_sandbox, why_unavailable
from hipsynth.toolchain.sandbox.limits import (
    OUTPUT_FACTOR,
    WALL_EXTRA_S,
    WALL_FACTOR,
    JobEnd,
    JobStatus,
    SandboxLimits,
    SandboxResult,
    TimeLimits,
    time_limits,
)
from hipsynth.toolchain.sandbox.mounts import hide_job_folders, job_folder
from hipsynth.toolchain.sandbox.run import run_sandboxed
from hipsynth.toolchain.sandbox.session import SandboxSession

__all__ = [
    "OUTPUT_FACTOR",
    "WALL_EXTRA_S",
    "WALL_FACTOR",
    "JobEnd",
    "JobStatus",
    "SandboxLimits",
    "SandboxResult",
    "SandboxSession",
    "TimeLimits",
    "hide_job_folders",
    "is_available",
    "job_folder",
    "require_sandbox",
    "run_sandboxed",
    "time_limits",
    "why_unavailable",
]
