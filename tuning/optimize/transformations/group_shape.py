"""The shape and size of groups, with launch bounds to match: how far apart the lines are that a group shares in its L1,
and how many waves there are to hide latency."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from hipsynth.tuning.optimize.transformation_plan import Shape, TransformationPlan
from hipsynth.tuning.optimize.transformations.kernel_view import MOST_LANES, KernelView
from hipsynth.tuning.optimize.transformations.transformation import Transformation

FLAT: tuple[Shape, ...] = ((64, 1, 1), (128, 1, 1), (256, 1, 1), (512, 1, 1), (1024, 1, 1))
TILES: tuple[Shape, ...] = ((64, 4, 1), (32, 8, 1), (16, 16, 1), (64, 16, 1), (128, 2, 1))


def list_plans(view: KernelView) -> Iterator[TransformationPlan]:
    if not view.kernel.independent or view.plan.split:
        return
    lanes = view.plan.lanes
    for shape in FLAT + (TILES if 1 in view.axes else ()):
        turned = list(shape)
        turned[0], turned[lanes] = shape[lanes], shape[0]
        if math.prod(turned) <= MOST_LANES and all(n <= max(view.extent(a), 64) for a, n in enumerate(turned)):
            yield replace(view.base, shape=(turned[0], turned[1], turned[2]))


TRANSFORMATION = Transformation((), "TCP_TCC_READ_REQ", list_plans)
