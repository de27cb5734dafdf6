"""Persistent kernels: a fixed number of work-groups loops over all tiles."""

from __future__ import annotations

from hipsynth.synth.generate.builder import KernelBuilder
from hipsynth.synth.generate.context import Context
from hipsynth.synth.generate.ir import Module, lift, load
from hipsynth.synth.generate.patterns import add_input, add_output, compute_chain, compute_recurrences
from hipsynth.synth.generate.types import I32


def build_kernels(ctx: Context) -> Module:
    t, block, grid = ctx.dtype, ctx["block"], ctx.size("blocks", ctx["grid"])
    tiles = ctx.size("num_tiles", max(grid, ctx["size"] // block))
    n = tiles * block
    k = KernelBuilder(ctx.choices.pick(("persistent", "tile_worker", "resident", "work_loop")), grid, block,
                      **ctx.kernel_options())  # fmt: skip
    source, host_in = add_input(ctx, k, 0, t, n, ctx.init(t))
    second, host_in2 = add_input(ctx, k, 1, t, n, ctx.init(t))
    target, host_out = add_output(ctx, k, 0, t, n)
    total = k.scalar("num_tiles", tiles)
    staged = k.lds("stage", t, block, (source.lo, source.hi)) if ctx["staged"] else None
    tx, group = k.let("tx", k.builtin("threadIdx.x")), k.let("group", k.builtin("blockIdx.x"))
    with k.loop("tile", group, total, grid) as tile:
        at = k.let(k.unused_name("pos"), tile * block + tx)
        x = k.let(k.unused_name(ctx.names.local), load(source, at))
        if staged is not None:
            k.store(staged, tx, x)
            k.barrier()
            x = k.let(k.unused_name(ctx.names.local), load(staged, lift(block - 1, I32) - tx))
        y = k.let(k.unused_name(ctx.names.local), load(second, at))
        values = [x, y]
        if ctx["rounds"]:
            values.append(compute_recurrences(ctx, k, x, y, ctx["rounds"]))
        k.store(target, at, compute_chain(ctx, k, values, ctx["compute"]))
        if staged is not None:
            k.barrier()
    return ctx.module([host_in, host_in2, host_out], [k.finish()])
