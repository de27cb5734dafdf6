"""Do float instructions round, flush and clamp as the MODE register says?

Compared with exact rational arithmetic, for every rounding direction and denormal setting; f32 and f16/f64 never have
the same direction.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest
from exact_floats import (
    F16,
    F32,
    F64,
    FORMATS,
    NAN,
    NEAREST,
    FloatFormat,
    Mode,
    Real,
    add,
    decode,
    div,
    encode,
    finite,
    flush,
    infinite,
    mul,
    negate,
    order,
    read,
    write,
)
from mode_lanes import MODES, get_lanes, operand, register, same, set_lanes
from wave_helpers import LANES, Wave

Exact = Callable[[list[Real], Mode], Real]


@dataclass(frozen=True)
class FloatCase:
    """An instruction of float sources and one float result; `fixed`: a rounding direction that MODE does not change."""

    name: str
    sources: tuple[FloatFormat, ...]
    result: FloatFormat
    exact: Exact
    ulps: int = 0
    fixed: int | None = None
    arch: str = "gfx942"
    modifiers: str = ""

    def text(self) -> str:
        registers = [register(40, self.result)] + [register(4 * (k + 1), f) for k, f in enumerate(self.sources)]
        return f"{self.name} {', '.join(registers)}{self.modifiers}"


def run(case: FloatCase, mode: Mode) -> list[str]:
    values = [operand(case.name, k, f) for k, f in enumerate(case.sources)]
    w = Wave()
    for k, (lanes, fmt) in enumerate(zip(values, case.sources, strict=True)):
        set_lanes(w, 4 * (k + 1), lanes, fmt)
    got = get_lanes(w.run(case.text(), case.arch, mode.bits), 40, case.result)
    bad = []
    direction = mode.rounding(case.result) if case.fixed is None else case.fixed
    for n in range(LANES):
        reals = [read(v[n], f, mode) for v, f in zip(values, case.sources, strict=True)]
        outside = any(r.kind == "inf" for r in reals)
        result = case.exact(reals, mode)
        divides = case.name.startswith(("v_rcp", "v_rsq")) and reals[0].zero
        want = write(result, case.result, mode, direction, outside or divides)
        if not same(got[n], want, case.result, case.ulps):
            shown = ", ".join(hex(v[n]) for v in values)
            bad.append(f"{case.text()} lane {n}: {shown} -> {got[n]:#x}, expected {want:#x}")
    return bad


def fma(r: list[Real], m: Mode, fmt: FloatFormat) -> Real:
    return add(mul(r[0], r[1]), r[2], m.rounding(fmt))


def arithmetic(t: str) -> list[FloatCase]:
    fmt = FORMATS[t]
    two, three = (fmt, fmt), (fmt, fmt, fmt)
    cases = [
        FloatCase(f"v_add_{t}", two, fmt, lambda r, m: add(r[0], r[1], m.rounding(fmt))),
        FloatCase(f"v_mul_{t}", two, fmt, lambda r, m: mul(r[0], r[1])),
        FloatCase(f"v_fma_{t}", three, fmt, lambda r, m: fma(r, m, fmt)),
    ]
    if t != "f64":
        cases += [
            FloatCase(f"v_sub_{t}", two, fmt, lambda r, m: add(r[0], negate(r[1]), m.rounding(fmt))),
            FloatCase(f"v_subrev_{t}", two, fmt, lambda r, m: add(r[1], negate(r[0]), m.rounding(fmt))),
        ]
    return cases


def whole(x: Real, pick: Callable[[Fraction], int]) -> Real:
    return x if x.kind != "finite" else finite(Fraction(pick(x.value)), x.negative)


def fraction(x: Real, fmt: FloatFormat, mode: Mode) -> Real:
    """x - floor(x), below one."""
    if x.kind != "finite":
        return NAN
    rest = add(x, negate(whole(x, math.floor)), mode.rounding(fmt))
    below_one = 1 - fmt.least / fmt.least_normal / 2
    return finite(below_one) if rest.value > below_one else rest


def root(x: Real) -> Real:
    """Close enough to the square root for one unit in the last place."""
    if x.kind != "finite" or x.zero or x.negative:
        return NAN if x.negative and not x.zero else x
    scale = 200
    shifted = x.magnitude * 4**scale
    return finite(Fraction(math.isqrt(shifted.numerator * 4**60 // shifted.denominator), 2 ** (scale + 60)))


def rounding_functions(t: str) -> list[FloatCase]:
    fmt = FORMATS[t]
    one = (fmt,)
    return [
        FloatCase(f"v_floor_{t}", one, fmt, lambda r, m: whole(r[0], math.floor)),
        FloatCase(f"v_ceil_{t}", one, fmt, lambda r, m: whole(r[0], math.ceil)),
        FloatCase(f"v_trunc_{t}", one, fmt, lambda r, m: whole(r[0], math.trunc)),
        FloatCase(f"v_rndne_{t}", one, fmt, lambda r, m: whole(r[0], round)),
    ]


def flushed(x: Real) -> Real:
    """Approximate f32 functions take denormals for zeros and give none, whatever MODE says."""
    return finite(Fraction(0), x.negative) if x.kind == "finite" and x.magnitude < F32.least_normal else x


def reciprocal(x: Real) -> Real:
    return div(finite(Fraction(1)), x)


APPROXIMATE = [
    FloatCase("v_rcp_f32", (F32,), F32, lambda r, m: flushed(reciprocal(flushed(r[0]))), 1, NEAREST),
    FloatCase("v_sqrt_f32", (F32,), F32, lambda r, m: root(flushed(r[0])), 1, NEAREST),
    FloatCase("v_rsq_f32", (F32,), F32, lambda r, m: reciprocal(root(flushed(r[0]))), 1, NEAREST),
    FloatCase("v_rcp_f16", (F16,), F16, lambda r, m: reciprocal(r[0]), 1, NEAREST),
    FloatCase("v_sqrt_f16", (F16,), F16, lambda r, m: root(r[0]), 1, NEAREST),
    FloatCase("v_rcp_f64", (F64,), F64, lambda r, m: reciprocal(r[0]), 1, NEAREST),
]
CONVERSIONS = [
    FloatCase("v_cvt_f16_f32", (F32,), F16, lambda r, m: r[0]),
    FloatCase("v_cvt_f32_f16", (F16,), F32, lambda r, m: r[0]),
    FloatCase("v_cvt_f64_f32", (F32,), F64, lambda r, m: r[0]),
    FloatCase("v_fract_f32", (F32,), F32, lambda r, m: fraction(r[0], F32, m)),
    FloatCase("v_fract_f64", (F64,), F64, lambda r, m: fraction(r[0], F64, m)),
]
SDWA = " dst_sel:DWORD dst_unused:UNUSED_PAD"
DPP = " quad_perm:[0,1,2,3] row_mask:0xf bank_mask:0xf"
FORMS = [
    FloatCase(
        "v_add_f16_sdwa",
        (F16, F16),
        F16,
        lambda r, m: add(r[0], r[1], m.rounding(F16)),
        modifiers=f"{SDWA} src0_sel:WORD_0 src1_sel:WORD_0",
    ),
    FloatCase(
        "v_mul_f32_sdwa",
        (F32, F32),
        F32,
        lambda r, m: mul(r[0], r[1]),
        modifiers=f"{SDWA} src0_sel:DWORD src1_sel:DWORD",
    ),
    FloatCase("v_mul_f32_dpp", (F32, F32), F32, lambda r, m: mul(r[0], r[1]), modifiers=DPP),
    FloatCase("v_pk_add_f16", (F16, F16), F16, lambda r, m: add(r[0], r[1], m.rounding(F16))),
    FloatCase("v_pk_mul_f16", (F16, F16), F16, lambda r, m: mul(r[0], r[1])),
    FloatCase("v_pk_fma_f16", (F16, F16, F16), F16, lambda r, m: fma(r, m, F16)),
]
CASES = {
    c.name: c
    for c in [
        *(c for t in FORMATS for c in arithmetic(t)),
        *(c for t in FORMATS for c in rounding_functions(t)),
        *APPROXIMATE,
        *CONVERSIONS,
        *FORMS,
    ]
}


@pytest.mark.parametrize("name", CASES)
def test_results_round_and_flush(name: str) -> None:
    bad = [f"{mode}: {line}" for mode in MODES for line in run(CASES[name], mode)]
    assert not bad, f"{len(bad)} differences, the first:\n" + "\n".join(bad[:4])


def test_f64_to_f32_rounds_by_the_field_of_doubles() -> None:
    for mode in MODES:
        case = FloatCase("v_cvt_f32_f64", (F64,), F32, lambda r, m: r[0], fixed=mode.round_f16_f64)
        assert run(case, mode) == []


def test_packed_f32_and_upper_halves_follow_mode_too() -> None:
    w = Wave()
    x, y = operand("pk", 0, F32), operand("pk", 1, F32)
    h, g = operand("pk", 0, F16), operand("pk", 1, F16)
    set_lanes(w, 5, x, F32), set_lanes(w, 9, y, F32)
    w.v[12], w.v[14] = [v << 16 for v in h], [v << 16 for v in g]
    for mode in MODES:
        after = w.run("v_pk_add_f32 v[40:41], v[4:5], v[8:9]\nv_pk_mul_f16 v42, v12, v14", mode=mode.bits)
        for n in range(LANES):
            a, b = read(x[n], F32, mode), read(y[n], F32, mode)
            assert same(int(after.v[41][n]), write(add(a, b, mode.round_f32), F32, mode), F32)
            a, b = read(h[n], F16, mode), read(g[n], F16, mode)
            outside = "inf" in (a.kind, b.kind)
            assert same(int(after.v[42][n]) >> 16, write(mul(a, b), F16, mode, exact_infinity=outside), F16)


def extreme(bits: list[int], fmt: FloatFormat, mode: Mode, sign: int) -> int:
    """Maximum (sign 1) or minimum (-1) of two: a NaN loses, in IEEE mode a signalling one wins; -0 < +0."""
    raw = [b if mode.keeps(fmt, False) else flush(b, fmt) for b in bits]
    quiet = 1 << (fmt.precision - 2)
    reals = [decode(b, fmt) for b in raw]
    if mode.ieee and any(r.kind == "nan" and not b & quiet for r, b in zip(reals, raw, strict=True)):
        return encode(NAN, fmt)
    if reals[0].kind == "nan":
        return raw[1]
    if reals[1].kind == "nan":
        return raw[0]
    by = order(reals[0], reals[1])
    if by == 0:
        by = int(reals[1].negative) - int(reals[0].negative)
    chosen = raw[0] if by is not None and by * sign > 0 else raw[1]
    return chosen if mode.keeps(fmt, True) else flush(chosen, fmt)


@pytest.mark.parametrize("t", FORMATS)
def test_minimum_and_maximum_flush_and_quiet(t: str) -> None:
    fmt = FORMATS[t]
    x, y = operand(t, 0, fmt), operand(t, 1, fmt)
    w = Wave()
    set_lanes(w, 4, x, fmt), set_lanes(w, 8, y, fmt)
    regs = f"{register(40, fmt)}, {register(4, fmt)}, {register(8, fmt)}"
    for mode in [replace(m, ieee=ieee) for m in MODES for ieee in (False, True)]:
        for name, sign in (("max", 1), ("min", -1)):
            got = get_lanes(w.run(f"v_{name}_{t} {regs}", mode=mode.bits), 40, fmt)
            for n in range(LANES):
                want = extreme([x[n], y[n]], fmt, mode, sign)
                assert same(got[n], want, fmt), (name, mode, hex(x[n]), hex(y[n]), hex(got[n]), hex(want))


@pytest.mark.parametrize("t", FORMATS)
def test_compares_flush_and_class_tests_do_not(t: str) -> None:
    fmt = FORMATS[t]
    x, y = operand(t, 2, fmt), operand(t, 3, fmt)
    w = Wave()
    set_lanes(w, 4, x, fmt), set_lanes(w, 8, y, fmt)
    a, b = register(4, fmt), register(8, fmt)
    text = f"v_cmp_lt_{t} s[10:11], {a}, {b}\nv_cmp_nle_{t} s[12:13], {a}, {b}\nv_cmp_class_{t} s[14:15], {a}, v12"
    w.v[12] = 0x90  # denormals
    for mode in MODES:
        after = w.run(text, mode=mode.bits)
        for n in range(LANES):
            by = order(read(x[n], fmt, mode), read(y[n], fmt, mode))
            assert after.pair(10) >> n & 1 == (by == -1)
            assert after.pair(12) >> n & 1 == (by is None or by == 1)
            raw = decode(x[n] & (2**fmt.width - 1), fmt)
            assert after.pair(14) >> n & 1 == (raw.kind == "finite" and 0 < raw.magnitude < fmt.least_normal)


@pytest.mark.parametrize(
    ("name", "high"), [("v_fma_mix_f32", False), ("v_fma_mixlo_f16", True), ("v_fma_mixhi_f16", True)]
)
def test_mixed_fma_follows_each_operand_s_format(name: str, high: bool) -> None:
    """The second source is a half; the sum rounds to f32 and, for the f16 forms, once more."""
    x, y, z = operand(name, 0, F32), operand(name, 1, F16), operand(name, 2, F32)
    w = Wave()
    set_lanes(w, 4, x, F32), set_lanes(w, 12, z, F32)
    w.v[8] = y
    for mode in MODES:
        row = w.run(f"{name} v40, v4, v8, v12 op_sel_hi:[0,1,0]", mode=mode.bits).v[40]
        for n in range(LANES):
            reals = [read(x[n], F32, mode), read(y[n], F16, mode), read(z[n], F32, mode)]
            bits = encode(fma(reals, mode, F32), F32, mode.round_f32)
            got = int(row[n]) >> (16 if name.endswith("hi_f16") else 0) & (0xFFFF if high else 0xFFFFFFFF)
            outside = any(r.kind == "inf" for r in reals)
            if high:
                want = write(decode(bits, F32), F16, mode, exact_infinity=outside)
            else:
                want = bits if mode.keeps(F32, True) else flush(bits, F32)
            assert same(got, want, F16 if high else F32), (mode, reals, hex(got), hex(want))


@pytest.mark.parametrize("t", FORMATS)
def test_output_scaling_needs_flushed_results_and_no_ieee_mode(t: str) -> None:
    fmt = FORMATS[t]
    x = operand(t, 4, fmt)
    w = Wave()
    set_lanes(w, 4, x, fmt)
    text = f"v_mul_{t}_e64 {register(40, fmt)}, {register(4, fmt)}, 1.0 "
    for mode in [replace(m, ieee=ieee, fp16_ovfl=False) for m in MODES for ieee in (False, True)]:
        scales = not mode.ieee and not mode.keeps(fmt, True)
        by, scale = ("div:2", Fraction(1, 2)) if mode.round_f32 & 1 else ("mul:4", Fraction(4))
        got = get_lanes(w.run(text + by, mode=mode.bits), 40, fmt)
        for n in range(LANES):
            once = write(read(x[n], fmt, mode), fmt, mode)
            value = decode(once, fmt)
            if scales and value.kind == "finite":
                once = flush(encode(finite(value.value * scale), fmt), fmt)
            assert same(got[n], once, fmt), (mode, hex(x[n]), hex(got[n]), hex(once))


@pytest.mark.parametrize("dx10", [False, True])
def test_clamping_a_nan_depends_on_dx10_clamp(dx10: bool) -> None:
    w = Wave()
    w.v[1], w.v[2] = 0x7FC00000, 0x7E007E00
    mode = Mode(dx10_clamp=dx10).bits
    after = w.run(
        "v_add_f32_e64 v3, v1, v1 clamp\nv_pk_add_f16 v4, v2, v2 clamp\nv_fma_mix_f32 v5, v1, v1, v1 clamp", mode=mode
    )
    assert (after.v[3][0], after.v[5][0]) == ((0, 0) if dx10 else (0x7FC00000, 0x7FC00000))
    assert (after.v[4][0] == 0) == dx10


def fp8_oracle(x: Real, mantissa: int, bias: int, saturate: bool) -> int:
    """Nearest of the magnitudes of an 8-bit float without infinities or negative zero, ties to even; 0x80 is NaN."""
    if x.kind != "finite":
        return 0x80

    def magnitude(code: int) -> Fraction:
        field, rest = code >> mantissa, code & ((1 << mantissa) - 1)
        hidden = 1 << mantissa if field else 0
        return Fraction(rest + hidden) * Fraction(2) ** (max(field, 1) - bias - mantissa)

    beyond = magnitude(0x7F) * 2 - magnitude(0x7E)  # where the next value would be
    if x.magnitude >= (magnitude(0x7F) + beyond) / 2:
        return (0xFF if x.negative else 0x7F) if saturate else 0x80
    best = min(range(0x80), key=lambda c: (abs(magnitude(c) - x.magnitude), c & 1))
    return best | (0x80 if x.negative and best else 0)


@pytest.mark.parametrize(("kind", "mantissa", "bias"), [("fp8", 3, 8), ("bf8", 2, 16)])
def test_fp8_conversions_round_to_nearest_and_saturate_by_fp16_ovfl(kind: str, mantissa: int, bias: int) -> None:
    rng = np.random.default_rng(3)
    top = 240.0 if kind == "fp8" else 57344.0
    values = [0.0, -0.0, top, -top, top * 17 / 16, top * 1.2, 1e30, -1e30, 1e-30, math.inf, -math.inf, math.nan]
    values += [float(np.ldexp(rng.integers(8, 32) + 0.5, int(e))) for e in rng.integers(-22, 12, 26)]
    values += [
        float(v) for v in rng.normal(size=LANES - len(values)) * 2.0 ** rng.integers(-12, 9, LANES - len(values))
    ]
    bits = [int(b) for b in np.array(values, np.float32).view(np.uint32)]
    w = Wave()
    w.v[1], w.v[2], w.v[3] = bits, bits[::-1], 0
    for mode in MODES:
        after = w.run(f"v_cvt_pk_{kind}_f32 v4, v1, v2\nv_cvt_sr_{kind}_f32 v5, v1, v3", mode=mode.bits)
        for n in range(LANES):
            low, high = (fp8_oracle(read(b[n], F32, mode), mantissa, bias, mode.fp16_ovfl) for b in (bits, bits[::-1]))
            assert int(after.v[4][n]) == low | high << 8, (mode, values[n])
        assert all(
            int(c) in (0, 0x80) for c, v in zip(after.v[5], values, strict=True) if not math.isfinite(v) or v == 0
        )


@pytest.mark.parametrize(("kind", "mantissa", "bias"), [("fp8", 3, 8), ("bf8", 2, 16)])
def test_stochastic_rounding_uses_every_dropped_bit(kind: str, mantissa: int, bias: int) -> None:
    """1 + k units of the f32's last place rounds up exactly when the upper random bits reach the rest."""
    dropped = 23 - mantissa
    w = Wave()
    rests = [0, 1, 2, 3, (1 << dropped) - 1, 1 << (dropped - 1)] * 10 + [5] * 4
    noise = [(r * 7919) % (1 << dropped) if n % 3 else (1 << dropped) - max(r - n % 2, 1) for n, r in enumerate(rests)]
    w.v[1] = [0x3F800000 + r for r in rests]
    w.v[2] = [x << (32 - dropped) for x in noise]
    one = bias << mantissa
    got = w.run(f"v_cvt_sr_{kind}_f32 v3, v1, v2").v[3]
    assert [int(g) for g in got] == [one + (r + x >= 1 << dropped) for r, x in zip(rests, noise, strict=True)]


@pytest.mark.parametrize("arch", ["gfx90a", "gfx942"])
def test_matrix_products_flush_denormals_on_gfx90a_alone(arch: str) -> None:
    """AMD documents it for the MI200's f16 and bf16 forms, inputs and results. Dot products do it everywhere (CDNA3
    ISA, section 6.4)."""
    flushes = arch == "gfx90a"
    w = Wave()
    w.v[4] = w.v[5] = 0x03FF03FF  # denormal halves
    w.v[6] = w.v[7] = 0x3C003C00  # 1.0
    w.v[8:12] = 0x00000100  # a denormal accumulator
    w.v[20] = w.v[21] = 0x00010001  # denormal bf16
    w.v[22] = w.v[23] = 0x7F007F00  # 2**127
    text = (
        "v_mfma_f32_16x16x16f16 v[12:15], v[4:5], v[6:7], 0\nv_dot2_f32_f16 v16, v4, v6, v8\n"
        "v_mfma_f32_16x16x16f16 v[24:27], v[40:41], v[6:7], v[8:11]\n"
        "v_mfma_f32_16x16x16bf16_1k v[28:31], v[20:21], v[22:23], 0"
    )
    after = w.run(text, arch)
    denormal = float(np.float16(np.uint16(0x03FF).view(np.float16)))
    assert (after.as_floats(12) == (0 if flushes else 16 * denormal)).all()
    assert (after.v[16] == 0).all()
    assert (after.v[24] == (0 if flushes else 0x100)).all()
    assert (after.as_floats(28) == (0 if flushes else 16 * 2.0**-6)).all()


def test_mode_and_its_overflow_bit_can_be_set_and_read() -> None:
    w = Wave()
    w.v[1] = 0x7BFF
    after = w.run(
        "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 23, 1), 1\nv_add_f16 v3, v1, v1\ns_getreg_b32 s4, hwreg(HW_REG_MODE)"
    )
    assert after.v[3][0] == 0x7BFF
    assert after.s[4] == 0x8003F0
    assert infinite(False) == decode(int(w.run("v_add_f16 v3, v1, v1").v[3][0]), F16)
