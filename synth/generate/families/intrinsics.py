"""Math functions: chains of exp, log, trigonometric functions and roots of well-conditioned arguments."""

from __future__ import annotations

from hipsynth.synth.generate.context import Context
from hipsynth.synth.generate.ir import Module, load
from hipsynth.synth.generate.patterns import add_input, add_output, covering_kernel, each_item
from hipsynth.synth.generate.productions import apply_intrinsic, settle_range
from hipsynth.synth.generate.types import F32

PRECISE = ("exp", "exp2", "log", "log2", "sin", "cos", "tanh", "atan", "erf", "cbrt", "rsqrt", "sqrt")
FAST = ("fast_exp", "fast_log", "fast_sin", "fast_cos")


def build_kernels(ctx: Context) -> Module:
    n, t = ctx.count, ctx.dtype
    k = covering_kernel(ctx, ctx.choices.pick(("intrinsics", "math_chain", "special", "evaluate")), n)
    source, host_in = add_input(ctx, k, 0, t, n, ctx.init(t))
    target, host_out = add_output(ctx, k, 0, t, n)
    names = PRECISE + (FAST if t is F32 and ctx["fast"] else ())
    with each_item(ctx, k, n) as i:
        x = k.let(k.unused_name(ctx.names.local), load(source, i))
        total = x
        for _ in range(ctx["calls"]):
            step = settle_range(apply_intrinsic(ctx.choices.pick(names), total) + x * 0.25)
            total = k.let(k.unused_name(ctx.names.local), step)
        k.store(target, i, total)
    return ctx.module([host_in, host_out], [k.finish()])
