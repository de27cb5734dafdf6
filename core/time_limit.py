"""A limit on the processor time of work in this process and of the compilers that it starts."""

from __future__ import annotations

import contextlib
import math
import signal
from collections.abc import Iterator
from types import FrameType

from hipsynth.core.errors import TimeLimitReached
from hipsynth.core.stop_signal import is_importing

PREDICTION_SECONDS = 60.0  # of processor time, for one request of predictions
_AGAIN_S = 0.05  # until the next signal, where one came in the middle of an import
_LEAST_S = 0.001
_limits: list[float] = []  # of the work in progress


class OutOfTime(BaseException):
    """The limit is reached; whoever has a part of the answer catches it. No error, so that no other handler does."""


@contextlib.contextmanager
def processor_time_limit(seconds: float) -> Iterator[None]:
    """Raises OutOfTime inside once the work has taken so much processor time, which leaves it as TimeLimitReached. For
    the main thread; one limit at a time. Native calls end first."""

    def stop(_: int, frame: FrameType | None) -> None:
        if not is_importing(frame):  # a module that is half loaded may never load again
            signal.setitimer(signal.ITIMER_PROF, 0)
            raise OutOfTime

    before = signal.signal(signal.SIGPROF, stop)
    _limits.append(seconds)
    signal.setitimer(signal.ITIMER_PROF, seconds, _AGAIN_S)
    try:
        yield
    except OutOfTime:
        raise TimeLimitReached(
            f"no answer within {seconds:g} s of processor time", remedy="give more time (--timeout), or less to do"
        ) from None
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        _limits.pop()
        signal.signal(signal.SIGPROF, before)


def seconds_left() -> float:
    """Processor time that is left to the work in progress; infinite without a limit."""
    return signal.getitimer(signal.ITIMER_PROF)[0] if _limits else math.inf


def require_time() -> None:
    """Raises OutOfTime if the limit was reached before."""
    if not seconds_left():
        raise OutOfTime


def charge_seconds(seconds: float) -> None:
    """Counts processor time of another process. Raises OutOfTime if that reaches the limit."""
    if not _limits:
        return
    left = seconds_left() - seconds
    signal.setitimer(signal.ITIMER_PROF, max(left, 0.0), _AGAIN_S)
    if left < _LEAST_S:
        signal.setitimer(signal.ITIMER_PROF, 0)
        raise OutOfTime
