"""Matrix times vector: a row per work-item, row-major (strided) or column-major (coalesced), or a row per group."""

from __future__ import annotations

from hipsynth.synth.generate.builder import KernelBuilder
from hipsynth.synth.generate.context import Context
from hipsynth.synth.generate.ir import Module, apply, load, narrow_range
from hipsynth.synth.generate.patterns import add_input, add_output, covering_kernel, each_item, total_span


def _per_item(ctx: Context) -> Module:
    rows, columns, t = ctx.size("rows", ctx["rows"]), ctx.size("cols", ctx["columns"]), ctx.dtype
    k = covering_kernel(ctx, ctx.choices.pick(("matvec", "gemv", "dot_rows", "project")), rows)
    a, host_a = add_input(ctx, k, 0, t, rows * columns, ctx.init(t, 2.0))
    x, host_x = add_input(ctx, k, 1, t, columns, ctx.init(t, 2.0))
    y, host_y = add_output(ctx, k, 0, t, rows)
    width = k.scalar("cols", columns)
    with each_item(ctx, k, rows) as i:
        acc = k.variable("acc", 0.0 if t.is_float else 0, t, total_span(t, a.hi * x.hi, columns))
        with k.loop("j", 0, width, unroll=ctx.choices.pick((0, 0, 4))) as j:
            at = i * width + j if ctx["form"] == "row" else j * rows + i
            k.accumulate(acc, load(a, at) * load(x, j))
        k.store(y, i, acc)
    return ctx.module([host_a, host_x, host_y], [k.finish()], terms=columns)


def _per_group(ctx: Context) -> Module:
    rows, columns, t, block = ctx.size("rows", ctx["rows"]), ctx.size("cols", ctx["columns"]), ctx.dtype, ctx["block"]
    k = KernelBuilder(ctx.choices.pick(("matvec_block", "gemv_group", "row_dot")), rows, block, **ctx.kernel_options())
    a, host_a = add_input(ctx, k, 0, t, rows * columns, ctx.init(t, 2.0))
    x, host_x = add_input(ctx, k, 1, t, columns, ctx.init(t, 2.0))
    y, host_y = add_output(ctx, k, 0, t, rows)
    width = k.scalar("cols", columns)
    span = total_span(t, a.hi * x.hi, columns + block)
    partial = k.lds("partial", t, block, span)
    tx, row = k.let("tx", k.builtin("threadIdx.x")), k.let("row", k.builtin("blockIdx.x"))
    acc = k.variable("acc", 0.0 if t.is_float else 0, t, span)
    with k.loop("j", tx, width, block) as j:
        k.accumulate(acc, load(a, row * width + j) * load(x, j))
    k.store(partial, tx, acc)
    k.barrier()
    with k.loop("s", block // 2, 1, kind="halve") as s:
        with k.below(tx, s) as low:
            k.store(partial, low, narrow_range(load(partial, low) + load(partial, low + s), *span))
        k.barrier()
    with k.when(apply("eq", tx, 0)):
        k.store(y, row, load(partial, 0))
    return ctx.module([host_a, host_x, host_y], [k.finish()], terms=columns)


def build_kernels(ctx: Context) -> Module:
    return _per_group(ctx) if ctx["form"] == "group" else _per_item(ctx)
