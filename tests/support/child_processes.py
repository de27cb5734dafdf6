"""Processes that tests start: none is left behind, and tests wait for what runs instead of for a time."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any


@contextlib.contextmanager
def child_process(command: Sequence[str], **options: Any) -> Iterator[subprocess.Popen[str]]:
    """A process with a group of its own, which is killed if the process still runs when the block ends, as after a
    failed assertion. `options`: as of Popen."""
    process = subprocess.Popen(command, text=True, start_new_session=True, **options)
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def wait_until(condition: Callable[[], bool], seconds: float) -> bool:
    """Whether a condition holds within a time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.05)
    return condition()


def is_running(folder: Path, name: str) -> bool:
    """Whether a program of this name runs from below this folder."""
    for place in Path("/proc").iterdir():
        try:
            program = (place / "exe").readlink() if place.name.isdigit() else Path()
        except OSError:
            continue
        if program.name == name and program.is_relative_to(folder):
            return True
    return False


def has_children(process: subprocess.Popen[str]) -> bool:
    """Whether a process has started another one."""
    try:
        return any((task / "children").read_text() for task in Path(f"/proc/{process.pid}/task").iterdir())
    except OSError:
        return False
