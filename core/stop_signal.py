"""What signals that ask this process to stop do: they are remembered, to return partial results, or end it at once."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
from collections.abc import Callable
from types import FrameType

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_received: list[int] = []


def remember_signal(number: int, _frame: object = None) -> None:
    """Signal handler: remembers the signal. Work that can return a part of its result looks at `stop_requested`."""
    _received.append(number)


def stop_requested() -> bool:
    """Whether a signal to stop was remembered: finish the item at hand, then return what there is."""
    return bool(_received)


def request_signal_at_parents_end(number: int) -> None:
    """From now on this process gets the signal when its parent ends, whatever it does then. Linux only."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(number), 0, 0, 0)


def end_at_signals(clean_up: Callable[[], None] = lambda: None) -> None:
    """From now on SIGINT and SIGTERM end this process at once with 128 + their number, after `clean_up`: a server's
    thread that reads standard input would keep it until the input ends. Programs that run in the sandbox end with it,
    and the next start removes what it leaves in temporary folders."""

    def end(number: int, _frame: object) -> None:
        try:
            clean_up()
            os.write(2, b"interrupted\n")
        finally:
            os._exit(128 + number)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)


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
