"""What a test must not leave behind: processes below this one."""

from __future__ import annotations

import os
from pathlib import Path

from hipsynth.toolchain.sandbox import processes

KEPT = {"bwrap", "hipsynth-superv"}  # sandboxes live as long as this process


def left_running() -> set[str]:
    """The names of running descendants of this process, except sandboxes and multiprocessing's own tracker."""
    running = [pid for pid in processes.living_descendants(os.getpid())[1:] if processes.is_running(pid)]
    return {name for pid in running if not _tracks(pid) and (name := _read(pid, "comm")) not in KEPT}


def _tracks(pid: int) -> bool:
    return "multiprocessing.resource_tracker" in _read(pid, "cmdline")


def _read(pid: int, what: str) -> str:
    return Path(f"/proc/{pid}/{what}").read_text(errors="replace").strip()
