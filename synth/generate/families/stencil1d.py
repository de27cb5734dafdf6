"""One-dimensional stencils with a chosen radius, in one or several sweeps that swap the two buffers."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from hipsynth.synth.generate.builder import KernelBuilder
from hipsynth.synth.generate.context import Context
from hipsynth.synth.generate.ir import Buffer, Expr, HostBuffer, Init, Module, apply, load
from hipsynth.synth.generate.patterns import covering_kernel, each_item, weighted_sum


def _guard_interior(ctx: Context, k: KernelBuilder, i: Expr) -> AbstractContextManager[Expr]:
    """A guard for positions whose whole stencil is inside the buffer; no guard when the ends are clamped."""
    return nullcontext(i) if ctx["edges"] == "clamp" else k.within(i, ctx["radius"], ctx.count - ctx["radius"])


def _load_neighbours(ctx: Context, source: Buffer, i: Expr) -> list[Expr]:
    """The elements around i; the guard or clamping keeps the indices in bounds."""
    clamp = ctx["edges"] == "clamp"
    values = []
    for distance in range(ctx["radius"], 0, -1):
        at = i - distance
        values.append(load(source, apply("max", at, 0) if clamp else at))
    values.append(load(source, i))
    for distance in range(1, ctx["radius"] + 1):
        at = i + distance
        values.append(load(source, apply("min", at, ctx.count - 1) if clamp else at))
    return values


def build_kernels(ctx: Context) -> Module:
    n, t, radius = ctx.count, ctx.dtype, ctx["radius"]
    k = covering_kernel(ctx, ctx.choices.pick(("stencil", "stencil_1d", "smooth", "convolve")), n)
    init = ctx.init(t)
    span = (0.0, init.span[1])
    source = k.input("src", t, n, *span, restrict=ctx.restrict)
    target = k.output("dst", t, n, span, restrict=ctx.restrict)
    weights = [1.0 / 2 ** (2 + abs(offset)) for offset in range(-radius, radius + 1)]  # sum < 1: values stay in span
    with each_item(ctx, k, n) as i, _guard_interior(ctx, k, i) as at:
        total = k.let(k.unused_name("sum"), weighted_sum(_load_neighbours(ctx, source, at), weights))
        k.store(target, at, total)
    kernel = k.finish()
    hosts = [HostBuffer("grid_a", t, n, init, output=True), HostBuffer("grid_b", t, n, Init("zero"), output=True)]
    bound = [{"src": "grid_a", "dst": "grid_b"}, {"src": "grid_b", "dst": "grid_a"}][: 2 if ctx["sweeps"] > 1 else 1]
    return ctx.module(
        hosts, [kernel] * len(bound), terms=4 * radius, repeat=max(1, ctx["sweeps"] // 2), arguments=bound
    )
