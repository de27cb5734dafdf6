"""Row-wise normalisation, one work-group per row: a sum in LDS, then every element divided by it."""

from __future__ import annotations

from hipsynth.synth.generate.builder import KernelBuilder
from hipsynth.synth.generate.context import Context
from hipsynth.synth.generate.ir import Buffer, Expr, Module, apply, cast, load, narrow_range
from hipsynth.synth.generate.patterns import add_input, add_output, total_span
from hipsynth.synth.generate.productions import apply_intrinsic


def _summand(ctx: Context, x: Expr) -> Expr:
    """The summand: the value, its square, or its (scaled) exponential."""
    return {"sum": lambda: x, "rms": lambda: x * x, "softmax": lambda: apply_intrinsic("exp", x)}[ctx["form"]]()


def _reduce_row(k: KernelBuilder, tile: Buffer, tx: Expr) -> None:
    with k.loop("s", k.block[0] // 2, 1, kind="halve") as s:
        with k.below(tx, s) as low:
            k.store(tile, low, narrow_range(load(tile, low) + load(tile, low + s), tile.lo, tile.hi))
        k.barrier()


def build_kernels(ctx: Context) -> Module:
    t, block, rows, columns = ctx.dtype, ctx["block"], ctx.size("rows", ctx["rows"]), ctx.size("cols", ctx["columns"])
    k = KernelBuilder(ctx.choices.pick(("row_norm", "normalize_rows", "layer_scale", "row_softmax")), rows, block,
                      **ctx.kernel_options())  # fmt: skip
    source, host_in = add_input(ctx, k, 0, t, rows * columns, ctx.init(t, 2.0))
    target, host_out = add_output(ctx, k, 0, t, rows * columns)
    width = k.scalar("cols", columns)
    highest = max(source.hi**2, 8.0) * (columns + block)
    tile = k.lds("partial", t, block, (0.0, highest))
    tx, base = k.let("tx", k.builtin("threadIdx.x")), k.let("row_start", k.builtin("blockIdx.x") * width)
    acc = k.variable("acc", 0.0, t, total_span(t, highest, 1))
    with k.loop("j", tx, width, block) as j:
        x = k.let("x_in", load(source, base + j))
        k.accumulate(acc, narrow_range(_summand(ctx, x), 0.0, max(source.hi**2, 8.0)))
    k.store(tile, tx, narrow_range(acc, 0.0, highest))
    k.barrier()
    _reduce_row(k, tile, tx)
    mean = (load(tile, 0) + 1.0) / cast(width, t)
    scale = k.let("scale", narrow_range(mean, 1.0 / columns, 1.0 + highest / columns))
    inverse = k.let("inverse", apply("rsqrt", scale + 0.125) if ctx["form"] == "rms" else 1.0 / (scale + 0.125))
    with k.loop("jj", tx, width, block) as j:
        y = k.let("y_in", load(source, base + j))
        k.store(target, base + j, _summand(ctx, y) * inverse)
    return ctx.module([host_in, host_out], [k.finish()], terms=columns)
