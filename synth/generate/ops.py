"""The operations of the kernel language: each table row gives types, C++ form, numpy semantics and value range.

Ranges are intervals (lo, hi). An operation whose precondition fails (a divisor that may be zero, a logarithm near
its zero, a signed overflow) raises IRError when the expression is built, so no program can contain it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from hipsynth.synth.generate.types import F16, F32, F64, Array, DType, IRError

Span = tuple[float, float]
Evaluate = Callable[..., Array]

COMMA, OR, AND, BITOR, XOR, BITAND, EQUAL, ORDER, SHIFT, SUM, PRODUCT, UNARY, ATOM = range(13)


@dataclass(frozen=True, slots=True)
class Op:
    """One operation. `kinds`: allowed operand kinds. `form`: C++ text with {0} {1} {2}, or a dict of it by type name.

    `precedence` is that of the whole form and decides where operands of infix forms get parentheses. `evaluate`
    computes it on numpy arrays; `wide` means in float64 with one rounding, so results do not depend on the host's
    libm. `span` maps operand ranges to the result's range or raises IRError.
    """

    name: str
    kinds: str
    form: str | dict[str, str]
    precedence: int
    evaluate: Evaluate
    span: Callable[..., Span]
    wide: bool = False
    boolean: bool = False

    def text(self, dtype: DType) -> str:
        """The C++ form for operands of `dtype`; raises IRError if the operation is not defined for it."""
        if isinstance(self.form, str):
            return self.form
        if dtype.name not in self.form:
            raise IRError(f"{self.name} is not defined for {dtype.cpp}")
        return self.form[dtype.name]


def _span_of_corners(function: Callable[[float, float], float]) -> Callable[[Span, Span], Span]:
    def span(a: Span, b: Span) -> Span:
        values = [function(x, y) for x in a for y in b]
        return min(values), max(values)

    return span


def _span_of_rising(
    function: Callable[[float], float], lo: float = -math.inf, hi: float = math.inf
) -> Callable[[Span], Span]:
    """The range of an increasing function that is defined (or well conditioned) only for arguments in [lo, hi]."""

    def span(a: Span) -> Span:
        _require_range(lo <= a[0] and a[1] <= hi, f"argument in [{a[0]:g}, {a[1]:g}], allowed [{lo:g}, {hi:g}]")
        return function(a[0]), function(a[1])

    return span


def _span_of_falling(function: Callable[[float], float], lo: float, hi: float) -> Callable[[Span], Span]:
    def span(a: Span) -> Span:
        low, high = _span_of_rising(function, lo, hi)(a)
        return high, low

    return span


def _require_range(condition: bool, message: str) -> None:
    if not condition:
        raise IRError(message)


def _divide_span(a: Span, b: Span) -> Span:
    _require_range(b[0] > 0, f"divisor in [{b[0]:g}, {b[1]:g}] may not be positive")
    if isinstance(a[0], int) and isinstance(b[0], int):
        _require_range(a[0] >= 0, "integer division of a possibly negative number")
        return a[0] // int(b[1]), int(a[1]) // b[0]
    return _span_of_corners(lambda x, y: x / y)(a, b)


def _modulo_span(a: Span, b: Span) -> Span:
    _require_range(b[0] > 0 and a[0] >= 0, "remainder needs a non-negative and a positive operand")
    return (a[0], a[1]) if a[1] < b[0] else (0, min(a[1], b[1] - 1))


def _bits_needed(*spans: Span) -> int:
    _require_range(all(s[0] >= 0 for s in spans), "bitwise operation on a possibly negative number")
    return max(int(s[1]) for s in spans).bit_length()


def _and_span(a: Span, b: Span) -> Span:
    _bits_needed(a, b)
    return 0, min(a[1], b[1])


def _or_span(a: Span, b: Span) -> Span:
    return max(a[0], b[0]), (1 << _bits_needed(a, b)) - 1


def _xor_span(a: Span, b: Span) -> Span:
    return 0, (1 << _bits_needed(a, b)) - 1


def _left_span(a: Span, b: Span) -> Span:
    _require_range(a[0] >= 0 and b[0] >= 0 and b[1] < 32, "shift by a bad amount or of a negative number")
    return int(a[0]) << int(b[0]), int(a[1]) << int(b[1])


def _right_span(a: Span, b: Span) -> Span:
    _require_range(a[0] >= 0 and b[0] >= 0 and b[1] < 32, "shift by a bad amount or of a negative number")
    return int(a[0]) >> int(b[1]), int(a[1]) >> int(b[0])


def _fma_span(a: Span, b: Span, c: Span) -> Span:
    low, high = _span_of_corners(lambda x, y: x * y)(a, b)
    return low + c[0], high + c[1]


def _select_span(_: Span, a: Span, b: Span) -> Span:
    return min(a[0], b[0]), max(a[1], b[1])


def _abs_span(a: Span) -> Span:
    return (a[0], a[1]) if a[0] >= 0 else (0 if a[1] >= 0 else -a[1], max(-a[0], a[1]))


def _fma(a: Array, b: Array, c: Array) -> Array:
    """a * b + c; the product is exact for float32. float64 rounds twice, which the tolerance covers."""
    if np.asarray(a).dtype == np.float32:
        return (np.asarray(a, np.float64) * b + c).astype(np.float32)
    return a * b + c


def _rotate_left(a: Array, b: Array) -> Array:
    rotated: Array = (a << b) | (a >> ((32 - b) & 31))
    return rotated


def _popcount(a: Array) -> Array:
    return np.bitwise_count(a).astype(np.asarray(a).dtype)


def _mulhi(a: Array, b: Array) -> Array:
    return ((np.asarray(a, np.uint64) * np.asarray(b, np.uint64)) >> np.uint64(32)).astype(np.uint32)


def _clz(a: Array) -> Array:
    """Leading zeros of 32 bits: the exponent of a float64 is exact for them."""
    return (np.uint32(32) - np.frexp(np.asarray(a, np.float64))[1].astype(np.uint32)).astype(np.uint32)


def _ffs(a: Array) -> Array:
    """One more than the position of the lowest set bit; 0 for 0."""
    low = np.asarray(a) & (~np.asarray(a) + np.uint32(1))
    return np.frexp(np.asarray(low, np.float64))[1].astype(np.uint32)


def _reverse_bits(a: Array) -> Array:
    x = np.asarray(a, np.uint32)
    for shift, mask in ((1, 0x55555555), (2, 0x33333333), (4, 0x0F0F0F0F), (8, 0x00FF00FF), (16, 0x0000FFFF)):
        x = ((x >> np.uint32(shift)) & np.uint32(mask)) | ((x & np.uint32(mask)) << np.uint32(shift))
    return x


def _low24(a: Array) -> Array:
    return np.asarray(a, np.uint32) & np.uint32(0xFFFFFF)


def _dot4(a: Array, b: Array, c: Array) -> Array:
    """The products of the four bytes, added to c."""
    total = np.asarray(c, np.uint32)
    for shift in (0, 8, 16, 24):
        left, other = ((np.asarray(x, np.uint32) >> np.uint32(shift)) & np.uint32(0xFF) for x in (a, b))
        total = total + left * other
    return total


def _absolute_difference(a: Array, b: Array) -> Array:
    return np.maximum(a, b) - np.minimum(a, b)


def _u32(*_: Span) -> Span:
    return 0, 2**32 - 1


_erf = np.frompyfunc(math.erf, 1, 1)


def _float_form(name: str, operands: int = 1) -> dict[str, str]:
    form = f"({', '.join(f'{{{n}}}' for n in range(operands))})"
    return {F32.name: name + "f" + form, F64.name: name + form}


def _power_span(a: Span, b: Span) -> Span:
    _require_range(a[0] >= 0.25 and b[0] >= 0 and a[1] ** b[1] < 1e6, "power of a badly conditioned number")
    return min(a[0] ** x for x in b), max(a[1] ** x for x in b)


def _min_max_forms(name: str) -> dict[str, str]:
    """The forms of min or max: C's fminf/fmin for floats, HIP's integer overloads, a conditional for half."""
    pair = "({0}, {1})"
    table = {F32.name: "f" + name + "f" + pair, F64.name: "f" + name + pair}
    compare = "<" if name == "min" else ">"
    table[F16.name] = "({0} " + compare + " {1} ? {0} : {1})"
    table |= dict.fromkeys(("u8", "u16"), table[F16.name])
    return table | dict.fromkeys(("i32", "u32", "i64", "u64"), name + pair)


_ROWS = (
    Op("add", "fiu", "{0} + {1}", SUM, lambda a, b: a + b, lambda a, b: (a[0] + b[0], a[1] + b[1])),
    Op("sub", "fiu", "{0} - {1}", SUM, lambda a, b: a - b, lambda a, b: (a[0] - b[1], a[1] - b[0])),
    Op("mul", "fiu", "{0} * {1}", PRODUCT, lambda a, b: a * b, _span_of_corners(lambda x, y: x * y)),
    Op("div", "f", "{0} / {1}", PRODUCT, lambda a, b: a / b, _divide_span),
    Op("idiv", "iu", "{0} / {1}", PRODUCT, lambda a, b: a // b, _divide_span),
    Op("mod", "iu", "{0} % {1}", PRODUCT, lambda a, b: a % b, _modulo_span),
    Op("and", "iu", "{0} & {1}", BITAND, lambda a, b: a & b, _and_span),
    Op("or", "iu", "{0} | {1}", BITOR, lambda a, b: a | b, _or_span),
    Op("xor", "iu", "{0} ^ {1}", XOR, lambda a, b: a ^ b, _xor_span),
    Op("shl", "iu", "{0} << {1}", SHIFT, lambda a, b: a << b, _left_span),
    Op("shr", "iu", "{0} >> {1}", SHIFT, lambda a, b: a >> b, _right_span),
    Op(
        "rotl", "u", {"u32": "__builtin_rotateleft32({0}, {1})"}, ATOM, _rotate_left, lambda a, b: (0, 2**32 - 1)
    ),
    Op("mulhi", "u", {"u32": "__umulhi({0}, {1})"}, ATOM, _mulhi,
       lambda a, b: (int(a[0]) * int(b[0]) >> 32, int(a[1]) * int(b[1]) >> 32)),
    Op("popc", "u", {"u32": "__popc({0})"}, ATOM, _popcount, lambda a: (0, 32)),
    Op("clz", "u", {"u32": "static_cast<unsigned int>(__clz({0}))"}, ATOM, _clz, lambda a: (0, 32)),
    Op("ffs", "u", {"u32": "static_cast<unsigned int>(__ffs({0}))"}, ATOM, _ffs, lambda a: (0, 32)),
    Op("brev", "u", {"u32": "__brev({0})"}, ATOM, _reverse_bits, _u32),
    Op("mul24", "u", {"u32": "__umul24({0}, {1})"}, ATOM, lambda a, b: _low24(a) * _low24(b), _u32),
    Op("dot4", "u", {"u32": "__builtin_amdgcn_udot4({0}, {1}, {2}, false)"}, ATOM, _dot4, _u32),
    Op("sad", "u", {"u32": "__usad({0}, {1}, {2})"}, ATOM, lambda a, b, c: _absolute_difference(a, b) + c, _u32),
    Op("not", "u", {"u32": "~{0}", "u64": "~{0}"}, UNARY, lambda a: ~np.asarray(a),
       lambda a: (0, 2**64 - 1)),
    Op("min", "fiu", _min_max_forms("min"), ATOM, np.minimum, lambda a, b: (min(a[0], b[0]), min(a[1], b[1]))),
    Op("max", "fiu", _min_max_forms("max"), ATOM, np.maximum, lambda a, b: (max(a[0], b[0]), max(a[1], b[1]))),
    Op("neg", "f", "-{0}", UNARY, lambda a: -a, lambda a: (-a[1], -a[0])),
    Op("abs", "f", _float_form("fabs"), ATOM, np.abs, _abs_span),
    Op("fma", "f", {"f32": "fmaf({0}, {1}, {2})", "f64": "fma({0}, {1}, {2})", "f16": "({0} * {1} + {2})"}, ATOM,
       _fma, _fma_span),
    Op("sqrt", "f", _float_form("sqrt"), ATOM, np.sqrt, _span_of_rising(math.sqrt, 0.0), wide=True),
    Op("rsqrt", "f", _float_form("rsqrt"), ATOM, lambda a: 1 / np.sqrt(a),
       _span_of_falling(lambda x: x**-0.5, 1e-6, 1e6), wide=True),
    Op("exp", "f", _float_form("exp"), ATOM, np.exp, _span_of_rising(math.exp, -4, 4), wide=True),
    Op("exp2", "f", _float_form("exp2"), ATOM, np.exp2, _span_of_rising(lambda x: 2.0**x, -4, 4), wide=True),
    Op("log", "f", _float_form("log"), ATOM, np.log, _span_of_rising(math.log, 1.5, 1e6), wide=True),
    Op("log2", "f", _float_form("log2"), ATOM, np.log2, _span_of_rising(math.log2, 1.5, 1e6), wide=True),
    Op("sin", "f", _float_form("sin"), ATOM, np.sin, _span_of_rising(math.sin, 0.2, 1.5), wide=True),
    Op("cos", "f", _float_form("cos"), ATOM, np.cos, _span_of_falling(math.cos, 0, 1.25), wide=True),
    Op("tanh", "f", _float_form("tanh"), ATOM, np.tanh, _span_of_rising(math.tanh, 0.2, 4), wide=True),
    Op("atan", "f", _float_form("atan"), ATOM, np.arctan, _span_of_rising(math.atan, 0.1, 1e4), wide=True),
    Op("erf", "f", _float_form("erf"), ATOM, lambda a: np.asarray(_erf(a), np.float64),
       _span_of_rising(math.erf, 0.2, 3), wide=True),
    Op("cbrt", "f", _float_form("cbrt"), ATOM, np.cbrt, _span_of_rising(math.cbrt, 1e-3, 1e6), wide=True),
    Op("pow", "f", _float_form("pow", 2), ATOM, np.power, _power_span, wide=True),
    Op("hypot", "f", _float_form("hypot", 2), ATOM, np.hypot,
       lambda a, b: (math.hypot(max(a[0], 0), max(b[0], 0)), math.hypot(a[1], b[1])), wide=True),
    Op("exp10", "f", _float_form("exp10"), ATOM, lambda a: 10.0**a,
       _span_of_rising(lambda x: 10.0**x, -3, 3), wide=True),
    Op("log10", "f", _float_form("log10"), ATOM, np.log10, _span_of_rising(math.log10, 1.5, 1e6), wide=True),
    Op("log1p", "f", _float_form("log1p"), ATOM, np.log1p, _span_of_rising(math.log1p, 0.5, 1e6), wide=True),
    Op("expm1", "f", _float_form("expm1"), ATOM, np.expm1, _span_of_rising(math.expm1, 0.25, 4), wide=True),
    Op("sinh", "f", _float_form("sinh"), ATOM, np.sinh, _span_of_rising(math.sinh, 0.25, 3), wide=True),
    Op("cosh", "f", _float_form("cosh"), ATOM, np.cosh, _span_of_rising(math.cosh, 0.25, 3), wide=True),
    Op("asin", "f", _float_form("asin"), ATOM, np.arcsin, _span_of_rising(math.asin, 0.1, 0.75), wide=True),
    # Not continuous: only for values that host and device know exactly.
    Op("floor", "f", _float_form("floor"), ATOM, np.floor, _span_of_rising(lambda x: float(math.floor(x)))),
    Op("ceil", "f", _float_form("ceil"), ATOM, np.ceil, _span_of_rising(lambda x: float(math.ceil(x)))),
    Op("trunc", "f", _float_form("trunc"), ATOM, np.trunc, _span_of_rising(lambda x: float(math.trunc(x)))),
    Op("rint", "f", _float_form("rint"), ATOM, np.rint, _span_of_rising(lambda x: float(round(x)))),
    Op("isnan", "f", {"f32": "isnan({0})", "f64": "isnan({0})"}, ATOM, np.isnan, lambda a: (0, 1), boolean=True),
    Op("isfinite", "f", {"f32": "isfinite({0})", "f64": "isfinite({0})"}, ATOM, np.isfinite, lambda a: (0, 1),
       boolean=True),
    Op("fast_exp", "f", {"f32": "__expf({0})"}, ATOM, np.exp, _span_of_rising(math.exp, -4, 4), wide=True),
    Op("fast_log", "f", {"f32": "__logf({0})"}, ATOM, np.log, _span_of_rising(math.log, 1.5, 1e6), wide=True),
    Op("fast_sin", "f", {"f32": "__sinf({0})"}, ATOM, np.sin, _span_of_rising(math.sin, 0.2, 1.5), wide=True),
    Op("fast_cos", "f", {"f32": "__cosf({0})"}, ATOM, np.cos, _span_of_falling(math.cos, 0, 1.25), wide=True),
    Op("lt", "fiu", "{0} < {1}", ORDER, lambda a, b: a < b, lambda a, b: (0, 1), boolean=True),
    Op("le", "fiu", "{0} <= {1}", ORDER, lambda a, b: a <= b, lambda a, b: (0, 1), boolean=True),
    Op("gt", "fiu", "{0} > {1}", ORDER, lambda a, b: a > b, lambda a, b: (0, 1), boolean=True),
    Op("ge", "fiu", "{0} >= {1}", ORDER, lambda a, b: a >= b, lambda a, b: (0, 1), boolean=True),
    Op("eq", "iu", "{0} == {1}", EQUAL, lambda a, b: a == b, lambda a, b: (0, 1), boolean=True),
    Op("ne", "iu", "{0} != {1}", EQUAL, lambda a, b: a != b, lambda a, b: (0, 1), boolean=True),
    Op("land", "b", "{0} && {1}", AND, np.logical_and, lambda a, b: (0, 1), boolean=True),
    Op("lor", "b", "{0} || {1}", OR, np.logical_or, lambda a, b: (0, 1), boolean=True),
    Op("select", "fiu", "({0} ? {1} : {2})", ATOM, np.where, _select_span),
)  # fmt: skip
OPS = {row.name: row for row in _ROWS}
SYMMETRIC = frozenset({"add", "mul", "and", "or", "xor", "land", "lor"})  # associative: printed without parentheses
