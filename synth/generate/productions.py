"""Small weighted generators of compute statements, with operands skewed towards recent values.

Values stay positive and moderate by construction, so that no sum cancels and results survive fast math: a
production that would leave the comfortable range is rescaled, one the type system refuses is replaced.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from hipsynth.synth.generate import ir
from hipsynth.synth.generate.builder import KernelBuilder
from hipsynth.synth.generate.context import Context
from hipsynth.synth.generate.ir import Expr, apply, known
from hipsynth.synth.generate.types import F16, DType, IRError

SCALES = (0.25, 0.5, 0.75, 1.25, 1.5, 2.0)
COMFORT = {"f16": (0.0625, 64.0), "f32": (1e-4, 1e9), "f64": (1e-6, 1e24)}
LEAST = 2.0**-12  # a difference that takes away less is pointless
RECENCY = 60  # percent: how often the search for an operand stops at the next most recent value
Operands = tuple[Expr, Expr, Expr]
Production = Callable[[Context, Operands], Expr]


def settle(value: Expr) -> Expr:
    """A float brought back into its comfortable range; ints are masked.

    By a root where that keeps it positive. Half precision is clamped instead: fast math may move a scale factor behind
    a product, which then overflows.
    """
    if not value.dtype.is_float:
        return value & 0xFFFF if value.dtype.kind == "i" and value.hi > 1 << 16 else value
    low, high = COMFORT[value.dtype.name]
    if value.hi > high and value.dtype is F16:
        value = apply("min", value, high)
    if value.hi > high and value.lo > 0:
        value = apply("sqrt", value)
    if value.hi > high:
        value = value * 2.0 ** (math.floor(math.log2(high / value.hi)) - 1)
    if value.lo < low:
        value = value + 0.5
    return value


def _scale(ctx: Context, v: Operands) -> Expr:
    return v[0] * ctx.choices.pick(SCALES)


def _offset(ctx: Context, v: Operands) -> Expr:
    return v[0] + ctx.choices.pick(SCALES)


def _difference(ctx: Context, v: Operands) -> Expr:
    """a - b * c, with c so small that at most half of a is taken away."""
    if v[0].lo <= 0 or v[1].hi <= 0 or 0.5 * v[0].lo / v[1].hi < LEAST:
        raise IRError("difference: too little to take away from")
    return v[0] - v[1] * 2.0 ** math.floor(math.log2(0.5 * v[0].lo / v[1].hi))


def _quotient(ctx: Context, v: Operands) -> Expr:
    return v[0] / (v[1] + 1.0)


def _mask(ctx: Context, v: Operands) -> Expr:
    return v[0] & ctx.choices.pick((0xFF, 0xFFF, 0xFFFF, 0x7FFFF))


def _left(ctx: Context, v: Operands) -> Expr:
    return v[0] << ctx.choices.integer(1, 7)


def _right(ctx: Context, v: Operands) -> Expr:
    return v[0] >> ctx.choices.integer(1, 7)


def _rotate(ctx: Context, v: Operands) -> Expr:
    return apply("rotl", v[0], ctx.choices.integer(1, 31))


def _remainder(ctx: Context, v: Operands) -> Expr:
    return v[0] % ctx.choices.pick((7, 13, 31, 64, 97, 1000)) + 1


def _ratio(ctx: Context, v: Operands) -> Expr:
    return apply("idiv", v[0], ctx.choices.pick((2, 3, 5, 8, 10))) + 1


PRODUCTIONS: dict[str, Production] = {
    "add": lambda ctx, v: v[0] + v[1],
    "mul": lambda ctx, v: v[0] * v[1],
    "mul_add": lambda ctx, v: v[0] * v[1] + v[2],
    "fma": lambda ctx, v: apply("fma", *v),
    "scale": _scale,
    "offset": _offset,
    "difference": _difference,
    "quotient": _quotient,
    "sqrt": lambda ctx, v: ir.square_root(v[0]),
    "min": lambda ctx, v: apply("min", v[0], v[1]),
    "max": lambda ctx, v: apply("max", v[0], v[1]),
    "xor": lambda ctx, v: v[0] ^ v[1],
    "or": lambda ctx, v: apply("or", v[0], v[1]),
    "mask": _mask,
    "left": _left,
    "right": _right,
    "rotate": _rotate,
    "mulhi": lambda ctx, v: apply("mulhi", v[0], v[1]),
    "popcount": lambda ctx, v: apply("popc", v[0]) + v[1],
    "subtract": lambda ctx, v: v[0] - v[1],
    "remainder": _remainder,
    "ratio": _ratio,
}
PAIRED = frozenset({"subtract", "difference", "xor", "or", "min", "max"})  # pointless on one value twice
PREPARE: dict[str, tuple[float, float]] = {  # intrinsic -> argument range it is given
    "exp": (0.0, 2.0), "exp2": (0.0, 2.0), "log": (2.0, 40.0), "log2": (2.0, 40.0), "sin": (0.25, 1.4),
    "cos": (0.0, 1.2), "tanh": (0.25, 3.0), "atan": (0.25, 40.0), "erf": (0.25, 2.5), "cbrt": (0.25, 40.0),
    "rsqrt": (0.25, 40.0), "sqrt": (0.25, 40.0), "fast_exp": (0.0, 2.0), "fast_log": (2.0, 40.0),
    "fast_sin": (0.25, 1.4), "fast_cos": (0.0, 1.2),
}  # fmt: skip


def intrinsic(name: str, value: Expr) -> Expr:
    """A math function of a value first scaled and shifted into the range where it is well conditioned."""
    low, high = PREPARE[name]
    factor = 2.0 ** math.floor(math.log2((high - low) / value.hi))
    return apply(name, value * factor + low)


def group_of(kind: DType) -> str:
    """The production group of a type in the policy."""
    return {"f": "float", "i": "int", "u": "unsigned"}[kind.kind] if kind is not F16 else "half"


class Chain:
    """A growing pool of values of one type, from which statements draw."""

    def __init__(self, ctx: Context, k: KernelBuilder, values: list[Expr]) -> None:
        self.ctx, self.k, self.values = ctx, k, list(values)

    def operand(self) -> Expr:
        """A value, the most recent ones most likely: a dependency chain forms."""
        position = len(self.values) - 1
        while position > 0 and not self.ctx.choices.flag(RECENCY):
            position -= 1
        return self.values[position]

    def expression(self) -> Expr:
        """A new value, not yet named."""
        weights = self.ctx.policy.productions[group_of(self.values[0].dtype)]
        names = list(weights)
        name = names[self.ctx.choices.weighted([weights[n] for n in names])]
        operands = (self.operand(), self.operand(), self.operand())
        if name in PAIRED and operands[0] == operands[1]:
            name = "add"
        try:
            return settle(PRODUCTIONS[name](self.ctx, operands))
        except IRError:
            return settle(_tamed(operands))

    def grow(self, statements: int) -> Expr:
        """Adds named compute statements; returns the last value."""
        for _ in range(statements):
            self.values.append(self.k.let(self.k.fresh(self.ctx.names.local), self.expression()))
        return self.values[-1]


def _tamed(v: Operands) -> Expr:
    """What replaces a refused production."""
    if v[0].dtype.is_float:
        return v[0] * 0.5 + v[1] * 0.5
    if v[0].lo < 0:
        return known(v[0], v[0].lo, v[0].hi)
    return (v[0] & 0xFFF) + (apply("max", v[1], 0) & 0xFFF)


def recurrence(ctx: Context, k: KernelBuilder, x: Expr, y: Expr, factors: tuple[float, float]) -> None:
    """`x = x * a + y * b;` on a variable whose promise `recurrence_span` gave."""
    a, b = factors
    k.assign(x, apply("fma", x, a, y * b) if ctx.choices.flag(40) and x.dtype is not F16 else x * a + y * b)


def recurrence_span(start: Expr, y: Expr, factors: tuple[float, float]) -> tuple[float, float]:
    """The range that x = x * a + y * b never leaves (0 < a < 1, all positive)."""
    a, b = factors
    fixed = b / (1 - a)
    return min(start.lo, fixed * y.lo) * 0.98, max(start.hi, fixed * y.hi) * 1.02
