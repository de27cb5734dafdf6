"""Programs of several kernels: map, smooth, combine, and sums, connected by intermediate buffers."""

from __future__ import annotations

from hipsynth.synth.generate.context import Context
from hipsynth.synth.generate.ir import HostBuffer, Init, Kernel, Module, apply, load
from hipsynth.synth.generate.patterns import compute_chain, covering_kernel, each_item, total_span, weighted_sum
from hipsynth.synth.generate.productions import COMFORT, settle_range


def _map_kernel(ctx: Context, init: Init) -> Kernel:
    n, t = ctx.count, ctx.dtype
    k = covering_kernel(ctx, "map_kernel", n)
    source = k.input("src", t, n, *init.span, restrict=ctx.restrict)
    target = k.output("dst", t, n, restrict=ctx.restrict)
    with each_item(ctx, k, n) as i:
        x = k.let(k.unused_name(ctx.names.local), load(source, i))
        k.store(target, i, compute_chain(ctx, k, [x], ctx["compute"]))
    return k.finish()


def _smooth_kernel(ctx: Context) -> Kernel:
    n, t = ctx.count, ctx.dtype
    k = covering_kernel(ctx, "smooth_kernel", n)
    source = k.input("src", t, n, 0.0, 2 * COMFORT[t.name][1], restrict=ctx.restrict)
    target = k.output("dst", t, n, restrict=ctx.restrict)
    with each_item(ctx, k, n) as i:
        left, right = apply("max", i - 1, 0), apply("min", i + 1, n - 1)
        values = [load(source, left), load(source, i), load(source, right)]
        k.store(target, i, k.let("mean", weighted_sum(values, [0.25, 0.5, 0.25])))
    return k.finish()


def _combine_kernel(ctx: Context, init: Init) -> Kernel:
    n, t = ctx.count, ctx.dtype
    k = covering_kernel(ctx, "combine_kernel", n)
    first = k.input("lhs", t, n, *init.span, restrict=ctx.restrict)
    second = k.input("rhs", t, n, 0.0, 2 * COMFORT[t.name][1], restrict=ctx.restrict)
    target = k.output("dst", t, n, restrict=ctx.restrict)
    with each_item(ctx, k, n) as i:
        k.store(target, i, k.let("joined", settle_range(load(first, i) * 0.5 + load(second, i))))
    return k.finish()


def _sums_kernel(ctx: Context) -> Kernel:
    """Each work-item sums 16 consecutive elements."""
    n, t = ctx.count, ctx.dtype
    k = covering_kernel(ctx, "sum_kernel", n // 16)
    highest = 4 * COMFORT[t.name][1]
    source = k.input("src", t, n, 0.0, highest, restrict=ctx.restrict)
    target = k.output("dst", t, n // 16, restrict=ctx.restrict)
    with each_item(ctx, k, n // 16) as i:
        acc = k.variable("acc", 0.0, t, total_span(t, highest, 16))
        with k.loop("j", 0, 16) as j:
            k.accumulate(acc, load(source, i * 16 + j))
        k.store(target, i, acc)
    return k.finish()


def build_kernels(ctx: Context) -> Module:
    n, t, init = ctx.count, ctx.dtype, ctx.init(ctx.dtype)
    kernels = [_map_kernel(ctx, init)]
    bound = [{"src": "input", "dst": "stage_a"}]
    if ctx["kernels"] > 1:
        kernels.append(_smooth_kernel(ctx))
        bound.append({"src": "stage_a", "dst": "stage_b"})
    if ctx["kernels"] > 2:
        kernels.append(_combine_kernel(ctx, init))
        bound.append({"lhs": "input", "rhs": "stage_b", "dst": "stage_a"})
    if ctx["kernels"] > 3:
        kernels.append(_sums_kernel(ctx))
        bound.append({"src": "stage_a", "dst": "sums"})
    last = bound[-1]["dst"]
    sizes = {"input": n, "stage_a": n, "stage_b": n, "sums": n // 16}
    used = [name for name in sizes if any(name in b.values() for b in bound)]
    hosts = [HostBuffer(name, t, sizes[name], init if name == "input" else Init("zero"), name == last) for name in used]
    return ctx.module(hosts, kernels, terms=16, arguments=bound)
