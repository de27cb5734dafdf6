"""The candidates of a search step: the moves of a state's kernels, each with the program text after it."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from hipsynth.tuning.optimize.analysis.analysis_faults import AnalysisFaults, iterate_safely
from hipsynth.tuning.optimize.analysis.program_model import ParsedProgram
from hipsynth.tuning.optimize.analysis.statements import NotUnderstood
from hipsynth.tuning.optimize.emit import emit_program
from hipsynth.tuning.optimize.evaluate import CandidateMeasurement
from hipsynth.tuning.optimize.shape_dispatch import SizeGuard
from hipsynth.tuning.optimize.transformation_plan import Move, Plans, Shape, TransformationPlan
from hipsynth.tuning.optimize.transformations import list_moves
from hipsynth.tuning.optimize.transformations.kernel_view import KernelView

LEAST_TUNED_SHARE = 0.04  # of the program's time, below which a kernel is left alone


@dataclass(frozen=True)
class SearchState:
    """A program that is as fast as any so far, and correct as far as a search checks it."""

    plans: dict[str, TransformationPlan]
    text: str
    found: CandidateMeasurement
    step: int = -1
    guards: Mapping[str, SizeGuard] = field(default_factory=dict)  # of kernels that are changed for some sizes alone
    unguarded: str = ""  # the program without them


def make_candidates(
    program: ParsedProgram,
    state: SearchState,
    origin: SearchState,
    tried: Collection[str],
    allow: frozenset[str] = frozenset(),
    faults: AnalysisFaults | None = None,
) -> list[tuple[Move, str]]:
    """The moves of all kernels in round-robin order, beginning with the slowest kernel. `origin` is the program without
    a plan; transformations that fail are left out, and noted in `faults`."""
    blocks = launch_blocks(program, origin.found)
    rows = []
    for view in _kernel_views(program, state, origin, allow):
        row: list[tuple[Move, str]] = []
        for move in list_moves(view, faults):
            plans: Plans = {**state.plans, move.kernel: move.plan}
            text = next(iterate_safely(faults, move.transformation, _write_program(program, plans, blocks)), None)
            if text is not None and text not in tried and all(text != other for _, other in row):
                row.append((move, text))
        rows.append(row)
    return [row[i] for i in range(max(map(len, rows), default=0)) for row in rows if i < len(row)]


def _write_program(program: ParsedProgram, plans: Plans, blocks: dict[str, Shape]) -> Iterator[str]:
    """The program with these plans, if they apply."""
    with contextlib.suppress(NotUnderstood):
        yield emit_program(program, plans, blocks)


def launch_blocks(program: ParsedProgram, first: CandidateMeasurement) -> dict[str, Shape]:
    """The group shapes of the original's launches, by kernel."""
    times = ((kernel.name, first.of(kernel.name)) for kernel in program.kernels)
    return {name: time.block for name, time in times if time is not None}


def _kernel_views(
    program: ParsedProgram, state: SearchState, origin: SearchState, allow: frozenset[str]
) -> Iterator[KernelView]:
    views = []
    for kernel in program.kernels:
        now, before = state.found.of(kernel.name), origin.found.of(kernel.name)
        if now is None or before is None:
            continue
        if now.duration_ns >= LEAST_TUNED_SHARE * state.found.duration_ns:
            plan = state.plans.get(kernel.name, TransformationPlan())
            run = now.bottleneck, before.grid, before.block, now.limited_by
            views.append((now.duration_ns, KernelView(program, kernel, plan, *run, allow, before.same_block)))
    yield from (view for _, view in sorted(views, key=lambda one: -one[0]))
