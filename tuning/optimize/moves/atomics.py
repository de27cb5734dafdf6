"""Privatised atomics: a group adds in the LDS, and its sums go to memory once. For additions of 4-byte numbers whose
results are not used."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from hipsynth.tuning.optimize.moves.view import KernelView
from hipsynth.tuning.optimize.plan import TransformationPlan
from hipsynth.tuning.optimize.privatise import TYPES, private_calls


def options(view: KernelView) -> Iterator[TransformationPlan]:
    calls = list(private_calls(view.program, view.kernel))
    others = sum(1 for word in view.words if word.lower().startswith("atomic")) > 1 or "atomicCAS" in view.words
    bases = {one.base for one in view.kernel.parameters if one.base and not one.constant}
    other_plan = view.plan.split or view.plan.private
    if not view.kernel.independent or other_plan or not calls or others or not bases & TYPES.keys():
        return
    for lanes, factor in ((256, 1), (256, 8), (1024, 4), (1024, 16)):
        if lanes * factor <= max(view.extent(0), 256):
            yield replace(
                view.base, shape=(lanes, 1, 1), axis=0, coarsen=factor, private=True, jam=False, adjacent=False, rows=1
            )
