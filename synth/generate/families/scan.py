"""Inclusive prefix sums inside each work-group, Hillis-Steele in LDS, in place or between two buffers."""

from __future__ import annotations

from hipsynth.synth.generate.builder import KernelBuilder
from hipsynth.synth.generate.context import Context
from hipsynth.synth.generate.ir import Buffer, Expr, Module, load, narrow_range
from hipsynth.synth.generate.patterns import add_input, add_output, covering_kernel, total_span


def _in_place(k: KernelBuilder, tile: Buffer, tx: Expr, sums: Expr) -> None:
    """In place, two barriers per step: all work-items read, then all write."""
    with k.loop("s", 1, k.block[0], kind="double") as s:
        k.assign(sums, load(tile, tx))
        with k.at_least(tx, s) as before:
            k.assign(sums, narrow_range(sums + load(tile, before), sums.lo, sums.hi))
        k.barrier()
        k.store(tile, tx, sums)
        k.barrier()


def _two_buffers(k: KernelBuilder, tile: Buffer, tx: Expr, sums: Expr) -> None:
    """Double-buffered, one barrier per step: reads from one half of the array, writes to the other."""
    side = k.variable("side", 0, tx.dtype, (0, 1))
    with k.loop("s", 1, k.block[0], kind="double") as s:
        k.assign(sums, load(tile, side, tx))
        with k.at_least(tx, s) as before:
            k.assign(sums, narrow_range(sums + load(tile, side, before), sums.lo, sums.hi))
        k.assign(side, 1 - side)
        k.store(tile, (side, tx), sums)
        k.barrier()


def build_kernels(ctx: Context) -> Module:
    t, block = ctx.dtype, ctx["block"]
    n = ctx.size("groups", max(1, ctx["size"] // block)) * block
    k = covering_kernel(ctx, ctx.choices.pick(("scan", "prefix_sum", "block_scan", "inclusive_scan")), n)
    source, host_in = add_input(ctx, k, 0, t, n, ctx.init(t))
    span = total_span(t, source.hi, block)
    target, host_out = add_output(ctx, k, 0, t, n)
    double = ctx["form"] == "double"
    tile = k.lds("tile", t, (2, block) if double else block, span)
    tx, i = k.let("tx", k.builtin("threadIdx.x")), k.let(ctx.names.index, k.global_id())
    sums = k.variable("sum", 0.0 if t.is_float else 0, t, span)
    k.store(tile, (0, tx) if double else tx, load(source, i))
    k.barrier()
    (_two_buffers if double else _in_place)(k, tile, tx, sums)
    k.store(target, i, sums)
    return ctx.module([host_in, host_out], [k.finish()], terms=block)
