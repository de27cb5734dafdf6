"""Wave shuffles: each wavefront reduces its values without LDS, then adds the sum atomically or stores it."""

from __future__ import annotations

from hipsynth.synth.generate.builder import WAVE, KernelBuilder
from hipsynth.synth.generate.context import Context
from hipsynth.synth.generate.ir import Module, apply, load, narrow_range
from hipsynth.synth.generate.patterns import add_input, add_output, total_span


def build_kernels(ctx: Context) -> Module:
    t, block, grid = ctx.dtype, ctx["block"], ctx.size("blocks", ctx["grid"])
    threads = block * grid
    n = ctx.size(ctx.names.count, max(ctx["size"], threads))
    terms = -(-n // threads)
    k = KernelBuilder(ctx.choices.pick(("wave_reduce", "warp_sum", "shuffle_sum", "lane_sum")), grid, block,
                      **ctx.kernel_options())  # fmt: skip
    source, host_in = add_input(ctx, k, 0, t, n, ctx.init(t))
    atomic = ctx["finish"] == "atomic"
    whole_span = total_span(t, source.hi, terms * threads)
    target, host_out = add_output(ctx, k, 0, t, 1 if atomic else threads // WAVE, whole_span if t.is_float else None)
    count = k.scalar(ctx.names.count, n)
    i = k.let(ctx.names.index, k.global_id())
    span = total_span(t, source.hi, terms * WAVE)
    value = k.variable("value", 0.0 if t.is_float else 0, t, span)
    with k.loop("j", i, count, threads) as j:
        k.accumulate(value, load(source, j))
    with k.loop("offset", WAVE // 2, 1, kind="halve") as offset:
        other = k.shuffle("other", ctx["shuffle"], value, narrow_range(offset, 1, WAVE // 2))
        k.assign(value, narrow_range(value + other, *span))
    lane = k.let("lane", k.builtin("threadIdx.x") % WAVE)
    with k.when(apply("eq", lane, 0)):
        if atomic:
            k.atomic("add", target, 0, value)
        else:
            k.store(target, i >> 6, value)
    return ctx.module([host_in, host_out], [k.finish()], terms=n // 8 if atomic else terms + WAVE)
