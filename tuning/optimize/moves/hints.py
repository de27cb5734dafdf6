"""Pointers that do not alias are declared so: loads move across stores, and uniform ones become scalar loads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from hipsynth.tuning.optimize.moves.view import KernelView
from hipsynth.tuning.optimize.plan import TransformationPlan


def distinct(view: KernelView) -> bool:
    """Whether every launch passes different expressions for all pointers; the output check covers the rest."""
    places = [i for i, one in enumerate(view.kernel.parameters) if one.base]
    passed = [[launch.arguments[i] for i in places] for launch in view.kernel.launches]
    return bool(passed) and all(len(set(one)) == len(one) for one in passed)


def options(view: KernelView) -> Iterator[TransformationPlan]:
    if not view.plan.restrict and distinct(view) and not view.kernel.fixed:
        yield replace(view.plan, restrict=True)
