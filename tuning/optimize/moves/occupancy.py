"""Launch bounds that make the compiler use fewer registers, where registers limit the waves that hide latency."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from hipsynth.tuning.optimize.moves.view import KernelView
from hipsynth.tuning.optimize.plan import TransformationPlan


def options(view: KernelView) -> Iterator[TransformationPlan]:
    if view.limited_by == "VGPRs" and not view.kernel.fixed:
        for waves in (4, 8):
            yield replace(view.plan, waves=waves)
