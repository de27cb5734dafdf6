"""Strided, offset, reversed, wrapped and swizzled access: regular addresses that are not contiguous."""

from __future__ import annotations

from hipsynth.synth.generate.context import Context
from hipsynth.synth.generate.extent import count_groups
from hipsynth.synth.generate.ir import Expr, Module, lift, load, narrow_range
from hipsynth.synth.generate.patterns import add_input, add_output, compute_chain, covering_kernel, each_item
from hipsynth.synth.generate.types import I32


def _source_index(ctx: Context, i: Expr) -> Expr:
    n: int = ctx.count
    stride: int = ctx["stride"]
    match ctx["pattern"]:
        case "stride":
            return i * stride
        case "offset":
            return i + stride
        case "reverse":
            return lift(n - 1, I32) - i
        case "wrap":
            return i * stride % n
    # "swizzle": reverses groups of `stride`, a power of two; the last group may be partial.
    return narrow_range(i ^ (stride - 1), 0, _source_size(ctx) - 1)


def _source_size(ctx: Context) -> int:
    n: int = ctx.count
    stride: int = ctx["stride"]
    sizes = {
        "stride": (n - 1) * stride + 1,
        "offset": n + stride,
        "swizzle": count_groups(n, stride) * stride,
    }
    return sizes.get(ctx["pattern"], n)


def build_kernels(ctx: Context) -> Module:
    n, t, gap = ctx.count, ctx.dtype, ctx["store_stride"]
    k = covering_kernel(ctx, ctx.choices.pick(("strided", "strided_copy", "access_pattern", "remap")), n)
    init = ctx.init(t)
    source, host_in = add_input(ctx, k, 0, t, _source_size(ctx), init)
    target, host_out = add_output(ctx, k, 0, t, (n - 1) * gap + 1)
    with each_item(ctx, k, n) as i:
        at = k.let(k.unused_name("pos"), _source_index(ctx, i))
        values = [k.let(k.unused_name(ctx.names.local), load(source, at))]
        if ctx["second_load"]:
            values.append(k.let(k.unused_name(ctx.names.local), load(source, i)))
        k.store(target, i * gap if gap > 1 else i, compute_chain(ctx, k, values, ctx["compute"]))
    return ctx.module([host_in, host_out], [k.finish()])
