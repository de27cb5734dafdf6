"""Weighted generators of compute statements, with operands skewed towards recent values.

Values stay positive and moderate by construction, so that no sum cancels and results are stable under fast math: a
result outside the COMFORT range is rescaled, a production that the type system rejects is replaced.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from hipsynth.synth.generate import ir
from hipsynth.synth.generate.builder import KernelBuilder
from hipsynth.synth.generate.context import Context
from hipsynth.synth.generate.ir import Expr, apply, narrow_range
from hipsynth.synth.generate.types import F16, DType, IRError

SCALES = (0.25, 0.5, 0.75, 1.25, 1.5, 2.0)
COMFORT = {"f16": (0.0625, 64.0), "f32": (1e-4, 1e9), "f64": (1e-6, 1e24)}  # range that values are rescaled to
LEAST = 2.0**-12  # smallest factor of a subtrahend that still changes the result noticeably
RECENCY = 60  # percent: probability of taking the most recent value, else the next most recent, and so on
Operands = tuple[Expr, Expr, Expr]
Production = Callable[[Context, Operands], Expr]


def settle_range(value: Expr) -> Expr:
    """Brings a float back into its COMFORT range; masks large ints to 16 bits; leaves unsigned values alone.

    Positive floats take a square root, others a scale factor. Half precision is clamped first: fast math may apply a
    scale factor after the product, which then overflows.
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


def _scale_value(ctx: Context, v: Operands) -> Expr:
    return v[0] * ctx.choices.pick(SCALES)


def _offset_value(ctx: Context, v: Operands) -> Expr:
    return v[0] + ctx.choices.pick(SCALES)


def _take_difference(ctx: Context, v: Operands) -> Expr:
    """a - b * c with a constant c such that b * c is at most half of a; raises IRError if c would be tiny."""
    if v[0].lo <= 0 or v[1].hi <= 0 or 0.5 * v[0].lo / v[1].hi < LEAST:
        raise IRError("difference: the minuend is too small")
    return v[0] - v[1] * 2.0 ** math.floor(math.log2(0.5 * v[0].lo / v[1].hi))


def _take_quotient(ctx: Context, v: Operands) -> Expr:
    return v[0] / (v[1] + 1.0)


def _mask_bits(ctx: Context, v: Operands) -> Expr:
    return v[0] & ctx.choices.pick((0xFF, 0xFFF, 0xFFFF, 0x7FFFF))


def _shift_left(ctx: Context, v: Operands) -> Expr:
    return v[0] << ctx.choices.integer(1, 7)


def _shift_right(ctx: Context, v: Operands) -> Expr:
    return v[0] >> ctx.choices.integer(1, 7)


def _rotate_bits(ctx: Context, v: Operands) -> Expr:
    return apply("rotl", v[0], ctx.choices.integer(1, 31))


def _take_remainder(ctx: Context, v: Operands) -> Expr:
    return v[0] % ctx.choices.pick((7, 13, 31, 64, 97, 1000)) + 1


def _divide_integer(ctx: Context, v: Operands) -> Expr:
    return apply("idiv", v[0], ctx.choices.pick((2, 3, 5, 8, 10))) + 1


def _clamp_value(ctx: Context, v: Operands) -> Expr:
    low, high = ctx.choices.pick(((1, 200), (3, 100), (16, 127)))
    return apply("min", apply("max", v[0], low), high)


def _bit_field(ctx: Context, v: Operands) -> Expr:
    return (v[0] >> ctx.choices.integer(1, 7)) & ctx.choices.pick((0x7F, 0x1F, 0x3F))


def _raise_power(ctx: Context, v: Operands) -> Expr:
    return apply("pow", v[0] * 2.0 ** math.floor(math.log2(3.5 / v[0].hi)) + 0.5, ctx.choices.pick((0.75, 1.5, 2.25)))


PRODUCTIONS: dict[str, Production] = {
    "add": lambda ctx, v: v[0] + v[1],
    "mul": lambda ctx, v: v[0] * v[1],
    "mul_add": lambda ctx, v: v[0] * v[1] + v[2],
    "fma": lambda ctx, v: apply("fma", *v),
    "scale": _scale_value,
    "offset": _offset_value,
    "difference": _take_difference,
    "quotient": _take_quotient,
    "sqrt": lambda ctx, v: ir.square_root(v[0]),
    "min": lambda ctx, v: apply("min", v[0], v[1]),
    "max": lambda ctx, v: apply("max", v[0], v[1]),
    "xor": lambda ctx, v: v[0] ^ v[1],
    "or": lambda ctx, v: apply("or", v[0], v[1]),
    "mask": _mask_bits,
    "left": _shift_left,
    "right": _shift_right,
    "rotate": _rotate_bits,
    "mulhi": lambda ctx, v: apply("mulhi", v[0], v[1]),
    "popcount": lambda ctx, v: apply("popc", v[0]) + v[1],
    "not": lambda ctx, v: apply("not", v[0]),
    "leading": lambda ctx, v: apply("clz", v[0]) + v[1],
    "trailing": lambda ctx, v: apply("ffs", v[0]) + v[1],
    "reverse": lambda ctx, v: apply("brev", v[0]),
    "mul24": lambda ctx, v: apply("mul24", v[0], v[1]) + v[2],
    "dot4": lambda ctx, v: apply("dot4", v[0], v[1], v[2]),
    "sad": lambda ctx, v: apply("sad", v[0], v[1], v[2]),
    "max3": lambda ctx, v: apply("max", apply("max", v[0], v[1]), v[2]),
    "min3": lambda ctx, v: apply("min", apply("min", v[0], v[1]), v[2]),
    "or3": lambda ctx, v: apply("or", apply("or", v[0], v[1]), v[2]),
    "clamp": _clamp_value,
    "bit_field": _bit_field,
    "power": _raise_power,
    "hypot": lambda ctx, v: apply("hypot", v[0], v[1]),
    "finite": lambda ctx, v: apply("select", apply("isnan", v[0]), v[1], v[0]),
    "subtract": lambda ctx, v: v[0] - v[1],
    "remainder": _take_remainder,
    "ratio": _divide_integer,
}
PAIRED = frozenset(
    {"subtract", "difference", "xor", "or", "min", "max", "max3", "min3", "or3", "sad"}
)  # trivial when both operands are equal
PREPARE: dict[str, tuple[float, float]] = {  # intrinsic -> range that its argument is mapped to
    "exp": (0.0, 2.0), "exp2": (0.0, 2.0), "log": (2.0, 40.0), "log2": (2.0, 40.0), "sin": (0.25, 1.4),
    "cos": (0.0, 1.2), "tanh": (0.25, 3.0), "atan": (0.25, 40.0), "erf": (0.25, 2.5), "cbrt": (0.25, 40.0),
    "rsqrt": (0.25, 40.0), "sqrt": (0.25, 40.0), "fast_exp": (0.0, 2.0), "fast_log": (2.0, 40.0),
    "fast_sin": (0.25, 1.4), "fast_cos": (0.0, 1.2), "exp10": (0.0, 1.0), "log10": (2.0, 40.0), "log1p": (0.5, 40.0),
    "expm1": (0.25, 2.0), "sinh": (0.25, 2.0), "cosh": (0.25, 2.0), "asin": (0.125, 0.625),
}  # fmt: skip


def apply_intrinsic(name: str, value: Expr) -> Expr:
    """A math function of a value, scaled and shifted first into the range where the function is well conditioned."""
    low, high = PREPARE[name]
    factor = 2.0 ** math.floor(math.log2((high - low) / value.hi))
    return apply(name, value * factor + low)


def group_of(kind: DType) -> str:
    """The policy's name for the production group of a type."""
    if kind is F16 or kind.narrow:
        return "half" if kind is F16 else "narrow"
    return {"f": "float", "i": "int", "u": "unsigned"}[kind.kind]


class Chain:
    """A growing list of values of one type, from which statements draw their operands."""

    def __init__(self, ctx: Context, k: KernelBuilder, values: list[Expr]) -> None:
        self.ctx, self.k, self.values = ctx, k, list(values)

    def operand(self) -> Expr:
        """A random value, recent ones most likely, so that dependency chains form."""
        position = len(self.values) - 1
        while position > 0 and not self.ctx.choices.flag(RECENCY):
            position -= 1
        return self.values[position]

    def expression(self) -> Expr:
        """A random expression over the values."""
        weights = self.ctx.policy.productions[group_of(self.values[0].dtype)]
        names = list(weights)
        name = names[self.ctx.choices.weighted([weights[n] for n in names])]
        operands = (self.operand(), self.operand(), self.operand())
        if name in PAIRED and operands[0] == operands[1]:
            name = "add"
        try:
            return settle_range(PRODUCTIONS[name](self.ctx, operands))
        except IRError:
            return settle_range(_fallback_value(operands))

    def add_statements(self, statements: int) -> Expr:
        """Adds `statements` compute statements; returns the value of the last."""
        for _ in range(statements):
            self.values.append(self.k.let(self.k.unused_name(self.ctx.names.local), self.expression()))
        return self.values[-1]


def _fallback_value(v: Operands) -> Expr:
    """A valid expression that replaces a rejected production."""
    if v[0].dtype.is_float:
        return v[0] * 0.5 + v[1] * 0.5
    if v[0].lo < 0:
        return narrow_range(v[0], v[0].lo, v[0].hi)
    mask = min(0xFFF, int(v[0].dtype.hi))
    return (v[0] & mask) + (apply("max", v[1], 0) & mask)


def emit_recurrence(ctx: Context, k: KernelBuilder, x: Expr, y: Expr, factors: tuple[float, float]) -> None:
    """`x = x * a + y * b;` on a variable declared with the range `recurrence_span`."""
    a, b = factors
    k.assign(x, apply("fma", x, a, y * b) if ctx.choices.flag(40) and x.dtype is not F16 else x * a + y * b)


def recurrence_span(start: Expr, y: Expr, factors: tuple[float, float]) -> tuple[float, float]:
    """A range that is closed under x = x * a + y * b (0 < a < 1, all values positive)."""
    a, b = factors
    fixed = b / (1 - a)
    return min(start.lo, fixed * y.lo) * 0.98, max(start.hi, fixed * y.hi) * 1.02
