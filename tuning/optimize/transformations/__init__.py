"""The transformations of `synth optimize`: a file or folder each, with when it applies and how it rewrites a kernel."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping

from hipsynth.tuning.optimize.analysis.analysis_faults import AnalysisFaults, iterate_safely
from hipsynth.tuning.optimize.transformation_plan import Move, TransformationPlan
from hipsynth.tuning.optimize.transformations import (
    atomics,
    bins,
    coarsen,
    extremes,
    fast_math,
    group_atomics,
    group_shape,
    halo_tile,
    hints,
    jam,
    lane_order,
    lds_padding,
    lds_tile,
    lds_transpose,
    matrix_cores,
    occupancy,
    register_tile,
    split_loops,
    unroll,
    vectorise,
    wave_atomics,
)
from hipsynth.tuning.optimize.transformations.kernel_view import KernelView
from hipsynth.tuning.optimize.transformations.transformation import Transformation

# By the name of its file. A search tries them by turns in this order, those first that a kernel's limit calls for.
TRANSFORMATIONS: Mapping[str, Transformation] = {
    "matrix_cores": matrix_cores.TRANSFORMATION,
    "lds_tile": lds_tile.TRANSFORMATION,
    "lds_transpose": lds_transpose.TRANSFORMATION,
    "halo_tile": halo_tile.TRANSFORMATION,
    "bins": bins.TRANSFORMATION,
    "atomics": atomics.TRANSFORMATION,
    "extremes": extremes.TRANSFORMATION,
    "group_atomics": group_atomics.TRANSFORMATION,
    "wave_atomics": wave_atomics.TRANSFORMATION,
    "lane_order": lane_order.TRANSFORMATION,
    "split_loops": split_loops.TRANSFORMATION,
    "jam": jam.TRANSFORMATION,
    "register_tile": register_tile.TRANSFORMATION,
    "vectorise": vectorise.TRANSFORMATION,
    "coarsen": coarsen.TRANSFORMATION,
    "group_shape": group_shape.TRANSFORMATION,
    "hints": hints.TRANSFORMATION,
    "unroll": unroll.TRANSFORMATION,
    "lds_padding": lds_padding.TRANSFORMATION,
    "fast_math": fast_math.TRANSFORMATION,
    "occupancy": occupancy.TRANSFORMATION,
}

REWRITES = frozenset(
    {"matrix_cores", "lds_tile", "lds_transpose", "halo_tile"}
)  # that write a kernel anew, to which no other one is added


def list_moves(view: KernelView, faults: AnalysisFaults | None = None) -> list[Move]:
    """All moves from a kernel's plan, in round-robin order of the transformations, those for its bottleneck first."""
    limit = view.bottleneck
    rows: list[list[Move]] = []
    plans = {view.plan}
    for name, transformation in sorted(TRANSFORMATIONS.items(), key=lambda row: limit not in row[1].helps):
        rows.append([])
        if view.plan.is_complete if name not in REWRITES else not view.same_block:
            continue
        for plan in iterate_safely(faults, name, transformation.list_plans(view)):
            if plan not in plans:
                plans.add(plan)
                for_it = f"limited by {limit}" if limit in transformation.helps else "for any limit"
                why = f"{for_it}; should change {transformation.counter}"
                evident = transformation.is_evident(view, plan)
                rows[-1].append(Move(name, view.kernel.name, plan, why, evident))
    turns = itertools.zip_longest(*rows)
    return [move for turn in turns for move in turn if move is not None]


def list_planned(plan: TransformationPlan) -> Iterator[Transformation]:
    """The transformations that have parts in the source of a plan."""
    return (transformation for transformation in TRANSFORMATIONS.values() if transformation.is_planned(plan))
