"""Typed values of AMD's pseudo-code and the functions it calls."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np


class Unsupported(Exception):
    """The pseudo-code uses a feature that this evaluator does not implement."""


def float_of(bits: int, width: int) -> float:
    fmt = {16: ("<H", "<e"), 32: ("<I", "<f"), 64: ("<Q", "<d")}[width]
    return float(struct.unpack(fmt[1], struct.pack(fmt[0], bits & ((1 << width) - 1)))[0])


_NUMPY = {16: (np.float16, np.uint16), 32: (np.float32, np.uint32), 64: (np.float64, np.uint64)}


def bits_of(value: float, width: int) -> int:
    """Bits of a double rounded to nearest even to `width`."""
    if math.isnan(value):
        return {16: 0x7E00, 32: 0x7FC00000, 64: 0x7FF8000000000000}[width]
    f, u = _NUMPY[width]
    with np.errstate(all="ignore"):
        return int(np.array(value, np.float64).astype(f).view(u))


def round_fraction(x: Fraction, width: int, zero_sign: bool = False) -> int:
    """Bits of the exact number `x` rounded to nearest even."""
    p, low, bias = {16: (11, -24, 15), 32: (24, -149, 127), 64: (53, -1074, 1023)}[width]
    sign = (1 << (width - 1)) if x < 0 or (x == 0 and zero_sign) else 0
    a = abs(x)
    if a == 0:
        return sign
    e = a.numerator.bit_length() - a.denominator.bit_length()
    if Fraction(2) ** e > a:
        e -= 1
    q = max(e - p + 1, low)
    scaled = a / Fraction(2) ** q
    n = scaled.numerator // scaled.denominator
    rest = scaled - n
    if rest > Fraction(1, 2) or (rest == Fraction(1, 2) and n & 1):
        n += 1
    if n >= 1 << p:
        n >>= 1
        q += 1
    if n < 1 << (p - 1):
        return sign | n
    biased = q + p - 1 + bias
    if biased >= 2 * bias + 1:
        return sign | ((2 * bias + 1) << (p - 1))
    return sign | biased << (p - 1) | (n - (1 << (p - 1)))


def fma_bits(a: float, b: float, c: float, width: int) -> int:
    if math.isinf(c) and math.isfinite(a) and math.isfinite(b):
        return bits_of(c, width)
    if not (math.isfinite(a) and math.isfinite(b) and math.isfinite(c)):
        with np.errstate(all="ignore"):
            return bits_of(float(np.float64(a) * np.float64(b) + np.float64(c)), width)
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    product_negative = (math.copysign(1, a) < 0) != (math.copysign(1, b) < 0)
    both_negative = product_negative and math.copysign(1, c) < 0
    return round_fraction(exact, width, zero_sign=both_negative)


@dataclass(frozen=True)
class V:
    """A typed value: kind u, i, f or b (raw bits)."""

    bits: int
    kind: str
    width: int

    @property
    def number(self) -> Any:
        if self.kind == "f":
            return float_of(self.bits, self.width)
        if self.kind == "i" and self.bits >> (self.width - 1):
            return self.bits - (1 << self.width)
        return self.bits


def make(value: Any, kind: str, width: int) -> V:
    if kind == "f":
        return V(bits_of(float(value), width), "f", width)
    return V(int(value) & ((1 << width) - 1), kind, width)


def widen(v: V, width: int) -> V:
    """Float to float; a signalling NaN stays signalling, so that isSignalNAN(64'F(x)) means what it says."""
    if not math.isnan(v.number):
        return make(v.number, "f", width)
    quiet = make(math.nan, "f", width).bits
    mantissa_top = 1 << {16: 9, 32: 22, 64: 51}[width]
    return V(quiet if v.bits & _quiet_bit(v) else quiet ^ mantissa_top | 1, "f", width)


def common(a: V, b: V) -> tuple[str, int]:
    if a.kind == "f" or b.kind == "f":
        floats = [v for v in (a, b) if v.kind == "f"]
        return "f", max(v.width for v in floats)
    width = max(a.width, b.width)
    kind = "i" if a.kind == "i" and b.kind == "i" else "u"
    return kind, width


def arith(op: str, a: V, b: V) -> V:
    kind, width = common(a, b)
    x, y = a.number, b.number
    if kind == "f":
        f, u = _NUMPY[width]
        with np.errstate(all="ignore"):
            p, q = f(x), f(y)
            r = {"+": lambda: p + q, "-": lambda: p - q, "*": lambda: p * q, "/": lambda: p / q, "**": lambda: p**q}[
                op
            ]()
        r = f(r)
        return make(math.nan, "f", width) if np.isnan(r) else V(int(np.array(r).view(u)), "f", width)
    if op == "**":
        return make(x**y, kind, width)
    return make({"+": x + y, "-": x - y, "*": x * y, "/": x // y if y else 0}[op], kind, width)


COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "==": lambda x, y: x == y,
    "!=": lambda x, y: x != y,
    "<>": lambda x, y: x < y or x > y if isinstance(x, float) else x != y,
    "<": lambda x, y: x < y,
    ">": lambda x, y: x > y,
    "<=": lambda x, y: x <= y,
    ">=": lambda x, y: x >= y,
}


def exponent(v: V) -> int:
    p = {16: 10, 32: 23, 64: 52}[v.width]
    return (v.bits >> p) & ((1 << (v.width - p - 1)) - 1)


def is_denormal(v: V) -> bool:
    return exponent(v) == 0 and v.number != 0


def saturate(x: float | int, low: int, high: int) -> int:
    if math.isnan(x):
        return 0
    return low if x <= low else high if x >= high else math.trunc(x)


def _quiet_bit(v: V) -> int:
    return 1 << {16: 9, 32: 22, 64: 51}[v.width]


def _ldexp(v: V, e: int) -> V:
    x = v.number
    if not math.isfinite(x) or x == 0:
        return v
    return V(round_fraction(Fraction(x) * Fraction(2) ** max(-5000, min(5000, e)), v.width), "f", v.width)


def _unary_float(fn: Callable[[float], float]) -> Callable[[V], V]:
    def run(v: V) -> V:
        x = v.number
        return make(fn(x) if math.isfinite(x) else x, "f", v.width)

    return run


def _keep_zero(fn: Callable[[float], float]) -> Callable[[float], float]:
    return lambda x: math.copysign(fn(x), x)


def _sqrt(x: float) -> float:
    return math.nan if x < 0 else math.sqrt(x)


def _log2(x: float) -> float:
    return -math.inf if x == 0 else math.nan if x < 0 else math.inf if math.isinf(x) else math.log2(x)


def narrow(match: re.Match[str]) -> Callable[[V], V]:
    """Conversions named like f32_to_i32."""
    src, dst = match[1], match[2]
    kind, width = dst[0], int(re.sub(r"\D", "", dst))

    def run(v: V) -> V:
        sk, sw = src[0], int(re.sub(r"\D", "", src))
        x = V(v.bits & ((1 << sw) - 1), sk, sw).number
        if kind == "f":
            return make(x, "f", width)
        if sk == "f" or width < sw:  # narrowing saturates
            low, high = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if kind == "i" else (0, (1 << width) - 1)
            return make(saturate(x, low, high), kind, width)
        return make(x, kind, width)

    return run


def _fp8(v: V, mantissa: int, bias: int) -> V:
    b = v.bits & 0xFF
    if b == 0x80:
        return make(math.nan, "f", 32)
    e, m = (b & 0x7F) >> mantissa, b & ((1 << mantissa) - 1)
    x = m * 2.0 ** (1 - bias - mantissa) if e == 0 else (1 + m / (1 << mantissa)) * 2.0 ** (e - bias)
    return make(-x if b & 0x80 else x, "f", 32)


def _to_fp8(v: V, mantissa: int, bias: int) -> V:
    """Nearest representable value by search over the 128 magnitudes, ties to the even code; what would round to the
    next value beyond them is NaN (FP16_OVFL is off)."""
    x = v.number
    top, below = (_fp8(V(c, "b", 8), mantissa, bias).number for c in (127, 126))
    if not abs(x) < top + (top - below) / 2:
        return V(0x80, "b", 8)
    codes = [(abs(_fp8(V(c, "b", 8), mantissa, bias).number - abs(x)), c & 1, c) for c in range(128)]
    code = min(codes)[2]
    return V(code | (0x80 if x < 0 and code else 0), "b", 8)


def _signext(v: V) -> V:
    return make(V(v.bits, "i", v.width).number, "i", 64)


def _signext_from_bit(v: V, width: V) -> V:
    n = width.number
    if n == 0:
        return make(0, "i", v.width)
    x = v.bits & ((1 << n) - 1)
    return make(x - (1 << n) if x >> (n - 1) else x, "i", v.width)


def _mantissa(v: V) -> V:
    x = v.number
    return v if x == 0 else make(math.frexp(x)[0], "f", v.width)


def _exponent(v: V) -> V:
    """The pseudo-code's exponent(): denormals count on below 1."""
    return make(exponent(v), "i", 32)


FUNCTIONS: dict[str, Callable[..., V]] = {
    "fma": lambda a, b, c: V(fma_bits(a.number, b.number, c.number, a.width), "f", a.width),
    "abs": lambda v: V(v.bits & ~(1 << (v.width - 1)), v.kind, v.width),
    "sign": lambda v: V(v.bits >> (v.width - 1), "u", 1),
    "exponent": _exponent,
    "mantissa": _mantissa,
    "isNAN": lambda v: make(math.isnan(v.number), "u", 1),
    "isSignalNAN": lambda v: make(math.isnan(v.number) and not v.bits & _quiet_bit(v), "u", 1),
    "isQuietNAN": lambda v: make(math.isnan(v.number) and bool(v.bits & _quiet_bit(v)), "u", 1),
    "cvtToQuietNAN": lambda v: V(v.bits | _quiet_bit(v), "f", v.width),
    "ldexp": lambda v, e: _ldexp(v, e.number),
    "floor": _unary_float(_keep_zero(lambda x: float(math.floor(x)))),
    "trunc": _unary_float(_keep_zero(lambda x: float(math.trunc(x)))),
    "fract": _unary_float(lambda x: x - math.floor(x)),
    "isEven": lambda v: make(math.isfinite(v.number) and v.number % 2 == 0, "u", 1),
    "sqrt": lambda v: make(
        _sqrt(v.number) if not math.isinf(v.number) else (v.number if v.number > 0 else math.nan), "f", 64
    ),
    "log2": lambda v: make(_log2(v.number), "f", v.width),
    "pow": lambda a, b: make(a.number**b.number if b.number < 1100 else math.inf, "f", a.width),
    "sin": lambda v: make(math.sin(v.number) if math.isfinite(v.number) else math.nan, "f", v.width),
    "cos": lambda v: make(math.cos(v.number) if math.isfinite(v.number) else math.nan, "f", v.width),
    "signext": _signext,
    "signext_from_bit": _signext_from_bit,
    "fp8_to_f32": lambda v: _fp8(v, 3, 8),
    "bf8_to_f32": lambda v: _fp8(v, 2, 16),
    "f32_to_fp8": lambda v: _to_fp8(v, 3, 8),
    "f32_to_bf8": lambda v: _to_fp8(v, 2, 16),
    "ABSDIFF": lambda a, b: make(abs(a.number - b.number), "u", 32),
    "bitCount": lambda v: make(v.bits.bit_count(), "u", 32),
}
