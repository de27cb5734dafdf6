"""The error of the native core as a typed error of the tool."""

from __future__ import annotations

from hipsynth.core.errors import BadInput
from hipsynth.core.reasons import Reason

# Reasons of the core (native/core/reason.h) that have the names of ours.
_SAME = (
    Reason.ASSERTION, Reason.BAD_CODE_OBJECT, Reason.BAD_CONFIGURATION, Reason.DEADLOCK, Reason.ILLEGAL_ACCESS,
    Reason.INSTRUCTION_LIMIT, Reason.INTERNAL_ERROR, Reason.OUT_OF_MEMORY, Reason.RECORDED, Reason.SETTLED,
    Reason.TRAP, Reason.UNSUPPORTED_OPCODE, Reason.UNSUPPORTED_SERVICE,
)  # fmt: skip
# With which the process of a script ends a run of its own.
OF_SCRIPTS = (
    Reason.COMPILE_FAILED, Reason.MISSING, Reason.NEEDS_DEVICES, Reason.NEEDS_LIBRARY, Reason.SYNTAX_ERROR,
)  # fmt: skip
CORE_REASONS: dict[str, Reason] = {
    **{str(reason): reason for reason in (*_SAME, *OF_SCRIPTS)},
    "time_limit": Reason.TIMEOUT,
    "bad_launch": Reason.BAD_CODE_OBJECT,
    "bad_spec": Reason.BAD_CONFIGURATION,
    "bad_work": Reason.INTERNAL_ERROR,
}
_NO_REASONS = frozenset({"", "ran", "lost"})  # of launches that were executed, or were not tried
REMEDIES = {
    "bad_code_object": "leave sections and notes of code objects to the compiler, and make device arrays smaller",
    "out_of_memory": "make arrays smaller",
}


def reason_of_core(outcome: str) -> Reason:
    """Our reason for one of the core, or for the outcome of a recorded launch: NONE if it did not fail,
    INTERNAL_ERROR if the core has no such reason."""
    return Reason.NONE if outcome in _NO_REASONS else CORE_REASONS.get(outcome, Reason.INTERNAL_ERROR)


class SimError(BadInput):
    """Device code that the simulator cannot load, or whose execution it ended (exit 3). The native module raises it
    with a reason of the core and its message, which are its `args`; `reason` is ours."""

    def __init__(self, reason: str, message: str) -> None:
        remedy = REMEDIES.get(reason, "correct the device code, or its launches")
        ours = reason_of_core(reason)
        super().__init__("the device code cannot be simulated", cause=message, remedy=remedy, reason=ours)
        self.args = (reason, message)
