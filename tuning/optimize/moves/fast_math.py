"""Approximations by the hardware's instructions instead of exact functions, only where the user allows them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from hipsynth.tuning.optimize.in_place import fast_calls
from hipsynth.tuning.optimize.moves.view import KernelView
from hipsynth.tuning.optimize.plan import TransformationPlan

ALLOWED_BY = "fast-math"


def options(view: KernelView) -> Iterator[TransformationPlan]:
    if ALLOWED_BY in view.allow and not view.plan.fast and any(fast_calls(view.program, view.kernel)):
        yield replace(view.plan, fast=True)
