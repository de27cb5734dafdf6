"""Sums: each work-item adds a few elements, the work-group reduces them in LDS to one partial sum or atomic."""

from __future__ import annotations

from hipsynth.synth.generate.builder import KernelBuilder
from hipsynth.synth.generate.context import Context
from hipsynth.synth.generate.ir import Buffer, Expr, Module, apply, load, narrow_range
from hipsynth.synth.generate.patterns import add_input, add_output, total_span


def _reduce_tree(ctx: Context, k: KernelBuilder, tile: Buffer, tx: Expr) -> None:
    """Tree reduction in LDS; element 0 ends up with the sum. "modulo" is the slow, divergent textbook variant."""
    block = k.block[0]
    if ctx["tree"] == "halve":
        with k.loop("s", block // 2, 1, kind="halve") as s:
            with k.below(tx, s) as low:
                _add_element(k, tile, low, low + s)
            k.barrier()
        return
    with k.loop("s", 1, block, kind="double") as s:
        with k.when(apply("land", apply("eq", tx % (s * 2), 0), apply("lt", tx + s, block))):
            _add_element(k, tile, tx, narrow_range(tx + s, 0, block - 1))
        k.barrier()


def _add_element(k: KernelBuilder, tile: Buffer, to: Expr, other: Expr) -> None:
    """tile[to] += tile[other]; a partial sum never exceeds the total, which is the tile's declared range."""
    k.store(tile, to, narrow_range(load(tile, to) + load(tile, other), tile.lo, tile.hi))


def build_kernels(ctx: Context) -> Module:
    t, block, grid = ctx.dtype, ctx["block"], ctx.size("blocks", ctx["grid"])
    n = ctx.size(ctx.names.count, max(ctx["size"], block))
    threads = block * grid
    terms = -(-n // threads)
    k = KernelBuilder(ctx.choices.pick(("reduce", "block_sum", "reduce_sum", "partial_sums")), grid, block,
                      **ctx.kernel_options())  # fmt: skip
    source, host_in = add_input(ctx, k, 0, t, n, ctx.init(t))
    atomic = ctx["finish"] == "atomic"
    everything = total_span(t, source.hi, (terms + 1) * threads)
    target, host_out = add_output(ctx, k, 0, t, 1 if atomic else grid, everything if t.is_float else None)
    count = k.scalar(ctx.names.count, n)
    tile = k.lds("partial", t, block, everything, dynamic=bool(ctx["dynamic"]))
    tx, first = k.let("tx", k.builtin("threadIdx.x")), k.let(ctx.names.index, k.global_id())
    acc = k.variable("acc", 0.0 if t.is_float else 0, t, total_span(t, source.hi, terms + 1))
    with k.loop("j", first, count, threads) as j:
        k.accumulate(acc, load(source, j))
    k.store(tile, tx, acc)
    k.barrier()
    _reduce_tree(ctx, k, tile, tx)
    with k.when(apply("eq", tx, 0)):
        if atomic:
            k.atomic("add", target, 0, load(tile, 0))
        else:
            k.store(target, k.let("group", k.builtin("blockIdx.x")), load(tile, 0))
    return ctx.module([host_in, host_out], [k.finish()], terms=n // 8 if atomic else terms + block)
