"""Integer hashing: rounds of multiply, xor and shift on 32 or 64 bits."""

from __future__ import annotations

from hipsynth.synth.generate.context import Context
from hipsynth.synth.generate.ir import Expr, Module, load
from hipsynth.synth.generate.patterns import add_input, add_output, compute_chain, covering_kernel, each_item
from hipsynth.synth.generate.types import U32, U64

MULTIPLIERS = {
    "u32": (0x9E3779B1, 0x85EBCA6B, 1664525),
    "u64": (0x9E3779B97F4A7C15, 6364136223846793005, 0xFF51AFD7ED558CCD),
}
SHIFTS = {"u32": (5, 7, 13, 15, 16), "u64": (7, 12, 17, 25, 27)}


def _mix_round(ctx: Context, x: Expr) -> Expr:
    name = x.dtype.name
    shift, factor = ctx.choices.pick(SHIFTS[name]), ctx.choices.pick(MULTIPLIERS[name])
    return (x ^ (x >> shift)) * factor if ctx.choices.flag(60) else (x << 5 ^ x >> shift) + factor


def build_kernels(ctx: Context) -> Module:
    n, t = ctx.count, ctx.dtype
    k = covering_kernel(ctx, ctx.choices.pick(("mix", "hash_kernel", "scramble", "bit_mix")) + "_keys", n)
    source, host_in = add_input(ctx, k, 0, t, n, ctx.init(t))
    target, host_out = add_output(ctx, k, 0, t, n)
    with each_item(ctx, k, n) as i:
        state = k.variable("state", load(source, i), t, (t.lo, t.hi))
        with k.loop("r", 0, ctx["rounds"], unroll=ctx.choices.pick((0, 0, 1, 4))):
            for _ in range(ctx["steps"]):
                k.assign(state, _mix_round(ctx, state))
        values = [state, k.let("key", load(source, i))]
        k.store(target, i, compute_chain(ctx, k, values, ctx["compute"]) if t is U32 else state ^ values[1])
    assert t in (U32, U64)
    return ctx.module([host_in, host_out], [k.finish()])
