"""Branches that split wavefronts: by lane, by data, nested, and loops whose length differs between work-items."""

from __future__ import annotations

from hipsynth.synth.generate.builder import KernelBuilder
from hipsynth.synth.generate.context import Context
from hipsynth.synth.generate.ir import Expr, Module, apply, load
from hipsynth.synth.generate.patterns import add_input, add_output, compute_chain, covering_kernel, each_item
from hipsynth.synth.generate.productions import COMFORT, emit_recurrence
from hipsynth.synth.generate.types import DType


def _split_condition(ctx: Context, i: Expr, x: Expr) -> Expr:
    if ctx["split"] == "data":
        return apply("lt", x, x.dtype.cast((x.lo + x.hi) / 2).item() if x.dtype.is_float else int(x.lo + x.hi) // 2 + 1)
    divisor = {"lane": 2, "quad": 8, "wave": 128}[ctx["split"]]
    return apply("lt", i % divisor, divisor // 2)


def _result_span(t: DType) -> tuple[float, float]:
    return (0.0, COMFORT[t.name][1] * 2) if t.is_float else (t.lo, t.hi)


def _emit_side(ctx: Context, k: KernelBuilder, result: Expr, values: list[Expr], statements: int) -> None:
    k.assign(result, compute_chain(ctx, k, values, statements))


def build_kernels(ctx: Context) -> Module:
    n, t = ctx.count, ctx.dtype
    k = covering_kernel(ctx, ctx.choices.pick(("branchy", "divergent", "classify", "select_path")), n)
    source, host_in = add_input(ctx, k, 0, t, n, ctx.init(t))
    second, host_in2 = add_input(ctx, k, 1, t, n, ctx.init(t))
    target, host_out = add_output(ctx, k, 0, t, n)
    with each_item(ctx, k, n) as i:
        x = k.let(k.unused_name(ctx.names.local), load(source, i))
        result = k.variable("result_v", x, t, _result_span(t))
        with k.when(_split_condition(ctx, i, x)):
            y = k.let(k.unused_name(ctx.names.local), load(second, i))
            _emit_side(ctx, k, result, [x, y], ctx["then_ops"])
            if ctx["nested"]:
                with k.when(apply("lt", i % 4, 1)):
                    _emit_side(ctx, k, result, [y, x], ctx["else_ops"])
        if ctx["else_ops"]:
            with k.otherwise():
                _emit_side(ctx, k, result, [x], ctx["else_ops"])
        if ctx["trips"] > 1 and t.is_float:
            with k.loop("r", 0, k.let("trips", i % ctx["trips"] + 1)):
                emit_recurrence(ctx, k, result, x, (0.5, 0.25))
        k.store(target, i, result)
    return ctx.module([host_in, host_in2, host_out], [k.finish()], terms=8)
