"""Vector loads and stores (float2, float4, ...): wide accesses per work-item, computed component by component."""

from __future__ import annotations

from hipsynth.synth.generate.builder import KernelBuilder
from hipsynth.synth.generate.context import Context
from hipsynth.synth.generate.ir import Expr, Module, load, pack, part
from hipsynth.synth.generate.patterns import compute, covering, each_item, read, write
from hipsynth.synth.generate.types import vector


def _lanes(ctx: Context, k: KernelBuilder, values: list[Expr]) -> list[Expr]:
    lanes = []
    for lane in range(values[0].dtype.lanes):
        parts = [k.let(k.fresh(ctx.names.local), part(v, lane)) for v in values]
        lanes.append(compute(ctx, k, parts, ctx["compute"]))
    return lanes


def build(ctx: Context) -> Module:
    t = vector(ctx.dtype, ctx["lanes"])
    n = ctx.size(ctx.names.count, max(1, ctx["size"] // ctx["lanes"]))
    k = covering(ctx, ctx.choices.pick(("vector_axpy", "vec_kernel", "packed", "wide_copy")), n)
    inputs = [read(ctx, k, order, t, n, ctx.init(t)) for order in range(ctx["inputs"])]
    target, host_out = write(ctx, k, 0, t, n)
    with each_item(ctx, k, n) as i:
        values = [k.let(k.fresh("wide"), load(source, i)) for source, _ in inputs]
        k.store(target, i, pack(t, _lanes(ctx, k, values)))
    return ctx.module([*(host for _, host in inputs), host_out], [k.finish()])
