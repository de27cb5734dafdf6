"""Kernel fusion: joins consecutive launches; values that a work-item passes to itself stay in registers.

Two launches are joined if they have the same shape, no work-item of either depends on its group, and each array that
one of them writes and the other one uses is accessed at the work-item's own element alone: the same subscript in both,
one for each work-item. Arrays are told apart by the expressions that the launches pass, unless one is a copy of
another. work_groups.py joins launches of the same work-groups, scan_passes.py scans by doubling distances,
halving_steps.py steps of halving distances, loop_passes.py the passes of a loop, temporal_blocking.py passes over
neighbours' elements, one_group.py loops of short launches.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from hipsynth.tuning.optimize.analysis.macro_expansion import expand_macros
from hipsynth.tuning.optimize.analysis.program_model import ParsedProgram
from hipsynth.tuning.optimize.kernel_fusion.fused_launches import (
    FusedLaunch,
    come_together,
    has_one_axis,
    join_launches,
    keep_arrays_apart,
    keep_variables_apart,
    shared_subscripts,
    write_blocks,
)
from hipsynth.tuning.optimize.kernel_fusion.fused_program import Fusion
from hipsynth.tuning.optimize.kernel_fusion.halving_steps import find_steps
from hipsynth.tuning.optimize.kernel_fusion.joined_bodies import write_joined_bodies
from hipsynth.tuning.optimize.kernel_fusion.loop_passes import find_passes
from hipsynth.tuning.optimize.kernel_fusion.one_group import find_launch_loops
from hipsynth.tuning.optimize.kernel_fusion.scan_passes import find_scans
from hipsynth.tuning.optimize.kernel_fusion.temporal_blocking import find_temporal_blocks
from hipsynth.tuning.optimize.kernel_fusion.work_groups import BARRIER, GroupLaunch, can_join_groups
from hipsynth.tuning.optimize.transformation_plan import AXES

_OWN = {a: {f"blockIdx.{a}*blockDim.{a}+threadIdx.{a}", f"threadIdx.{a}+blockIdx.{a}*blockDim.{a}"} for a in AXES}


def find_fusions(program: ParsedProgram) -> Iterator[Fusion]:
    """Every scan by doubling distances as two launches, all passes of a loop as one, the last steps of halving
    distances as one, then every run of launches that can be joined by work-items, then by work-groups, the longest
    first; then many passes of a loop over neighbours in a launch; last, each loop of launches by one work-group.
    Macros of joined kernels are written out."""
    expanded = expand_macros(program)
    for fusion in _find_fusions(expanded.program):
        yield replace(fusion, text=expanded.restore(fusion.text))


def _find_fusions(program: ParsedProgram) -> Iterator[Fusion]:
    yield from find_scans(program)
    yield from find_passes(program)
    yield from find_steps(program)
    pairs = sorted(((launch, k) for k in program.kernels for launch in k.launches), key=lambda pair: pair[0].start)
    for run in _find_runs([FusedLaunch(program, *pair) for pair in pairs]):
        yield join_launches(program, run, lambda joined: write_joined_bodies(joined) or write_blocks(joined))
    for groups in _find_runs([GroupLaunch(program, *pair) for pair in pairs]):
        yield join_launches(program, groups, lambda joined: write_blocks(joined, BARRIER))
    yield from find_temporal_blocks(program)
    yield from find_launch_loops(program)


def _find_runs(launches: Sequence[FusedLaunch]) -> list[list[FusedLaunch]]:
    """The runs of two and more launches that can be joined, the longest first."""
    runs: list[list[FusedLaunch]] = []
    for launch in launches:
        if runs and _can_join(runs[-1], launch):
            runs[-1].append(launch)
        else:
            runs.append([launch])
    return sorted((run for run in runs if len(run) > 1), key=len, reverse=True)


def _can_join(run: Sequence[FusedLaunch], after: FusedLaunch) -> bool:
    """Whether a launch can become part of a run of launches that comes right before it."""
    if not (run[0].fits() and after.fits()) or not come_together(after.program, run[-1], after):
        return False
    if not keep_arrays_apart(run, after) or not keep_variables_apart(run, after):
        return False
    if isinstance(after, GroupLaunch):
        return all(can_join_groups(before, after) for before in run)
    return all(_keeps_elements(before, after) for before in run)


def _keeps_elements(before: FusedLaunch, after: FusedLaunch) -> bool:
    """Whether what one launch leaves for the other one is a work-item's own element."""
    shape = after.launch.grid, after.launch.block
    flat = all(has_one_axis(after.program, part) for part in shape)
    return all(
        len(subscripts) == 1 and _has_own_element(next(iter(subscripts)), flat)
        for subscripts in shared_subscripts(before, after)
    )


def _has_own_element(subscript: str | None, flat: bool) -> bool:
    """Whether every work-item has an element of its own at a subscript: `x`, or `y * width + x` with a width that does
    not depend on it."""
    if subscript is None:
        return False
    subscript = _strip_brackets(subscript)
    for x in _OWN["x"]:
        if subscript == x and flat:
            return True
        for y in _OWN["y"]:
            if re.fullmatch(rf"\({re.escape(y)}\)\*\w+\+\({re.escape(x)}\)", subscript):
                return True
    return False


def _strip_brackets(subscript: str) -> str:
    """A subscript without brackets around all of it, and with one pair around a coordinate: macros have more."""
    for coordinate in (*_OWN["x"], *_OWN["y"]):
        while f"(({coordinate}))" in subscript:
            subscript = subscript.replace(f"(({coordinate}))", f"({coordinate})")
    while subscript.startswith("(") and _find_closing_bracket(subscript) == len(subscript) - 1:
        subscript = subscript[1:-1]
    return subscript


def _find_closing_bracket(text: str) -> int:
    """Where the bracket is closed that a text begins with."""
    depths = itertools.accumulate((sign == "(") - (sign == ")") for sign in text)
    return next((at for at, depth in enumerate(depths) if depth == 0), -1)
