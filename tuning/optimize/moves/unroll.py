"""Unrolling of innermost loops: fewer branches and address computations, more loads in flight."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from hipsynth.tuning.optimize.moves.view import KernelView
from hipsynth.tuning.optimize.plan import TransformationPlan


def options(view: KernelView) -> Iterator[TransformationPlan]:
    if "for" in view.words and not view.kernel.fixed:
        for factor in (2, 4, 8):
            yield replace(view.plan, unroll=factor)
