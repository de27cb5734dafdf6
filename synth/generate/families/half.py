"""Half precision: streaming chains and recurrences in _Float16, stored as half or widened to float."""

from __future__ import annotations

from hipsynth.synth.generate.context import Context
from hipsynth.synth.generate.ir import Module, cast, load
from hipsynth.synth.generate.patterns import (
    add_input,
    add_output,
    compute_chain,
    compute_recurrences,
    covering_kernel,
    each_item,
)
from hipsynth.synth.generate.types import F16, F32


def build_kernels(ctx: Context) -> Module:
    n = ctx.count
    k = covering_kernel(ctx, ctx.choices.pick(("half_axpy", "fp16_chain", "half_kernel", "low_precision")), n)
    inputs = [add_input(ctx, k, order, F16, n, ctx.init(F16, 2.0)) for order in range(2)]
    wide = ctx["store"] == "f32"
    target, host_out = add_output(ctx, k, 0, F32 if wide else F16, n)
    with each_item(ctx, k, n) as i:
        values = [k.let(k.unused_name(ctx.names.local), load(source, i)) for source, _ in inputs]
        if ctx["rounds"]:
            values.append(compute_recurrences(ctx, k, values[0], values[1], ctx["rounds"]))
        result = compute_chain(ctx, k, values, ctx["compute"])
        k.store(target, i, cast(result, F32) if wide else result)
    module = ctx.module([*(host for _, host in inputs), host_out], [k.finish()], terms=2 * ctx["compute"])
    return module
