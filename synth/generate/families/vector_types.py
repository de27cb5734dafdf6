"""Vector loads and stores (float2, float4, ...): wide accesses per work-item, computed component by component."""

from __future__ import annotations

from hipsynth.synth.generate.builder import KernelBuilder
from hipsynth.synth.generate.context import Context
from hipsynth.synth.generate.ir import Expr, Module, load, pack, part
from hipsynth.synth.generate.patterns import add_input, add_output, compute_chain, covering_kernel, each_item
from hipsynth.synth.generate.types import vector_type


def _process_lanes(ctx: Context, k: KernelBuilder, values: list[Expr]) -> list[Expr]:
    lanes = []
    for lane in range(values[0].dtype.lanes):
        parts = [k.let(k.unused_name(ctx.names.local), part(v, lane)) for v in values]
        lanes.append(compute_chain(ctx, k, parts, ctx["compute"]))
    return lanes


def build_kernels(ctx: Context) -> Module:
    t = vector_type(ctx.dtype, ctx["lanes"])
    n = ctx.size(ctx.names.count, max(1, ctx["size"] // ctx["lanes"]))
    k = covering_kernel(ctx, ctx.choices.pick(("vector_axpy", "vec_kernel", "packed", "wide_copy")), n)
    inputs = [add_input(ctx, k, order, t, n, ctx.init(t)) for order in range(ctx["inputs"])]
    target, host_out = add_output(ctx, k, 0, t, n)
    with each_item(ctx, k, n) as i:
        values = [k.let(k.unused_name("wide"), load(source, i)) for source, _ in inputs]
        k.store(target, i, pack(t, _process_lanes(ctx, k, values)))
    return ctx.module([*(host for _, host in inputs), host_out], [k.finish()])
