"""Why a kernel is left as it is."""

from __future__ import annotations

from dataclasses import dataclass

from hipsynth.core.reasons import Reason


@dataclass(frozen=True)
class KernelRefusal:
    """Why a kernel cannot be changed: a code, and the reason in words."""

    code: Reason
    text: str
