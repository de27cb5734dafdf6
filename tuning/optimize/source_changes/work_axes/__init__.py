"""Tiles for kernels that number their work-items in another form than tiles need: by one flat number, by groups along
other axes, or with a nest of loops. The kernel is written with coordinates along x and y and one loop, then tiled."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator

from hipsynth.profiling.backends.protocol import Target
from hipsynth.tuning.optimize.analysis.analysis_faults import TEXT_ERRORS
from hipsynth.tuning.optimize.analysis.program_model import KernelDefinition, ParsedProgram, read_program
from hipsynth.tuning.optimize.analysis.statements import NotUnderstood
from hipsynth.tuning.optimize.evaluate import CandidateMeasurement, KernelTime
from hipsynth.tuning.optimize.source_changes.source_change import LEAST_CHANGED_SHARE, SourceChange, SourceChanger
from hipsynth.tuning.optimize.source_changes.tilings import list_tilings, write_tilings
from hipsynth.tuning.optimize.source_changes.work_axes import (
    flat_number,
    grid_number,
    group_axes,
    index_names,
    loop_nest,
    strided_loop,
    sum_start,
)
from hipsynth.tuning.optimize.source_changes.work_axes.numbered_kernel import NumberedKernel
from hipsynth.tuning.optimize.transformation_plan import Shape

FLAT_GROUP = 256  # work-items
TILINGS = ("matrix_cores", "lds_tile", "lds_transpose")
WHY = "work-items along x and y of the grid can share what they load"


def list_changes(program: ParsedProgram, timed: CandidateMeasurement, target: Target) -> Iterator[SourceChange]:
    """The program with a kernel renumbered and tiled, with each of the first tiles that the transformations offer."""
    for kernel in program.kernels:
        run = timed.of(kernel.name)
        is_notable = run is not None and run.duration_ns >= LEAST_CHANGED_SHARE * timed.duration_ns
        if run is None or not is_notable or not kernel.launches or not kernel.independent or not run.same_block:
            continue
        if any(list_tilings(program, kernel.name, run.bottleneck, run.grid, run.block, TILINGS)):
            continue
        for changed, numbered in _list_numbered(program, kernel, run):
            shape = numbered.grid, numbered.block
            tilings = list(list_tilings(changed, kernel.name, run.bottleneck, *shape, TILINGS))
            yield from write_tilings(changed, kernel.name, numbered.block, iter(tilings), WHY)
            if tilings:
                break


CHANGER = SourceChanger("TCP_TOTAL_CACHE_ACCESSES", list_changes, alternatives=True)


def _list_numbered(
    program: ParsedProgram, kernel: KernelDefinition, run: KernelTime
) -> Iterator[tuple[ParsedProgram, NumberedKernel]]:
    """The program with the kernel's coordinates in each form, with one loop where it has a nest of them, and sums that
    begin with 0."""
    forms = [NumberedKernel(program.text, run.grid, run.block)]
    for list_forms in (
        index_names.list_numbered,
        flat_number.list_numbered,
        _list_flat,
        group_axes.list_numbered,
        strided_loop.list_numbered,
    ):
        with contextlib.suppress(NotUnderstood, *TEXT_ERRORS):
            forms += list_forms(program, kernel, run.grid, run.block)
    for form in forms:
        with contextlib.suppress(NotUnderstood, *TEXT_ERRORS):
            changed = read_program(form.text, program.arch, program.flags)
            for change in (loop_nest.merge_loops, sum_start.move_starts):
                text = change(changed, next(each for each in changed.kernels if each.name == kernel.name))
                changed = changed if text is None else read_program(text, program.arch, program.flags)
            yield changed, form


def _list_flat(program: ParsedProgram, kernel: KernelDefinition, grid: Shape, block: Shape) -> Iterator[NumberedKernel]:
    """The program with three axes of the grid as two, by way of a flat number; raises NotUnderstood."""
    changed = read_program(grid_number.write_flat(program, kernel, block), program.arch, program.flags)
    groups = math.prod(grid) * math.prod(block) // FLAT_GROUP
    flat = next(each for each in changed.kernels if each.name == kernel.name)
    yield from flat_number.write_numbered(changed, flat, (max(1, groups), 1, 1), (FLAT_GROUP, 1, 1))
