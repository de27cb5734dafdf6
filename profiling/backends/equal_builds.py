"""Reuses the result of an identical run: flag sets often compile to the same machine code.

Within `share_equal_runs()`, a run of the same files on the same device, with the same arguments and limits, is looked
up. Nothing is remembered outside of it, so that two profiles of one program stay two runs.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import replace

from hipsynth.core.program import Program
from hipsynth.simulator.api import Artefacts, RunResult
from hipsynth.simulator.devices import DeviceTable
from hipsynth.simulator.limits import RunLimits

Key = tuple[object, ...]
_known: ContextVar[dict[Key, RunResult] | None] = ContextVar("runs of this job", default=None)


@contextlib.contextmanager
def share_equal_runs() -> Iterator[None]:
    """While the block runs, equal runs are executed once."""
    token = _known.set({})
    try:
        yield
    finally:
        _known.reset(token)


def key_of(program: Program, artefacts: Artefacts, device: DeviceTable, limits: RunLimits) -> Key | None:
    """The key under which runs share a result; None where sharing is off or the program reads its own files."""
    if _known.get() is None or program.project is not None:
        return None
    files = [artefacts.executable, *(path for module in artefacts.modules for path in module)]
    texts = tuple(hashlib.sha256(path.read_bytes()).hexdigest() for path in files)
    return (artefacts.executable.name, texts, str(artefacts.objdump), program.arguments, device.name, limits)


def find_equal_run(key: Key | None) -> RunResult | None:
    """The result of an equal run, which took no time this time."""
    earlier_runs = _known.get()
    earlier_run = earlier_runs.get(key) if earlier_runs is not None and key is not None else None
    return earlier_run and replace(earlier_run, wall_s=0.0, cpu_s=0.0, device_s=0.0)


def keep_run(key: Key | None, result: RunResult) -> None:
    """Remembers a run that ended by itself; one that was stopped may end otherwise on a less busy machine."""
    earlier_runs = _known.get()
    if earlier_runs is not None and key is not None and result.status == "ok":
        earlier_runs[key] = result
