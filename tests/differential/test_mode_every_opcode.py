"""Does every floating-point vector opcode round, flush and clamp its results as MODE says?

The opcodes that test_mode_register.py leaves out: integer operands and results, accumulating and packed forms, literal
constants, approximate functions. The oracle is exact rational arithmetic, as there.
"""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from alu_cases import EDGES_INT, usual_arch
from exact_floats import (
    F16,
    F32,
    F64,
    FORMATS,
    NAN,
    NEAREST,
    ZERO,
    FloatFormat,
    Mode,
    Real,
    add,
    decode,
    div,
    encode,
    finite,
    flush,
    mul,
    negate,
    order,
    read,
    write,
)
from mode_lanes import MODES, get_lanes, operand, register, same, set_lanes
from wave_helpers import LANES, Wave

from hipsynth.simulator.isa.table import load_rows

FIELDS = ("round_f32", "round_f16_f64", "denorm_f32", "denorm_f16_f64")
ROWS = {row.name: row for row in load_rows()}
SIGNED = {"i32": 32, "i16": 16, "exp": 32, "exp16": 16}
Source = FloatFormat | str
Value = Real | int


@dataclass(frozen=True)
class OpcodeCase:
    """`bits` gives the result from the sources, floats as numbers after input flushing and integers as they are.

    `result`: a float's format, or an integer's width. `literal`: number and bits of the source that is a constant.
    """

    name: str
    sources: tuple[Source, ...]
    result: FloatFormat | int
    bits: Callable[[list[Value], Mode], int]
    ulps: int = 0
    literal: tuple[int, int] | None = None
    accumulates: bool = False

    def text(self) -> str:
        width = self.result if isinstance(self.result, int) else self.result.width
        parts = [f"v[40:{39 + width // 32}]" if width > 32 else "v40"]
        for k, source in enumerate(self.sources):
            if self.literal and self.literal[0] == k:
                parts.append(hex(self.literal[1]))
            elif not (self.accumulates and k == len(self.sources) - 1):
                first = 4 * (k + 1)
                parts.append(register(first, source) if isinstance(source, FloatFormat) else f"v{first}")
        return f"{self.name} {', '.join(parts)}"


def integers(name: str, slot: int, kind: str) -> list[int]:
    rng = np.random.default_rng(zlib.crc32(f"{name}/{slot}/{kind}".encode()))
    if kind.startswith("exp"):  # exponents that keep many results in range, and some far outside
        small = [int(x) for x in rng.integers(-40, 41, LANES - 12)]
        far = [-2000, -1100, -1022, -300, -149, -126, 127, 128, 300, 1023, 2000, 40000]
        return [x & ((1 << SIGNED[kind]) - 1) for x in small + far]
    picked = [EDGES_INT[i] for i in rng.integers(0, len(EDGES_INT), 32)]
    return [*picked, *(int(x) for x in rng.integers(0, 1 << 32, LANES - 32))]


def number(bits: int, kind: str) -> int:
    width = 16 if kind.endswith("16") else 32
    low = bits & ((1 << width) - 1)
    return low - (1 << width) if kind in SIGNED and low >> (width - 1) else low


def run(case: OpcodeCase, mode: Mode) -> list[str]:
    w = Wave()
    lanes: list[list[int]] = []
    for k, source in enumerate(case.sources):
        if case.literal and case.literal[0] == k:
            lanes.append([case.literal[1]] * LANES)
            continue
        values = operand(case.name, k, source) if isinstance(source, FloatFormat) else integers(case.name, k, source)
        lanes.append(values)
        first = 40 if case.accumulates and k == len(case.sources) - 1 else 4 * (k + 1)
        set_lanes(w, first, values, source if isinstance(source, FloatFormat) else F32)
    fmt = case.result if isinstance(case.result, FloatFormat) else FloatFormat(case.result, 0, 0)
    got = get_lanes(w.run(case.text(), usual_arch(ROWS[case.name]), mode.bits), 40, fmt)
    bad = []
    for n in range(LANES):
        values = [row[n] for row in lanes]
        reals = [
            read(v & ((1 << s.width) - 1), s, mode) if isinstance(s, FloatFormat) else number(v, s)
            for v, s in zip(values, case.sources, strict=True)
        ]
        want = case.bits(reals, mode)
        right = got[n] == want if isinstance(case.result, int) else same(got[n], want, case.result, case.ulps)
        if not right:
            shown = ", ".join(hex(v) for v in values)
            bad.append(f"{case.text()} lane {n}: {shown} -> {got[n]:#x}, expected {want:#x}")
    return bad


def from_infinity(values: list[Value]) -> bool:
    return any(isinstance(v, Real) and v.kind == "inf" for v in values)


def real_case(
    name: str, sources: tuple[Source, ...], result: FloatFormat, exact: Callable[..., Real], ulps: int = 0,
    direction: int | None = None, literal: tuple[int, int] | None = None, accumulates: bool = False,
) -> OpcodeCase:  # fmt: skip
    """A result that is rounded once; `exact` takes the sources and the direction."""

    def bits(values: list[Value], mode: Mode) -> int:
        way = mode.rounding(result) if direction is None else direction
        return write(exact(*values, way), result, mode, way, from_infinity(values))

    return OpcodeCase(name, sources, result, bits, ulps, literal, accumulates)


def fused(a: Real, b: Real, c: Real, way: int) -> Real:
    return add(mul(a, b), c, way)


def flushed(x: Real) -> Real:
    return finite(Fraction(0), x.negative) if x.kind == "finite" and x.magnitude < F32.least_normal else x


def unfused(values: list[Value], mode: Mode) -> int:
    """v_mad_f32: two roundings, never a denormal."""
    a, b, c = (flushed(v) for v in values)  # type: ignore[arg-type]
    product = flushed(decode(encode(mul(a, b), F32, mode.round_f32), F32))
    return flush(encode(add(product, c, mode.round_f32), F32, mode.round_f32), F32)


def unfused_legacy(values: list[Value], mode: Mode) -> int:
    a, b, c = (flushed(v) for v in values)  # type: ignore[arg-type]
    if a.zero or b.zero:
        return flush(encode(add(finite(Fraction(0)), c, mode.round_f32), F32, mode.round_f32), F32)
    return unfused(values, mode)


def unfused_f16(values: list[Value], mode: Mode) -> int:
    a, b, c = values
    product = decode(encode(mul(a, b), F16, mode.round_f16_f64), F16)  # type: ignore[arg-type]
    way = mode.round_f16_f64
    return write(add(product, c, way), F16, mode, way, from_infinity(values))  # type: ignore[arg-type]


def scaled(x: Real, e: int) -> Real:
    if x.kind != "finite":
        return x
    return Real("finite", x.negative, x.magnitude * Fraction(2) ** max(-5000, min(5000, e)))


def parts(x: Real) -> tuple[Fraction, int]:
    """Mantissa in [1/2, 1) and exponent."""
    if x.zero or x.kind != "finite":
        return Fraction(0), 0
    e = x.magnitude.numerator.bit_length() - x.magnitude.denominator.bit_length()
    e += x.magnitude >= Fraction(2) ** e
    e -= x.magnitude < Fraction(2) ** (e - 1)
    return x.magnitude / Fraction(2) ** e, e


def mantissa(x: Real, _way: int) -> Real:
    return x if x.kind != "finite" or x.zero else Real("finite", x.negative, parts(x)[0])


def root(x: Real) -> Real:
    if x.kind != "finite" or x.zero or x.negative:
        return NAN if x.negative and not x.zero else x
    return finite(Fraction(math.isqrt(x.magnitude.numerator * 4**1300 // x.magnitude.denominator), 2**1300))


def inverse_root(x: Real, _way: int) -> Real:
    return div(finite(Fraction(1)), root(x))


def by_doubles(fn: Callable[[float], float]) -> Callable[[Real, int], Real]:
    """A function of the host's, in doubles: close enough for one unit in the last place of a float."""

    def exact(x: Real, _way: int = NEAREST) -> Real:
        if x.kind == "nan":
            return NAN
        v = fn((-math.inf if x.negative else math.inf) if x.kind == "inf" else float(x.value) * 1.0)
        if math.isnan(v):
            return NAN
        if math.isinf(v):
            return Real("inf", v < 0)
        return finite(Fraction(v), math.copysign(1, v) < 0)

    return exact


def exp2(v: float) -> float:
    return math.inf if v >= 1024 else 0.0 if v < -1100 else 2.0**v


def log2(v: float) -> float:
    return math.nan if v < 0 else -math.inf if v == 0 else math.log2(v) if v != math.inf else v


def approximate(fn: Callable[[float], float]) -> Callable[[Real, int], Real]:
    exact = by_doubles(fn)
    return lambda x, _way: flushed(exact(flushed(x)))


def turns(cosine: bool) -> Callable[[Real, int], Real]:
    """sin or cos of x turns; 0 and 1 far away."""

    def exact(x: Real, _way: int) -> Real:
        if x.kind != "finite":
            return NAN
        if x.magnitude > 256:
            return finite(Fraction(int(cosine)))
        if x.zero and not cosine:
            return x
        rest = x.value - round(x.value)
        quarter = round(rest * 4)
        t = float(rest - Fraction(quarter, 4)) * 2 * math.pi
        values = (math.sin(t), math.cos(t), -math.sin(t), -math.cos(t))
        return finite(Fraction(values[(quarter + int(cosine)) % 4]))

    return exact


def truncated(width: int, signed: bool, pick: Callable[[Fraction], int] = math.trunc) -> Callable[..., int]:
    low, high = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if signed else (0, (1 << width) - 1)

    def bits(values: list[Value], _mode: Mode) -> int:
        x = values[0]
        assert isinstance(x, Real)
        if x.kind == "nan":
            return 0
        v = (low if x.negative else high) if x.kind == "inf" else max(low, min(high, pick(x.value)))
        return v & ((1 << max(width, 16)) - 1)

    return bits


def fraction(fmt: FloatFormat) -> Callable[[Real, int], Real]:
    below_one = 1 - fmt.least / fmt.least_normal / 2

    def exact(x: Real, way: int) -> Real:
        if x.kind != "finite":
            return NAN
        rest = add(x, negate(finite(Fraction(math.floor(x.value)), x.negative)), way)
        return finite(below_one) if rest.value > below_one else rest

    return exact


def extreme(sign: int, fmt: FloatFormat) -> Callable[[int, int, Mode], int]:
    """Maximum or minimum of two bit patterns: a NaN loses, in IEEE mode a signalling one wins; -0 < +0."""
    quiet = 1 << (fmt.precision - 2)

    def of(a: int, b: int, mode: Mode) -> int:
        x, y = decode(a, fmt), decode(b, fmt)
        if mode.ieee and any(r.kind == "nan" and not v & quiet for r, v in ((x, a), (y, b))):
            return encode(NAN, fmt)
        if x.kind == "nan":
            return b
        if y.kind == "nan":
            return a
        by = order(x, y) or 0
        by = by or int(y.negative) - int(x.negative)
        return a if by * sign > 0 else b

    return of


def face(x: Real, y: Real, z: Real) -> int:
    """Face of a cube map: the axis of the largest magnitude, the later one among equals, and its sign."""

    def reaches(a: Real, b: Real) -> bool:
        return order(Real(a.kind, False, a.magnitude), Real(b.kind, False, b.magnitude)) in (0, 1)

    def below_zero(r: Real) -> bool:
        return order(r, finite(Fraction(0))) == -1

    if reaches(z, x) and reaches(z, y):
        return 4 + below_zero(z)
    return 2 + below_zero(y) if reaches(y, x) else int(below_zero(x))


def multiply_accumulate() -> list[OpcodeCase]:
    literal32, literal16 = 0x3FC00000, 0x3E00
    tiny32 = 0x00300001  # a denormal constant
    cases = [
        real_case("v_mul_legacy_f32", (F32, F32), F32,
                  lambda a, b, w: finite(Fraction(0)) if a.zero or b.zero else mul(a, b)),
        real_case("v_fmac_f32", (F32, F32, F32), F32, fused, accumulates=True),
        real_case("v_fmac_f64", (F64, F64, F64), F64, fused, accumulates=True),
        real_case("v_fmamk_f32", (F32, F32, F32), F32, fused, literal=(1, literal32)),
        real_case("v_fmaak_f32", (F32, F32, F32), F32, fused, literal=(2, tiny32)),
        real_case("v_fma_legacy_f16", (F16, F16, F16), F16, fused),
        real_case("v_pk_fmac_f16", (F16, F16, F16), F16, fused, accumulates=True),
        OpcodeCase("v_mad_f32", (F32, F32, F32), F32, unfused),
        OpcodeCase("v_mac_f32", (F32, F32, F32), F32, unfused, accumulates=True),
        OpcodeCase("v_madmk_f32", (F32, F32, F32), F32, unfused, literal=(1, literal32)),
        OpcodeCase("v_madak_f32", (F32, F32, F32), F32, unfused, literal=(2, tiny32)),
        OpcodeCase("v_mad_legacy_f32", (F32, F32, F32), F32, unfused_legacy),
        OpcodeCase("v_madmk_f16", (F16, F16, F16), F16, unfused_f16, literal=(1, literal16)),
        OpcodeCase("v_madak_f16", (F16, F16, F16), F16, unfused_f16, literal=(2, literal16)),
        OpcodeCase("v_mac_f16", (F16, F16, F16), F16, unfused_f16, accumulates=True),
        *(OpcodeCase(n, (F16, F16, F16), F16, unfused_f16) for n in ("v_mad_f16", "v_mad_legacy_f16")),
    ]  # fmt: skip
    return [case for case in cases if case.name in ROWS]


def functions() -> list[OpcodeCase]:
    return [
        *(real_case(f"v_exp{x}_f32", (F32,), F32, approximate(exp2), 1, NEAREST) for x in ("", "_legacy")),
        *(real_case(f"v_log{x}_f32", (F32,), F32, approximate(log2), 1, NEAREST) for x in ("", "_legacy")),
        real_case("v_rcp_iflag_f32", (F32,), F32,
                  lambda x, w: flushed(div(finite(Fraction(1)), flushed(x))), 1, NEAREST),
        *(real_case(f"v_{n}_f16", (F16,), F16, by_doubles(f), 1, NEAREST) for n, f in (("exp", exp2), ("log", log2))),
        real_case("v_rsq_f16", (F16,), F16, inverse_root, 1, NEAREST),
        real_case("v_rsq_f64", (F64,), F64, inverse_root, 1, NEAREST),
        real_case("v_sqrt_f64", (F64,), F64, lambda x, w: root(x), 1, NEAREST),
        *(real_case(f"v_{n}_{t}", (FORMATS[t],), FORMATS[t], turns(n == "cos"), 1, NEAREST)
          for n in ("sin", "cos") for t in ("f16", "f32")),
        *(real_case(f"v_ldexp_{t}", (FORMATS[t], "exp16" if t == "f16" else "exp"), FORMATS[t],
                    lambda x, e, w: scaled(x, e)) for t in FORMATS),
        *(real_case(f"v_frexp_mant_{t}", (FORMATS[t],), FORMATS[t], mantissa) for t in FORMATS),
        *(OpcodeCase(f"v_frexp_exp_i32_{t}", (FORMATS[t],), 32,
               lambda v, m: parts(v[0])[1] & 0xFFFFFFFF) for t in ("f32", "f64")),  # type: ignore[arg-type]
        OpcodeCase("v_frexp_exp_i16_f16", (F16,), 16, lambda v, m: parts(v[0])[1] & 0xFFFF),  # type: ignore[arg-type]
        real_case("v_fract_f16", (F16,), F16, fraction(F16)),
        real_case("v_cubema_f32", (F32, F32, F32), F32,
                  lambda x, y, z, w: scaled((x, x, y, y, z, z)[face(x, y, z)], 1)),
        real_case("v_cubeid_f32", (F32, F32, F32), F32, lambda x, y, z, w: finite(Fraction(face(x, y, z)))),
        real_case("v_cubesc_f32", (F32, F32, F32), F32,
                  lambda x, y, z, w: (negate(z), z, x, x, x, negate(x))[face(x, y, z)]),
        real_case("v_cubetc_f32", (F32, F32, F32), F32,
                  lambda x, y, z, w: (negate(y), negate(y), z, negate(z), negate(y), negate(y))[face(x, y, z)]),
    ]  # fmt: skip


def conversions() -> list[OpcodeCase]:
    up_half = Fraction(1, 2)
    return [
        *(real_case(f"v_cvt_{t}_{k}", (k,), FORMATS[t], lambda v, w: finite(Fraction(v)))
          for t, k in (("f32", "i32"), ("f32", "u32"), ("f64", "i32"), ("f64", "u32"), ("f16", "u16"), ("f16", "i16"))),
        *(real_case(f"v_cvt_f32_ubyte{k}", ("u32",), F32, lambda v, w, k=k: finite(Fraction(v >> 8 * k & 255)))
          for k in range(4)),
        real_case("v_cvt_off_f32_i4", ("u32",), F32, lambda v, w: finite(Fraction(((v & 15) ^ 8) - 8, 16))),
        *(OpcodeCase(f"v_cvt_{k}_{t}", (FORMATS[t],), int(k[1:]), truncated(int(k[1:]), k[0] == "i"))
          for k, t in (("i32", "f32"), ("u32", "f32"), ("i32", "f64"), ("u32", "f64"), ("i16", "f16"), ("u16", "f16"))),
        OpcodeCase("v_cvt_flr_i32_f32", (F32,), 32, truncated(32, True, math.floor)),
        OpcodeCase("v_cvt_rpi_i32_f32", (F32,), 32, truncated(32, True, lambda x: math.floor(x + up_half))),
        real_case("v_cvt_pkrtz_f16_f32", (F32, F32), F16, lambda x, y, w: x, direction=ZERO),
    ]  # fmt: skip


CASES = {case.name: case for case in [*multiply_accumulate(), *functions(), *conversions()]}


def compare(name: str, modes: list[Mode]) -> None:
    bad = [f"{mode}: {line}" for mode in modes for line in run(CASES[name], mode)]
    assert not bad, f"{len(bad)} differences, the first:\n" + "\n".join(bad[:4])


@pytest.mark.parametrize("name", CASES)
def test_results_round_and_flush(name: str) -> None:
    """Every direction and every denormal setting of either field."""
    some = [*MODES[::5], MODES[1]]
    assert all(len({getattr(m, f) for m in some}) == 4 for f in FIELDS)
    compare(name, some)


@pytest.mark.full
@pytest.mark.parametrize("name", CASES)
def test_results_round_and_flush_in_every_combination(name: str) -> None:
    compare(name, MODES)


@pytest.mark.parametrize("t", ["f16", "f32"])  # there are none of doubles
@pytest.mark.parametrize("name", ["min3", "max3", "med3"])
def test_min_max_and_median_of_three(name: str, t: str) -> None:
    full = f"v_{name}_{t}"
    fmt = FORMATS[t]
    values = [operand(full, k, fmt) for k in range(3)]
    w = Wave()
    for k, lanes in enumerate(values):
        set_lanes(w, 4 * (k + 1), lanes, fmt)
    text = f"{full} {register(40, fmt)}, " + ", ".join(register(4 * (k + 1), fmt) for k in range(3))
    low, high = extreme(-1, fmt), extreme(1, fmt)
    for mode in MODES:
        got = get_lanes(w.run(text, usual_arch(ROWS[full]), mode.bits), 40, fmt)
        for n in range(LANES):
            a, b, c = (v[n] if mode.keeps(fmt, False) else flush(v[n], fmt) for v in values)
            if name == "med3" and all(decode(x, fmt).kind != "nan" for x in (a, b, c)):  # as published
                most = decode(high(high(a, b, mode), c, mode), fmt)
                others = (b, c) if order(most, decode(a, fmt)) == 0 else (a, c)
                others = (a, b) if all(order(most, decode(x, fmt)) != 0 for x in (a, b)) else others
                want = high(*others, mode)
            else:
                pick = high if name == "max3" else low
                want = pick(pick(a, b, mode), c, mode)
            want = want if mode.keeps(fmt, True) else flush(want, fmt)
            assert same(got[n], want, fmt), (mode, [hex(x) for x in (a, b, c)], hex(got[n]), hex(want))


@pytest.mark.parametrize(("name", "exact"), [
    ("v_pk_mul_f32", lambda a, b, c, w: mul(a, b)),
    ("v_pk_add_f32", lambda a, b, c, w: add(a, b, w)),
    ("v_pk_fma_f32", fused),
])  # fmt: skip
def test_both_halves_of_packed_floats(name: str, exact: Callable[..., Real]) -> None:
    count = ROWS[name].sig.count("pk_f32") - 1
    values = [[operand(name, 2 * k + h, F32) for h in range(2)] for k in range(3)]
    w = Wave()
    for k, halves in enumerate(values):
        for h in range(2):
            w.v[4 * (k + 1) + h] = halves[h]
    text = f"{name} v[40:41], " + ", ".join(f"v[{4 * (k + 1)}:{4 * (k + 1) + 1}]" for k in range(count))
    for mode in MODES:
        after = w.run(text, mode=mode.bits)
        for h in range(2):
            for n in range(LANES):
                a, b, c = (read(values[k][h][n], F32, mode) for k in range(3))
                want = write(exact(a, b, c, mode.round_f32), F32, mode)
                assert same(int(after.v[40 + h][n]), want, F32), (mode, h, n)


COMPARE = {
    "f": lambda by: False, "lt": lambda by: by == -1, "eq": lambda by: by == 0, "le": lambda by: by in (-1, 0),
    "gt": lambda by: by == 1, "lg": lambda by: by in (-1, 1), "ge": lambda by: by in (0, 1),
    "o": lambda by: by is not None, "u": lambda by: by is None, "nge": lambda by: by not in (0, 1),
    "nlg": lambda by: by not in (-1, 1), "ngt": lambda by: by != 1, "nle": lambda by: by not in (-1, 0),
    "neq": lambda by: by != 0, "nlt": lambda by: by != -1, "tru": lambda by: True,
}  # fmt: skip


@pytest.mark.parametrize("t", FORMATS)
def test_every_compare_flushes_its_operands(t: str) -> None:
    fmt = FORMATS[t]
    x, y = operand(t, 5, fmt), operand(t, 6, fmt)
    w = Wave()
    set_lanes(w, 4, x, fmt), set_lanes(w, 8, y, fmt)
    a, b = register(4, fmt), register(8, fmt)
    for name, holds in COMPARE.items():
        for form in ("cmp", "cmpx"):
            for mode in MODES[::3]:
                after = w.run(f"v_{form}_{name}_{t} s[10:11], {a}, {b}", mode=mode.bits)
                want = sum(holds(order(read(x[n], fmt, mode), read(y[n], fmt, mode))) << n for n in range(LANES))
                assert after.pair(10) == want, (name, form, mode)
                assert form == "cmp" or after.exec == want


# Whose MODE behaviour stands in another test, or that MODE does not reach.
ELSEWHERE = re.compile(
    r"v_div_|v_trig_preop|v_dot2|v_fma_mix|v_cvt_f32_f64|v_cvt_.*(fp8|bf8)|v_pk_(min|max)_f16|v_(min|max)_f|v_cmp"
    r"|v_(pk_)?(minimum|maximum)3_|v_cvt_(pk|sr)_b?f16_f32|v_cvt_f32_bf16"  # test_cdna4_opcodes.py
)
# Rounding of these under other directions than to nearest is not published.
NEAREST_ONLY = re.compile(
    r"v_cvt_(pk)?norm_|v_cvt_pk_u8_f32|v_cvt_pkaccum_u8_f32|v_med3|v_min3|v_max3|v_pk_\w+_f32|v_cvt_scalef32_"
)


def test_no_float_opcode_is_left_out() -> None:
    from test_mode_register import CASES as THERE

    there = {re.sub("_(sdwa|dpp)$", "", name) for name in THERE}
    floats = [
        name
        for name, row in ROWS.items()
        if row.unit == "valu" and not row.mfma and re.search(r":(pk_)?(f16s?|f32|f64|mix)\b", row.sig)
    ]
    known = there | set(CASES)
    assert [n for n in floats if n not in known and not ELSEWHERE.match(n) and not NEAREST_ONLY.match(n)] == []
