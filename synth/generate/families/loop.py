"""Loops over elements: grid-stride, chunks or sums per work-item; a compute loop sets the arithmetic intensity."""

from __future__ import annotations

from hipsynth.synth.generate.builder import KernelBuilder
from hipsynth.synth.generate.context import Context
from hipsynth.synth.generate.extent import count_groups
from hipsynth.synth.generate.ir import Expr, Module, load
from hipsynth.synth.generate.patterns import add_input, add_output, compute_chain, compute_recurrences, total_span


def build_kernels(ctx: Context) -> Module:
    n, t, block, grid = ctx.count, ctx.dtype, ctx["block"], ctx.size("blocks", ctx["grid"])
    k = KernelBuilder(ctx.choices.pick(("loop_kernel", "saxpy_like", "process", "update")), grid, block,
                      **ctx.kernel_options())  # fmt: skip
    threads = grid * block
    source, host_in = add_input(ctx, k, 0, t, n, ctx.init(t))
    second, host_in2 = add_input(ctx, k, 1, t, n, ctx.init(t))
    per_thread = ctx["form"] == "accumulate"
    target, host_out = add_output(ctx, k, 0, t, threads if per_thread else n)
    count = k.scalar(ctx.names.count, n)
    first = k.let(ctx.names.index, k.global_id())
    if ctx["form"] == "chunk":
        each = k.scalar("per_thread", count_groups(n, threads))
        with k.loop("c", 0, each) as c:
            at = k.let("pos", first * each + c)
            with k.below(at, count) as inside:
                x, y = k.let("lhs_v", load(source, inside)), k.let("rhs_v", load(second, inside))
                k.store(target, inside, _emit_work(ctx, k, [x, y]))
    elif per_thread:
        terms = -(-n // threads)
        high = max(source.hi * 2, 1)
        acc = k.variable("acc", 0.0 if t.is_float else 0, t, total_span(t, high * second.hi, terms))
        with k.below(first, count) as begin, k.loop("j", begin, count, threads) as j:
            k.accumulate(acc, load(source, j) * load(second, j))
        k.store(target, first, acc)
        return ctx.module([host_in, host_in2, host_out], [k.finish()], terms=terms)
    else:
        stride = k.let("stride", k.builtin("blockDim.x") * k.builtin("gridDim.x"))
        with k.loop("j", first, count, stride) as j:
            x, y = k.let("lhs_v", load(source, j)), k.let("rhs_v", load(second, j))
            k.store(target, j, _emit_work(ctx, k, [x, y]))
    return ctx.module([host_in, host_in2, host_out], [k.finish()])


def _emit_work(ctx: Context, k: KernelBuilder, values: list[Expr]) -> Expr:
    if ctx["rounds"]:
        values = [*values, compute_recurrences(ctx, k, values[0], values[1], ctx["rounds"], lanes=ctx["lanes"])]
    return compute_chain(ctx, k, values, ctx["compute"])
