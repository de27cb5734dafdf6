"""Code patterns that many families share: bounds-checked element access, inputs and outputs, recurrence loops."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

from hipsynth.synth.generate.builder import KernelBuilder
from hipsynth.synth.generate.context import Context
from hipsynth.synth.generate.extent import count_groups
from hipsynth.synth.generate.ir import Buffer, Expr, HostBuffer, Init, Operand
from hipsynth.synth.generate.productions import Chain, emit_recurrence, recurrence_span
from hipsynth.synth.generate.types import I32, DType

FACTORS = ((0.5, 0.5), (0.25, 0.5), (0.75, 0.25), (0.5, 0.25), (0.875, 0.125), (0.9375, 0.125))


def covering_kernel(ctx: Context, name: str, items: int) -> KernelBuilder:
    """A 1-D kernel with at least `items` work-items, in work-groups of the parameter `block`."""
    return KernelBuilder(name, count_groups(items, ctx["block"]), ctx["block"], **ctx.kernel_options())


@contextmanager
def each_item(ctx: Context, k: KernelBuilder, items: int) -> Iterator[Expr]:
    """Yields the index of this work-item's element, inside a bounds check if the launch is larger than `items`, and
    in most programs always: they take any size."""
    checked = ctx.style["guard"] or k.grid[0] * k.block[0] > items
    count = k.scalar(ctx.names.count, items) if checked else None
    i = k.let(ctx.names.index, k.global_id())
    if count is None:
        yield i
        return
    with k.below(i, count, early=bool(ctx.style["early_return"])) as inside:
        yield inside


def add_input(ctx: Context, k: KernelBuilder, order: int, t: DType, size: int, init: Init) -> tuple[Buffer, HostBuffer]:
    """Input number `order` of a program, `size` elements of `t`: the kernel's parameter and the host's buffer."""
    name = ctx.names.inputs[order]
    return k.input(name, t, size, *init.span, restrict=ctx.restrict), HostBuffer(name, t.base, size * t.lanes, init)


def add_output(
    ctx: Context, k: KernelBuilder, order: int, t: DType, size: int, span: tuple[float, float] | None = None
) -> tuple[Buffer, HostBuffer]:
    """Output number `order`, zero-initialised, values in `span`: the kernel's parameter and the host's buffer."""
    name = ctx.names.outputs[order]
    buffer = k.output(name, t, size, span, restrict=ctx.restrict)
    return buffer, HostBuffer(name, t.base, size * t.lanes, Init("zero"), output=True)


def compute_chain(ctx: Context, k: KernelBuilder, values: list[Expr], statements: int) -> Expr:
    """A dependency chain of `statements` statements over the values; without statements, the last value."""
    return Chain(ctx, k, values).add_statements(statements) if statements else values[-1]


def compute_recurrences(ctx: Context, k: KernelBuilder, x: Expr, y: Expr, rounds: int, *, lanes: int = 1) -> Expr:
    """A loop of `rounds` iterations over `lanes` independent recurrences x_j = x_j * a + y * b; returns their sum.

    Sets a kernel's arithmetic intensity. Integers use (x ^ y) * multiplier + 1 instead.
    """
    factors = ctx.choices.pick(FACTORS)
    unroll = ctx.choices.pick((0, 0, 4, 8)) if rounds >= 8 else 0
    name = k.unused_name(ctx.names.local)
    variables = []
    for lane in range(lanes):
        start = x if lane == 0 else x * (1.0 + 0.25 * lane) if x.dtype.is_float else x + lane
        span = recurrence_span(start, y, factors) if x.dtype.is_float else _integer_span(x.dtype)
        variables.append(k.variable(k.unused_name(f"{name}_acc"), start, x.dtype, span))
    with k.loop(k.unused_name("r"), 0, rounds, unroll=unroll):
        for variable in variables:
            if x.dtype.is_float:
                emit_recurrence(ctx, k, variable, y, factors)
            elif x.dtype.kind == "u":
                k.assign(variable, (variable ^ y) * ctx.choices.pick((5, 33, 1664525)) + 1)
            else:
                k.assign(variable, ((variable ^ y) * ctx.choices.pick((5, 33)) + 1) & 0xFFFF)
    total = variables[0]
    for variable in variables[1:]:
        total = total + variable
    return k.let(k.unused_name(ctx.names.local), total)


def _integer_span(t: DType) -> tuple[float, float]:
    return (0, 0xFFFF) if t is I32 else (t.lo, t.hi)


def total_span(t: DType, highest: float, terms: int) -> tuple[float, float]:
    """The range of a sum of `terms` values in [0, highest]."""
    return (t.lo, t.hi) if t.kind == "u" else (0, highest * terms * 1.001 if t.is_float else math.ceil(highest * terms))


def weighted_sum(values: list[Expr], weights: list[float]) -> Expr:
    """w0 * v0 + w1 * v1 + ... as one expression."""
    total: Operand = values[0] * weights[0] if weights[0] != 1 else values[0]
    for value, weight in zip(values[1:], weights[1:], strict=True):
        total = total + (value * weight if weight != 1 else value)
    assert isinstance(total, Expr)
    return total
