"""Launch bounds that make the compiler use fewer registers, where registers limit the waves that hide latency."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from hipsynth.core.kernel_record import Limiter
from hipsynth.tuning.optimize.transformation_plan import Shape, TransformationPlan
from hipsynth.tuning.optimize.transformations.kernel_view import MOST_LANES, KernelView
from hipsynth.tuning.optimize.transformations.transformation import Transformation

ANY_BLOCK: Shape = (MOST_LANES, 1, 1)  # stands for groups of whatever size


def list_plans(view: KernelView) -> Iterator[TransformationPlan]:
    if view.limited_by == Limiter.VGPRS and not view.kernel.fixed:
        for waves in (4, 8):
            yield replace(view.plan, waves=waves)


def launch_bounds(shape: Shape, waves: int) -> str:
    """The attribute of a kernel whose groups have this shape and of which a SIMD is to hold so many waves; 0: any."""
    size = shape[0] * shape[1] * shape[2]
    return f"__launch_bounds__({size}, {waves})" if waves else f"__launch_bounds__({size})"


TRANSFORMATION = Transformation(("latency",), "SQ_WAVE_CYCLES", list_plans)
