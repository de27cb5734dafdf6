"""Whether a program waits for its work: the host before it reads results, and one stream for another."""

from __future__ import annotations

import re
from dataclasses import replace

from hipsynth.simulator.observation import Deferral
from hipsynth.tuning.optimize.documents import VerificationCheck
from hipsynth.tuning.optimize.verification.support import TrialSource, check_each_size
from hipsynth.tuning.trial import Conditions

# What lets work go on while the host does, and what host and device share. Without any, every result is copied by calls
# that wait for it.
_ASYNCHRONOUS = re.compile(
    r"\bhip(?:\w*(?:Stream|Async|Managed|Graph)|Host[A-Z]|MallocHost|MemAllocHost|FreeHost)|__managed__"
)


NAME = "waiting"


def check_waiting(source: TrialSource, text: str) -> VerificationCheck:
    """Launches, copies and fills are executed no earlier than the program waits for them, and those of streams that do
    not wait for each other in both orders."""
    if not _ASYNCHRONOUS.search(text):
        return VerificationCheck(NAME, True, "all calls wait for their work: no streams, no memory of host and device")
    return check_each_size(source, lambda plain: _check_orders(source, text, plain))


def _check_orders(source: TrialSource, text: str, plain: Conditions) -> VerificationCheck:
    for order in (Deferral.OLDEST_STREAM_FIRST, Deferral.YOUNGEST_STREAM_FIRST):
        deferred = replace(plain, deferral=order)
        if not source.check_equal(NAME, source.original, plain, deferred).passed:
            return VerificationCheck(NAME, None, "the original itself does not wait for what it reads")
        check = source.check_equal(NAME, text, plain, deferred)
        if not check.passed:
            return replace(check, detail=f"work that nothing waits for comes late, {check.detail}")
    return check
