"""The error of the native core as a typed error of the tool."""

from __future__ import annotations

from hipsynth.core.errors import BadInput

REMEDIES = {
    "bad_code_object": "leave sections and notes of code objects to the compiler, and make device arrays smaller",
    "out_of_memory": "make arrays smaller",
}


class SimError(BadInput):
    """Device code that the simulator cannot load, or whose execution it ended (exit 3). The native module raises it;
    `reason` is one of the core's (document.CORE_REASONS), `cause` its message."""

    def __init__(self, reason: str, message: str) -> None:
        remedy = REMEDIES.get(reason, "correct the device code, or its launches")
        super().__init__("the device code cannot be simulated", cause=message, remedy=remedy, reason=reason)
        self.args = (reason, message)
