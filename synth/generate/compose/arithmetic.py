"""Arithmetic: steps that map a state to a state of the same range, so that any number of them may follow each other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hipsynth.synth.generate.compose.composed_kernel import Sketch
from hipsynth.synth.generate.families.integer_mix import MULTIPLIERS, SHIFTS
from hipsynth.synth.generate.ir import Expr, apply
from hipsynth.synth.generate.patterns import FACTORS
from hipsynth.synth.generate.productions import PREPARE, apply_intrinsic, recurrence_span
from hipsynth.synth.generate.types import F16, F64, U8, DType

Span = tuple[float, float]
FAST = frozenset({"fast_exp", "fast_log", "fast_sin", "fast_cos"})  # of float only


@dataclass(frozen=True)
class Steps:
    """`span`: the range of the state, from its start on; `next`: the state after one step."""

    span: Span
    next: Callable[[Expr], Expr]


def _multiply_add(s: Sketch, x: Expr, y: Expr) -> Steps:
    """x * a + y * b."""
    a, b = s.ctx.choices.pick(FACTORS)
    fused = s.ctx.choices.flag(40) and x.dtype is not F16
    return Steps(recurrence_span(x, y, (a, b)),
                 lambda v: apply("fma", v, a, y * b) if fused else v * a + y * b)  # fmt: skip


def _transcendental_steps(s: Sketch, x: Expr, y: Expr) -> Steps:
    """A math function of the state, which is first mapped to where the function is well conditioned."""
    slow = {"tanh", "atan", "erf", "cbrt"}
    names = sorted(set(PREPARE) - (FAST if s.t is F64 else set()) - (set() if s.ctx.choices.flag(25) else slow))
    name = s.ctx.choices.pick(names)
    out = apply(name, _of_range(s.t, PREPARE[name]))
    span = (min(x.lo, out.lo) * 0.98, max(x.hi, out.hi) * 1.02)
    return Steps(span, lambda v: apply_intrinsic(name, v))


def _of_range(t: DType, span: Span) -> Expr:
    return Expr("name", t, (), ("any", 0), *span)


def _division_steps(s: Sketch, x: Expr, y: Expr) -> Steps:
    """y / (x + 1) + c: quotients, or square roots of them."""
    offset, root = s.ctx.choices.pick((0.25, 0.5, 1.0)), s.ctx.choices.flag(50) and s.t is not F16
    top = max(y.hi, 1.0)

    def following(v: Expr) -> Expr:
        quotient = y / (v + 1.0) + offset
        return apply("sqrt", quotient) if root else quotient

    return Steps((min(x.lo, offset, offset**0.5) * 0.98, max(x.hi, top + offset) * 1.02), following)


def _polynomial_steps(s: Sketch, x: Expr, y: Expr) -> Steps:
    """Horner's rule in a value below one."""
    factor = 0.75 / (2 ** max(0, (int(y.hi) + 1).bit_length()))
    constant = s.ctx.choices.pick((0.25, 0.5, 1.0))
    z = s.local(y * factor, "z")
    return Steps((min(x.lo, constant) * 0.98, max(x.hi, 4 * constant) * 1.02), lambda v: v * z + constant)


def _bit_steps(s: Sketch, x: Expr, y: Expr) -> Steps:
    """Multiplications, shifts and exclusive or, as hash functions use."""
    name = s.t.name
    shift, form = s.ctx.choices.pick(SHIFTS.get(name, (3, 5, 7))), s.ctx.choices.integer(0, 3)
    factor = s.ctx.choices.pick(MULTIPLIERS.get(name, (5, 33)))

    def following(v: Expr) -> Expr:
        if form == 0 and name == "u32":
            return apply("rotl", v ^ y, shift) * 5 + 0x38495AB5
        if form < 2:
            return s.bounded((v ^ (v >> shift)) * factor + y)
        return s.bounded(((v << 3 ^ y) + factor) if s.t.kind == "i" else (v << 5 ^ v >> shift) + y)

    return Steps(s.span, following)


def _integer_steps(s: Sketch, x: Expr, y: Expr) -> Steps:
    """Additions, multiplications and remainders of integers."""
    modulus, factor = s.ctx.choices.pick((97, 251) if s.t is U8 else (97, 1000, 4093)), s.ctx.choices.pick((3, 7, 13))
    form = s.ctx.choices.integer(0, 3)

    def following(v: Expr) -> Expr:
        match form:
            case 0:
                return (v * factor + y) % modulus if s.t.kind == "i" else v * factor + y
            case 1:
                return s.bounded(apply("max", v, y) * factor + 1)
            case 2:
                return apply("min", s.bounded(v + y * factor), s.mask(15)) + 1
        return s.bounded(apply("select", apply("gt", v, y), v - y if s.t.kind == "u" else v >> 1, v + y))

    return Steps(s.span, following)


WORKS: dict[str, Callable[[Sketch, Expr, Expr], Steps]] = {
    "multiply_add": _multiply_add, "transcendental": _transcendental_steps, "divide": _division_steps,
    "polynomial": _polynomial_steps, "bits": _bit_steps, "arithmetic": _integer_steps,
}  # fmt: skip
