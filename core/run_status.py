"""How a run ended, as results, labels and documents state it."""

from __future__ import annotations

from enum import StrEnum


class RunStatus(StrEnum):
    """How a run ended: by itself, with any exit code; before its end, with results of what ended; or without results.
    A result's reason says why it is not OK."""

    OK = "ok"
    PARTIAL = "partial"
    FAILED = "failed"
