"""A row per wavefront: the lanes of a wavefront, or of a part of it, share the loops of one work-item, so that
neighbours read neighbouring addresses where each lane walked along a row of its own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from hipsynth.tuning.optimize.body import Body
from hipsynth.tuning.optimize.moves.hints import distinct
from hipsynth.tuning.optimize.moves.view import KernelView
from hipsynth.tuning.optimize.plan import TransformationPlan
from hipsynth.tuning.optimize.split import split_edits
from hipsynth.tuning.optimize.statements import NotUnderstood

LANES = (64, 16, 4)
GROUP = (256, 1, 1)


def possible(view: KernelView) -> bool:
    try:
        split_edits(Body(view.program, view.kernel), LANES[0])
    except NotUnderstood:
        return False
    return True


def options(view: KernelView) -> Iterator[TransformationPlan]:
    rewritten = view.plan.jam or view.plan.private or view.plan.lanes or view.plan.coarsen > 1
    if (
        not view.kernel.independent
        or view.plan.aggregate
        or rewritten
        or view.plan.split
        or not distinct(view)
        or not possible(view)
    ):
        return
    for lanes in LANES:
        yield replace(view.plan, shape=GROUP, split=lanes, restrict=True)
