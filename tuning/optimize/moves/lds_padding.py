"""Padding of two-dimensional LDS arrays, whose columns otherwise lie in one bank."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from hipsynth.tuning.optimize.in_place import padding
from hipsynth.tuning.optimize.moves.view import KernelView
from hipsynth.tuning.optimize.plan import TransformationPlan


def options(view: KernelView) -> Iterator[TransformationPlan]:
    if not view.plan.pad and any(padding(view.program, view.kernel)):
        yield replace(view.plan, pad=True)
