"""Pointer chasing: each work-item follows a chain of indices by dependent loads, so it is bound by latency."""

from __future__ import annotations

from hipsynth.synth.generate.context import Context
from hipsynth.synth.generate.families.gather import index_init
from hipsynth.synth.generate.ir import HostBuffer, Module, cast, load
from hipsynth.synth.generate.patterns import add_output, covering_kernel, each_item, total_span
from hipsynth.synth.generate.types import I32, U32


def build_kernels(ctx: Context) -> Module:
    n, table = ctx.count, ctx.size("nodes", ctx["table"])
    k = covering_kernel(ctx, ctx.choices.pick(("chase", "follow", "walk_list", "pointer_chase")), n)
    init = index_init(ctx, table)
    successor = k.input("next", I32, table, *init.span, restrict=ctx.restrict)
    target, host_out = add_output(ctx, k, 0, I32 if ctx["result"] == "last" else U32, n)
    with each_item(ctx, k, n) as i:
        at = k.variable("at", i % table, I32, (0, table - 1))
        if ctx["result"] == "last":
            with k.loop("hop", 0, ctx["hops"]):
                k.assign(at, load(successor, at))
            k.store(target, i, at)
        else:
            total = k.variable("total", 0, U32, total_span(U32, 0, 0))
            with k.loop("hop", 0, ctx["hops"]):
                k.assign(at, load(successor, at))
                k.assign(total, total + cast(at, U32))
            k.store(target, i, total)
    return ctx.module([HostBuffer("next", I32, table, init), host_out], [k.finish()], whole=True)
