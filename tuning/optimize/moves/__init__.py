"""The transformations: one file each, with its preconditions and the counter that it should move."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping

from hipsynth.tuning.optimize.moves import (
    atomics,
    coarsen,
    fast_math,
    group_shape,
    hints,
    jam,
    lane_order,
    lds_padding,
    occupancy,
    register_tile,
    split_loops,
    unroll,
    vectorise,
    wave_atomics,
)
from hipsynth.tuning.optimize.moves.view import KernelView
from hipsynth.tuning.optimize.plan import Move, TransformationPlan

Options = Callable[[KernelView], Iterator[TransformationPlan]]

_MEMORY = ("vl1d", "l2", "latency", "hbm", "infinity", "fabric")
_WORK = ("dispatch", "latency", "atomics", "hbm", "infinity", "salu", "issue", "valu")
_LOOPS = ("latency", "issue", "salu", "valu", "vl1d")
# Transformation -> what limits kernels that it helps (units of the timing model; () for any), the counter that it
# should move, and its options for a kernel.
MOVES: Mapping[str, tuple[tuple[str, ...], str, Options]] = {
    "atomics": (("atomics", "l2", "latency", "fabric"), "TCC_ATOMIC", atomics.options),
    "wave_atomics": (("atomics", "l2", "latency", "fabric"), "TCC_ATOMIC", wave_atomics.options),
    "lane_order": (_MEMORY, "TCP_TOTAL_CACHE_ACCESSES", lane_order.options),
    "split_loops": (_MEMORY, "TCP_TOTAL_CACHE_ACCESSES", split_loops.options),
    "jam": ((), "TCP_TOTAL_CACHE_ACCESSES", jam.options),
    "register_tile": (("vl1d", "valu", "latency", "l2", "issue"), "TCP_TOTAL_CACHE_ACCESSES", register_tile.options),
    "vectorise": ((), "SQ_INSTS_VMEM", vectorise.options),
    "coarsen": (_WORK, "SQ_WAVES", coarsen.options),
    "group_shape": ((), "TCP_TCC_READ_REQ", group_shape.options),
    "hints": ((), "SQ_INSTS_SMEM", hints.options),
    "unroll": (_LOOPS, "SQ_INSTS_SALU", unroll.options),
    "lds_padding": (("lds",), "SQ_LDS_BANK_CONFLICT", lds_padding.options),
    "fast_math": (("valu", "issue"), "SQ_INSTS_VALU", fast_math.options),
    "occupancy": (("latency",), "SQ_WAVE_CYCLES", occupancy.options),
}


def moves(view: KernelView) -> list[Move]:
    """All moves from a kernel's plan: the transformations by turns, those that its bottleneck calls for first."""
    limit = view.bottleneck
    rows: list[list[Move]] = []
    seen = {view.plan}
    for name, (units, counter, options) in sorted(MOVES.items(), key=lambda row: limit not in row[1][0]):
        rows.append([])
        for plan in options(view):
            if plan not in seen:
                seen.add(plan)
                for_it = f"limited by {limit}" if limit in units else "for any limit"
                rows[-1].append(Move(name, view.kernel.name, plan, f"{for_it}; should change {counter}"))
    turns = itertools.zip_longest(*rows)
    return [move for turn in turns for move in turn if move is not None]
