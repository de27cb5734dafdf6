"""Floats as exact rational numbers, rounded and flushed as the MODE register says: an oracle that shares no arithmetic
with the simulator. Sources: IEEE 754-2008; CDNA3 ISA, section 3.5 (MODE) and 6.2.3 (output modifiers)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

NEAREST, UP, DOWN, ZERO = range(4)


@dataclass(frozen=True)
class FloatFormat:
    width: int
    precision: int  # significant bits, the hidden one included
    bias: int

    @property
    def infinity(self) -> int:
        return (2 * self.bias + 1) << (self.precision - 1)

    @property
    def sign_bit(self) -> int:
        return 1 << (self.width - 1)

    @property
    def least(self) -> Fraction:
        return Fraction(2) ** (2 - self.bias - self.precision)

    @property
    def least_normal(self) -> Fraction:
        return Fraction(2) ** (1 - self.bias)


F16, F32, F64 = FloatFormat(16, 11, 15), FloatFormat(32, 24, 127), FloatFormat(64, 53, 1023)
FORMATS = {"f16": F16, "f32": F32, "f64": F64}


@dataclass(frozen=True)
class Real:
    """kind: finite, inf or nan. A finite value is (-1)**negative * magnitude."""

    kind: str
    negative: bool = False
    magnitude: Fraction = Fraction(0)

    @property
    def zero(self) -> bool:
        return self.kind == "finite" and self.magnitude == 0

    @property
    def value(self) -> Fraction:
        return -self.magnitude if self.negative else self.magnitude


NAN = Real("nan")


def infinite(negative: bool) -> Real:
    return Real("inf", negative)


def finite(value: Fraction, negative_zero: bool = False) -> Real:
    return Real("finite", value < 0 or (value == 0 and negative_zero), abs(value))


def decode(bits: int, fmt: FloatFormat) -> Real:
    negative, rest = bool(bits & fmt.sign_bit), bits & (fmt.sign_bit - 1)
    if rest >= fmt.infinity:
        return infinite(negative) if rest == fmt.infinity else NAN
    field, fraction = rest >> (fmt.precision - 1), rest & ((1 << (fmt.precision - 1)) - 1)
    if field == 0:
        return Real("finite", negative, fraction * fmt.least)
    return Real("finite", negative, (fraction + (1 << (fmt.precision - 1))) * fmt.least * (1 << (field - 1)))


def encode(x: Real, fmt: FloatFormat, direction: int = NEAREST) -> int:
    """Bits of `x` in `fmt`; a NaN is the quiet one."""
    sign = fmt.sign_bit if x.negative else 0
    if x.kind == "nan":
        return fmt.infinity | 1 << (fmt.precision - 2)
    if x.kind == "inf":
        return sign | fmt.infinity
    if x.magnitude == 0:
        return sign
    unit = fmt.least
    top = x.magnitude / unit / (1 << (fmt.precision - 1))
    shift = max(0, (top.numerator // top.denominator).bit_length() - 1)
    units = x.magnitude / (unit * (1 << shift))
    whole = units.numerator // units.denominator
    rest = units - whole
    away = direction == (DOWN if x.negative else UP)
    if direction == NEAREST:
        whole += rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole & 1)
    elif away and rest:
        whole += 1
    if whole == 1 << fmt.precision:
        whole, shift = whole >> 1, shift + 1
    bits = whole if whole < 1 << (fmt.precision - 1) else (shift << (fmt.precision - 1)) + whole
    if bits >= fmt.infinity:
        bits = fmt.infinity if direction == NEAREST or away else fmt.infinity - 1
    return sign | bits


@dataclass(frozen=True)
class Mode:
    """The MODE register's fields; `bits` is its value."""

    round_f32: int = NEAREST
    round_f16_f64: int = NEAREST
    denorm_f32: int = 3
    denorm_f16_f64: int = 3
    dx10_clamp: bool = True
    ieee: bool = True
    fp16_ovfl: bool = False

    @property
    def bits(self) -> int:
        low = self.round_f32 | self.round_f16_f64 << 2 | self.denorm_f32 << 4 | self.denorm_f16_f64 << 6
        return low | self.dx10_clamp << 8 | self.ieee << 9 | self.fp16_ovfl << 23

    def rounding(self, fmt: FloatFormat) -> int:
        return self.round_f32 if fmt is F32 else self.round_f16_f64

    def keeps(self, fmt: FloatFormat, output: bool) -> bool:
        return bool((self.denorm_f32 if fmt is F32 else self.denorm_f16_f64) >> output & 1)


def flush(bits: int, fmt: FloatFormat) -> int:
    return bits if bits & fmt.infinity else bits & fmt.sign_bit


def read(bits: int, fmt: FloatFormat, mode: Mode) -> Real:
    """A source operand."""
    return decode(bits if mode.keeps(fmt, False) else flush(bits, fmt), fmt)


def write(x: Real, fmt: FloatFormat, mode: Mode, direction: int | None = None, exact_infinity: bool = True) -> int:
    """A result; `exact_infinity`: an infinite `x` comes from an infinite source, not from overflow."""
    bits = encode(x, fmt, mode.rounding(fmt) if direction is None else direction)
    overflow = bits & (fmt.sign_bit - 1) == fmt.infinity and not (x.kind == "inf" and exact_infinity)
    if overflow and fmt is F16 and mode.fp16_ovfl:
        bits -= 1
    return bits if mode.keeps(fmt, True) else flush(bits, fmt)


def add(a: Real, b: Real, direction: int) -> Real:
    """The exact sum; a sum of zero that is not of two equal signs is negative only when rounding down."""
    if "nan" in (a.kind, b.kind) or (a.kind == b.kind == "inf" and a.negative != b.negative):
        return NAN
    if a.kind == "inf" or b.kind == "inf":
        return a if a.kind == "inf" else b
    negative_zero = a.negative if a.zero and b.zero and a.negative == b.negative else direction == DOWN
    return finite(a.value + b.value, negative_zero)


def mul(a: Real, b: Real) -> Real:
    negative = a.negative != b.negative
    if "nan" in (a.kind, b.kind) or (a.kind == "inf" and b.zero) or (a.zero and b.kind == "inf"):
        return NAN
    if a.kind == "inf" or b.kind == "inf":
        return infinite(negative)
    return Real("finite", negative, a.magnitude * b.magnitude)


def negate(a: Real) -> Real:
    return Real(a.kind, not a.negative, a.magnitude)


def div(a: Real, b: Real) -> Real:
    """The exact quotient, with IEEE's special cases."""
    negative = a.negative != b.negative
    if "nan" in (a.kind, b.kind) or (a.kind == b.kind == "inf") or (a.zero and b.zero):
        return NAN
    if a.kind == "inf" or b.zero:
        return infinite(negative)
    if b.kind == "inf":
        return Real("finite", negative)
    return Real("finite", negative, a.magnitude / b.magnitude)


def order(a: Real, b: Real) -> int | None:
    """-1, 0 or 1; None when a NaN takes part. Zeros are equal."""
    if "nan" in (a.kind, b.kind):
        return None
    x, y = ((r.negative is False) - r.negative if r.kind == "inf" else 0 for r in (a, b))
    if x or y:
        return (x > y) - (x < y)
    return (a.value > b.value) - (a.value < b.value)
