"""Floats of four to eight bits as the OCP defines them (OFP8, Microscaling), by enumeration."""

from __future__ import annotations

import math
from fractions import Fraction

# Exponent bits, mantissa bits, bias, and whether codes of the largest exponent are special.
FORMATS = {"fp8": (4, 3, 7), "bf8": (5, 2, 15), "fp6": (2, 3, 1), "bf6": (3, 2, 3), "fp4": (2, 1, 1)}
CODES = {"fp8": 0, "bf8": 1, "fp6": 2, "bf6": 3, "fp4": 4}  # of cbsz and blgp


def width_of(kind: str) -> int:
    return 1 + sum(FORMATS[kind][:2])


def value_of(code: int, kind: str) -> float:
    """The value of a code."""
    exponent_bits, mantissa_bits, bias = FORMATS[kind]
    sign = -1.0 if code >> (width_of(kind) - 1) else 1.0
    e, m = code >> mantissa_bits & ((1 << exponent_bits) - 1), code & ((1 << mantissa_bits) - 1)
    if kind == "fp8" and (e, m) == (15, 7):
        return math.nan
    if kind == "bf8" and e == 31:
        return math.nan if m else sign * math.inf
    fraction = m / (1 << mantissa_bits)
    return sign * (fraction * 2.0 ** (1 - bias) if e == 0 else (1 + fraction) * 2.0 ** (e - bias))


def finite_codes(kind: str) -> list[int]:
    """The codes of non-negative finite values, in their order."""
    return [code for code in range(1 << (width_of(kind) - 1)) if math.isfinite(value_of(code, kind))]


def nearest_codes(x: Fraction, kind: str) -> tuple[int, int]:
    """The codes of the two neighbours of |x| among the finite values, equal if x is one or beyond the largest."""
    codes = finite_codes(kind)
    below = max(code for code in codes if Fraction(value_of(code, kind)) <= abs(x))
    above = below if Fraction(value_of(below, kind)) == abs(x) or below == codes[-1] else below + 1
    return below, above


def overflow_of(kind: str, saturate: bool) -> int:
    """What a value beyond the largest one becomes."""
    largest = finite_codes(kind)[-1]
    return largest if saturate or kind not in ("fp8", "bf8") else largest + 1


def encode(x: float, scale: Fraction, kind: str, saturate: bool = False) -> int:
    """x / scale in the format, to nearest even; NaN of a format without one: the largest value."""
    sign = (1 << (width_of(kind) - 1)) if math.copysign(1.0, x) < 0 else 0
    if math.isnan(x):
        return sign | {"fp8": 0x7F, "bf8": 0x7E}.get(kind, finite_codes(kind)[-1])
    if math.isinf(x):
        return sign | overflow_of(kind, saturate)
    exact = abs(Fraction(x) / scale)
    below, above = nearest_codes(exact, kind)
    largest = finite_codes(kind)[-1]
    low = Fraction(value_of(below, kind))
    if below == largest:
        step = low - Fraction(value_of(below - 1, kind))
        rounds_up = exact > low + step / 2 or (exact == low + step / 2 and below & 1)
        return sign | (overflow_of(kind, saturate) if rounds_up else below)
    middle = (low + Fraction(value_of(above, kind))) / 2
    up = exact > middle or (exact == middle and below & 1)
    return sign | (above if up else below)
