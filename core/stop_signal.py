"""Remembers the signals that asked this process to stop and to return partial results."""

from __future__ import annotations

import signal
from types import FrameType

_received: list[int] = []


def remember_signal(number: int, _frame: object = None) -> None:
    """Signal handler: remembers the signal. Work that can return a part of its result looks at `stop_requested`."""
    _received.append(number)


def stop_requested() -> bool:
    """Whether a signal to stop was remembered: finish the item at hand, then return what there is."""
    return bool(_received)


def exit_code() -> int:
    """The shell's code for the first signal (128 + its number); for Ctrl-C if none was noted."""
    return 128 + (_received[0] if _received else signal.SIGINT)


def is_importing(frame: FrameType | None) -> bool:
    """Whether a signal handler's frame is within an import: an exception there leaves a module half loaded."""
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False
