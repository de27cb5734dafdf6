"""Global atomics with a chosen contention; -munsafe-fp-atomics changes the machine code of float additions."""

from __future__ import annotations

from hipsynth.synth.generate.context import Context
from hipsynth.synth.generate.ir import Init, Module, load
from hipsynth.synth.generate.patterns import add_input, add_output, compute_chain, covering_kernel, each_item


def build_kernels(ctx: Context) -> Module:
    n, t, cells = ctx.count, ctx.dtype, ctx.size("cells", ctx["cells"])
    k = covering_kernel(ctx, ctx.choices.pick(("atomics", "scatter_add", "accumulate", "tally")), n)
    # Sums of multiples of 1/16 below 2^20 are exact in float32, whatever their order.
    init = Init("hash", 0.5, 0.0625, add=ctx.choices.integer(0, 999), mod=16) if t.is_float else ctx.init(t)
    source, host_in = add_input(ctx, k, 0, t, n, init)
    target, host_out = add_output(ctx, k, 0, t, cells)
    with each_item(ctx, k, n) as i:
        value = k.let(k.unused_name(ctx.names.local), load(source, i))
        if not t.is_float:
            value = compute_chain(ctx, k, [value], ctx["compute"])
        at = {"modulo": lambda: i % cells, "blocks": lambda: (i >> 6) % cells}[ctx["pattern"]]()
        k.atomic(ctx["op"] if not t.is_float else "add", target, at, value)
    return ctx.module([host_in, host_out], [k.finish()], terms=8)
