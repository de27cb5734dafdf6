"""Matrix products C = alpha A B + beta C: one element per work-item, naive or through LDS tiles."""

from __future__ import annotations

from hipsynth.synth.generate.builder import KernelBuilder
from hipsynth.synth.generate.context import Context
from hipsynth.synth.generate.ir import Buffer, Expr, HostBuffer, Module, load
from hipsynth.synth.generate.patterns import add_input, total_span


def _multiply_naive(
    k: KernelBuilder, acc: Expr, a: Buffer, b: Buffer, row: Expr, column: Expr, sizes: tuple[Expr, Expr], unroll: int
) -> None:
    depth, width = sizes
    with k.loop("k", 0, depth, unroll=unroll) as j:
        k.accumulate(acc, load(a, row * depth + j) * load(b, j * width + column))


def _multiply_tiled(
    ctx: Context, k: KernelBuilder, acc: Expr, a: Buffer, b: Buffer, row: Expr, column: Expr, sizes: tuple[Expr, Expr]
) -> None:
    depth, width = sizes
    t, tile = ctx.dtype, ctx["tile"]
    size = k.constant("TILE", tile)
    tile_a = k.lds("tile_a", t, (tile, tile + ctx["pad"]), (a.lo, a.hi))
    tile_b = k.lds("tile_b", t, (tile, tile), (b.lo, b.hi))
    tx, ty = k.let("tx", k.builtin("threadIdx.x")), k.let("ty", k.builtin("threadIdx.y"))
    with k.loop("k0", 0, depth, size) as k0:
        k.store(tile_a, (ty, tx), load(a, row * depth + k0 + tx))
        k.store(tile_b, (ty, tx), load(b, (k0 + ty) * width + column))
        k.barrier()
        with k.loop("k", 0, size, unroll=ctx["unroll"]) as j:
            k.accumulate(acc, load(tile_a, ty, j) * load(tile_b, j, tx))
        k.barrier()


def build_kernels(ctx: Context) -> Module:
    t, tile = ctx.dtype, ctx["tile"]
    m, n, depth = (ctx.size(name, ctx[f"tiles_{name}"] * tile) for name in ("m", "n", "k"))
    k = KernelBuilder(ctx.choices.pick(("gemm", "matmul", "sgemm_like", "matrix_multiply")),
                      (n // tile, m // tile), (tile, tile), **ctx.kernel_options())  # fmt: skip
    a, host_a = add_input(ctx, k, 0, t, m * depth, ctx.init(t, 2.0))
    b, host_b = add_input(ctx, k, 1, t, depth * n, ctx.init(t, 2.0))
    init_c = ctx.init(t, 2.0)
    c = k.output("c_out", t, m * n, (0, t.hi if t.kind == "u" else 1e9), restrict=ctx.restrict)
    depth_s, width = k.scalar("depth", depth), k.scalar("width", n)
    row, column = k.let("row", k.global_id("y")), k.let("col", k.global_id("x"))
    acc = k.variable("acc", 0.0 if t.is_float else 0, t, total_span(t, a.hi * b.hi, depth))
    if ctx["form"] == "tiled":
        _multiply_tiled(ctx, k, acc, a, b, row, column, (depth_s, width))
    else:
        _multiply_naive(k, acc, a, b, row, column, (depth_s, width), ctx["unroll"])
    at = k.let("at", row * width + column)
    if ctx["beta"] and t.is_float:
        old = k.let("old", load(c, at))
        k.store(c, at, k.let("updated", _blend_results(acc, old)))
    else:
        k.store(c, at, acc)
    hosts = [host_a, host_b, HostBuffer("c_out", t, m * n, init_c, output=True)]
    return ctx.module(hosts, [k.finish()], terms=depth)


def _blend_results(acc: Expr, old: Expr) -> Expr:
    """alpha * acc + beta * old; alpha + beta <= 1 keeps the result in the declared range."""
    return acc * 0.5 + old * 0.5
