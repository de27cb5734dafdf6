"""Reuse through LDS: a work-group loads a tile, synchronises, and reads it many times with a chosen stride."""

from __future__ import annotations

from hipsynth.synth.generate.context import Context
from hipsynth.synth.generate.ir import Module, lift, load
from hipsynth.synth.generate.patterns import add_input, add_output, compute_chain, covering_kernel, total_span
from hipsynth.synth.generate.types import I32


def build_kernels(ctx: Context) -> Module:
    block, t, reuse, step, per = ctx["block"], ctx.dtype, ctx["reuse"], ctx["step"], ctx["per_thread"]
    tiles = ctx.size("tiles", max(1, ctx["size"] // (block * per)))
    n = tiles * block * per
    k = covering_kernel(
        ctx, ctx.choices.pick(("tile_reuse", "lds_filter", "shared_window", "block_window")), tiles * block
    )
    source, host_in = add_input(ctx, k, 0, t, n, ctx.init(t))
    target, host_out = add_output(ctx, k, 0, t, tiles * block)
    tile_size = k.constant("TILE", block * per)
    tile = k.lds("tile", t, block * per, (source.lo, source.hi), dynamic=bool(ctx["dynamic"]))
    tx = k.let("tx", k.builtin("threadIdx.x"))
    base = k.let("base", k.builtin("blockIdx.x") * lift(block * per, I32))
    for part in range(per):
        slot = tx + part * block if part else tx
        k.store(tile, slot, load(source, base + slot))
    k.barrier()
    acc = k.variable("acc", 0.0 if t.is_float else 0, t, total_span(t, tile.hi, reuse))
    with k.loop("j", 0, reuse, unroll=ctx.choices.pick((0, 0, 1, 4))) as j:
        at = (tx * ctx["lane_step"] + j * step) % tile_size
        k.accumulate(acc, load(tile, at))
    mean = acc * (1.0 / reuse) if t.is_float else acc & 0xFFFF
    result = compute_chain(ctx, k, [k.let("own", load(tile, tx)), k.let("mean", mean)], ctx["compute"])
    k.store(target, k.let(ctx.names.index, k.global_id()), result)
    return ctx.module([host_in, host_out], [k.finish()], terms=reuse)
