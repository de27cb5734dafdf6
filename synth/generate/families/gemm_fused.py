"""Matrix products with an epilogue (scale, bias, activation, residual, conversion), and reductions of their rows."""

from __future__ import annotations

import math
from dataclasses import replace

from hipsynth.synth.generate.builder import KernelBuilder
from hipsynth.synth.generate.context import Context
from hipsynth.synth.generate.ir import Buffer, Expr, HostBuffer, Init, Kernel, Module, Product, apply, cast, load
from hipsynth.synth.generate.ir import narrow_range as narrowed
from hipsynth.synth.generate.types import F16, F32, DType

BLOCKS = ((32, 32, 32), (64, 32, 32), (64, 64, 32), (64, 64, 64), (128, 64, 32), (128, 128, 32))  # of Triton programs
LARGEST_SUM = 2.0  # behind the scale
INV_SQRT2 = 0.7071067811865476


def _sum_products(ctx: Context, k: KernelBuilder, acc: Expr, a: Buffer, b: Buffer, at: tuple[Expr, Expr]) -> None:
    """acc += a[row, j] * b[j, column] over all j, through tiles in LDS or not."""
    (row, column), wide, tile = at, acc.dtype, ctx["tile"]
    depth, width = k.scalar("k", ctx.arguments["k"]), k.scalar("n", ctx.arguments["n"])
    if ctx["form"] == "naive":
        with k.loop("j", 0, depth) as j:
            k.accumulate(acc, cast(load(a, row * depth + j), wide) * cast(load(b, j * width + column), wide))
        return
    tile_a, tile_b = (k.lds(name, ctx.dtype, (tile, tile), (x.lo, x.hi)) for name, x in (("tile_a", a), ("tile_b", b)))
    tx, ty = k.let("tx", k.builtin("threadIdx.x")), k.let("ty", k.builtin("threadIdx.y"))
    with k.loop("j0", 0, depth, tile) as start:
        k.store(tile_a, (ty, tx), load(a, row * depth + start + tx))
        k.store(tile_b, (ty, tx), load(b, (start + ty) * width + column))
        k.barrier()
        with k.loop("j", 0, tile) as j:
            k.accumulate(acc, cast(load(tile_a, ty, j), wide) * cast(load(tile_b, j, tx), wide))
        k.barrier()


def _apply_epilogue(
    ctx: Context, k: KernelBuilder, value: Expr, column: Expr, at: Expr
) -> tuple[Expr, list[HostBuffer]]:
    """The value to store, and the buffers that it takes."""
    t, hosts = value.dtype, list[HostBuffer]()
    value = k.let("scaled", value * 2.0 ** -max(0, math.ceil(math.log2(value.hi / LARGEST_SUM))))
    if ctx["activation"] != "none":
        init = Init("hash", 0.5, 0.125, add=ctx.choices.integer(0, 9999), mod=8)
        bias = k.input("bias", t, ctx.arguments["n"], *init.span, restrict=ctx.restrict)
        hosts.append(HostBuffer("bias", t, ctx.arguments["n"], init))
        shift = load(bias, column)
        value = k.let("biased", value - shift if ctx["activation"] == "relu" else value + shift)
    if ctx["activation"] == "relu":
        value = k.let("activated", apply("max", value, 0.0))
    elif ctx["activation"] == "gelu":
        value = k.let("activated", value * 0.5 * (apply("erf", value * INV_SQRT2) + 1.0))
    if ctx["residual"]:
        size, init = ctx.arguments["m"] * ctx.arguments["n"], ctx.init(t, 2.0)
        residual = k.input("residual", t, size, *init.span, restrict=ctx.restrict)
        hosts.append(HostBuffer("residual", t, size, init))
        value = k.let("total", value + load(residual, at))
    return value, hosts


def _multiply(ctx: Context, stored: DType) -> tuple[Kernel, list[HostBuffer], Buffer]:
    """The product with its epilogue, its buffers, and what it writes."""
    t, tile = ctx.dtype, ctx["tile"]
    wide = F32 if t is F16 else t
    m, n, depth = (ctx.size(name, ctx[f"tiles_{name}"] * tile) for name in ("m", "n", "k"))
    name = ctx.choices.pick(("gemm_bias_act", "linear", "fused_matmul", "matmul_epilogue", "dense_layer"))
    k = KernelBuilder(name, (n // tile, m // tile), (tile, tile), **ctx.kernel_options())
    inits = [ctx.init(t, 2.0), ctx.init(t, 2.0)]
    a, b = (
        k.input(name, t, size, *init.span, restrict=ctx.restrict)
        for name, size, init in zip("ab", (m * depth, depth * n), inits, strict=True)
    )
    row, column = k.let("row", k.global_id("y")), k.let("col", k.global_id("x"))
    acc = k.variable("acc", 0.0, wide, (0.0, a.hi * b.hi * int(depth) * 1.001))
    _sum_products(ctx, k, acc, a, b, (row, column))
    at = k.let("at", row * k.scalar("n", n) + column)
    value, hosts = _apply_epilogue(ctx, k, acc, column, at)
    c = k.output("c_out", stored, m * n, (min(0.0, value.lo), value.hi), restrict=ctx.restrict)
    k.store(c, at, cast(value, stored))
    blocks = ctx.choices.pick(BLOCKS)
    product = Product(acc, a, b, row, column, (m, n, depth), blocks, warps=8 if blocks[0] == 128 else 4)
    hosts = [HostBuffer(x.name, t, x.size, init) for x, init in zip((a, b), inits, strict=True)] + hosts
    return replace(k.finish(), product=product), hosts, c


def _reduce_rows(ctx: Context, c: Buffer) -> tuple[Kernel, HostBuffer]:
    """The sum or the largest element of each row of C, a row per work-group."""
    m, n, block = ctx.arguments["m"], ctx.arguments["n"], ctx["block"]
    t = F32 if c.dtype is F16 else c.dtype
    adds = ctx["rows"] == "sum"
    k = KernelBuilder(f"row_{ctx['rows']}", m, block, **ctx.kernel_options())
    source = k.input("c_out", c.dtype, m * n, c.lo, c.hi, restrict=ctx.restrict)
    highest = c.hi * (int(n) + block) if adds else c.hi
    target = k.output("row_out", t, m, (0.0, highest), restrict=ctx.restrict)
    width = k.scalar("n", n)
    tile = k.lds("partial", t, block, (0.0, highest))
    tx, base = k.let("tx", k.builtin("threadIdx.x")), k.let("start", k.builtin("blockIdx.x") * width)
    acc = k.variable("acc", 0.0, t, (0.0, highest))
    with k.loop("j", tx, width, block) as j:
        x = cast(load(source, base + j), t)
        k.assign(acc, narrowed(acc + x if adds else apply("max", acc, x), 0.0, highest))
    k.store(tile, tx, acc)
    k.barrier()
    with k.loop("s", block // 2, 1, kind="halve") as s:
        with k.below(tx, s) as low:
            pair = load(tile, low), load(tile, low + s)
            joined = pair[0] + pair[1] if adds else apply("max", *pair)
            k.store(tile, low, narrowed(joined, tile.lo, tile.hi))
        k.barrier()
    with k.when(apply("eq", tx, 0)):
        k.store(target, k.builtin("blockIdx.x"), load(tile, 0))
    return k.finish(), HostBuffer("row_out", t, m, Init("zero"), output=True)


def build_kernels(ctx: Context) -> Module:
    stored = ctx.choices.pick((F16, F32)) if ctx.dtype is F16 else ctx.dtype
    product, hosts, c = _multiply(ctx, stored)
    hosts.append(HostBuffer("c_out", stored, c.size, Init("zero"), output=True))
    kernels = [product]
    if ctx["rows"] != "none":
        kernel, host = _reduce_rows(ctx, c)
        kernels.append(kernel)
        hosts.append(host)
    # The products are multiples of 1/256, so that their sums are exact in any order; what is behind them is not. A row
    # of halves is summed in float, whose error is below that of one half.
    terms = int(ctx.arguments["n"]) if ctx["rows"] == "sum" and ctx.dtype is not F16 else 4
    return ctx.module(hosts, kernels, terms=terms)
