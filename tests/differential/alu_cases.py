"""Operand values, instruction texts and host-side oracles for the differential tests of ALU opcodes."""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from pcode_values import V, fma_bits, make, round_fraction

from hipsynth.simulator.isa.table import OpcodeRow

LANES = 64
EDGES_F32 = [
    0x00000000, 0x80000000, 0x3F800000, 0xBF800000, 0x7F800000, 0xFF800000, 0x7FC00000, 0x7F800001, 0xFFC12345,
    0x00000001, 0x80000001, 0x007FFFFF, 0x00800000, 0x7F7FFFFF, 0xFF7FFFFF, 0x3F000000, 0x3FC00000, 0x40200000,
    0x4B000001, 0x4F000000, 0x4F800000, 0xCF000000, 0x33800000, 0x34000000, 0x477FE000, 0x387FC000, 0x7E800000,
]  # fmt: skip
EDGES_F64 = [
    0x0, 1 << 63, 0x3FF0000000000000, 0xBFF0000000000000, 0x7FF0000000000000, 0xFFF0000000000000,
    0x7FF8000000000000, 0x7FF0000000000001, 0x1, 0x800FFFFFFFFFFFFF, 0x0010000000000000, 0x7FEFFFFFFFFFFFFF,
    0x3FE0000000000000, 0x3FF8000000000000, 0x4004000000000000, 0x41DFFFFFFFC00000, 0x41E0000000000000,
    0x41F0000000000000, 0xC1E0000000200000, 0x47EFFFFFE0000000, 0x36A0000000000000, 0x7FD0000000000000,
]  # fmt: skip
EDGES_F16 = [
    0x0000, 0x8000, 0x3C00, 0xBC00, 0x7C00, 0xFC00, 0x7E00, 0x7C01, 0x0001, 0x83FF, 0x0400, 0x7BFF, 0xFBFF, 0x3800,
    0x3E00, 0x4100, 0x77FF, 0x7800, 0x1400, 0x6400,
]  # fmt: skip
EDGES_INT = [
    0, 1, 2, 31, 32, 33, 63, 64, 0x7F, 0x80, 0xFF, 0x100, 0x7FFF, 0x8000, 0xFFFF, 0x10000, 0x7FFFFF, 0x800000,
    0xFFFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0xFFFFFFFE, 0x55555555, 0xF0F0F0F0,
]  # fmt: skip


def width_of(kind: str) -> int:
    if kind in ("b64", "u64", "i64", "f64", "f64bits", "pk_f32", "pk_b32"):
        return 64
    return 32


def _edges(kind: str) -> list[int]:
    if kind in ("f32", "f32bits", "mix"):
        return EDGES_F32
    if kind in ("f64", "f64bits"):
        return EDGES_F64
    if kind in ("f16", "h16"):
        return [e | 0xABCD0000 for e in EDGES_F16]
    if kind == "pk_f16":
        return [e | f << 16 for e, f in zip(EDGES_F16, EDGES_F16[7:] + EDGES_F16[:7], strict=True)]
    if kind == "pk_bf16":
        return [e >> 16 | f & 0xFFFF0000 for e, f in zip(EDGES_F32, EDGES_F32[5:] + EDGES_F32[:5], strict=True)]
    if kind == "pk_f32":
        return [e | f << 32 for e, f in zip(EDGES_F32, EDGES_F32[5:] + EDGES_F32[:5], strict=True)]
    if width_of(kind) == 64:
        return [*EDGES_INT, *(e << 32 for e in EDGES_INT), 0x7FFFFFFFFFFFFFFF, 0x8000000000000000, 0xFFFFFFFFFFFFFFFF]
    return EDGES_INT


def values(name: str, slot: str, kind: str, batch: int) -> list[int]:
    """64 lane values of one operand: batches 0 and 1 combine edge values, later ones are random."""
    rng = np.random.default_rng(zlib.crc32(f"{name}/{slot}/{batch}".encode()))
    width = width_of(kind)
    if batch < 2:
        edges = _edges(kind)
        return [edges[i] for i in rng.integers(0, len(edges), LANES)]
    if kind in ("f32", "pk_f32") and batch % 2 == 0:  # moderate magnitudes
        low = rng.uniform(-8, 8, LANES).astype(np.float32).view(np.uint32)
        high = rng.uniform(-8, 8, LANES).astype(np.float32).view(np.uint32)
        return [int(a) | (int(b) << 32 if kind == "pk_f32" else 0) for a, b in zip(low, high, strict=True)]
    if kind == "f64" and batch % 2 == 0:
        return [int(x) for x in rng.uniform(-8, 8, LANES).view(np.uint64)]
    return [int(x) for x in rng.integers(0, (1 << width) - 1, LANES, dtype=np.uint64, endpoint=True)]


@dataclass(frozen=True)
class Plan:
    """The registers of one instruction's operands: row numbers for vector slots, SGPR numbers for scalar slots."""

    text: str
    types: dict[str, str]  # slot -> type, implied slots included
    places: dict[str, int]  # slot -> first register


VECTOR_PLACES = {"d": 40, "a": 4, "b": 8, "c": 12}
SCALAR_PLACES = {"d": 10, "a": 4, "b": 6, "e": 20, "c": 22}


def _register(letter: str, first: int, width: int) -> str:
    return f"{letter}{first}" if width == 32 else f"{letter}[{first}:{first + 1}]"


def plan(row: OpcodeRow, imm: int = 0) -> Plan:
    """Assembler text of `row` with fixed registers."""
    scalar = row.unit == "salu"
    types: dict[str, str] = {}
    places: dict[str, int] = {}
    parts = []
    for token in row.sig.split():
        if token == "k":
            parts.append(hex(imm & 0xFFFF))
            continue
        if token == "c=d":
            types["c"], places["c"] = types["d"], places["d"]
            continue
        if token == "x=vcc":
            types["x"], places["x"] = "mask", 106
            continue
        slot, kind = re.split(r"\??:", token.replace("f16s", "f16"))
        types[slot] = kind
        if scalar or kind == "mask":
            places[slot] = SCALAR_PLACES[slot]
            parts.append(_register("s", places[slot], 64 if kind == "mask" else width_of(kind)))
        else:
            places[slot] = VECTOR_PLACES[slot]
            parts.append(_register("v", places[slot], width_of(kind)))
    return Plan(f"{row.name} {', '.join(parts)}", types, places)


def _f(v: V) -> float:
    return float(v.number)


def _flush(x: float) -> float:
    return math.copysign(0.0, x) if x != 0 and abs(x) < 2.0**-126 else x


def _mad(a: V, b: V, c: V) -> V:
    with np.errstate(all="ignore"):
        product = np.float32(np.float32(_flush(_f(a))) * np.float32(_flush(_f(b))))
        total = np.float32(_flush(float(product))) + np.float32(_flush(_f(c)))
    return make(_flush(float(total)), "f", 32)


def _mad_legacy(a: V, b: V, c: V) -> V:
    return _mad(make(0.0, "f", 32), make(0.0, "f", 32), c) if 0 in (_flush(_f(a)), _flush(_f(b))) else _mad(a, b, c)


def _mad_f16(a: V, b: V, c: V) -> V:
    with np.errstate(all="ignore"):
        return make(float(np.float16(np.float16(_f(a)) * np.float16(_f(b))) + np.float16(_f(c))), "f", 16)


def _trig_preop(a: V, b: V) -> V:
    """53 bits of 2/pi from a Machin series computed with integers."""
    bits = 1300
    one = 1 << (bits + 64)

    def arctan(n: int) -> int:
        term, total, k, sign = one // n, one // n, 3, -1
        while term:
            term //= n * n
            total, k, sign = total + sign * (term // k), k + 2, -sign
        return total

    two_over_pi = (2 * one * one // (4 * (4 * arctan(5) - arctan(239)))) >> 64
    e = (a.bits >> 52) & 0x7FF
    shift = (b.bits & 31) * 53 + max(0, e - 1077)
    window = (((two_over_pi >> (bits - 1201)) << shift) & ((1 << 1201) - 1)) >> (1201 - 53)
    return V(round_fraction(Fraction(window) * Fraction(2) ** (-53 - shift + (128 if e >= 1968 else 0)), 64), "f", 64)


def _turns(fn: Callable[[float], float], outside: float) -> Callable[[V], V]:
    def run(v: V) -> V:
        x = _f(v)
        if not math.isfinite(x):
            return make(math.nan, "f", v.width)
        if abs(x) > 256:
            return make(outside, "f", v.width)
        if x == 0 and fn is math.sin:
            return v
        r = x - round(x)
        k = round(r * 4)
        t = (r - k / 4) * 2 * math.pi
        quadrant = (k + (0 if fn is math.sin else 1)) % 4
        y = (math.sin(t), math.cos(t), -math.sin(t), -math.cos(t))[quadrant]
        return make(y + 0.0, "f", v.width)  # +0: a zero result is positive

    return run


def _div_fmas(a: V, b: V, c: V, flag: V) -> V:
    """Fused multiply-add; the flag scales back by 2**64 or 2**128, up for a large quotient, down for a small one."""
    width = a.width
    if not flag.bits or not all(math.isfinite(_f(v)) for v in (a, b, c)):
        return V(fma_bits(_f(a), _f(b), _f(c), width), "f", width)
    exact = Fraction(_f(a)) * Fraction(_f(b)) + Fraction(_f(c))
    scale, field, bias = (64, c.bits >> 23 & 255, 127) if width == 32 else (128, c.bits >> 52 & 2047, 1023)
    unscaled = round_fraction(exact, width)
    if exact == 0 or math.isinf(float(V(unscaled, "f", width).number)):
        return V(fma_bits(_f(a), _f(b), _f(c), width), "f", width)
    if field > bias:
        x = V(unscaled, "f", width)
        return _ldexp(x, V(scale, "i", 32))
    return V(round_fraction(exact / 2**scale, width), "f", width)


def _frexp_exp(v: V) -> V:
    x = _f(v)
    return make(math.frexp(x)[1] if math.isfinite(x) else 0, "i", 32 if v.width > 16 else 16)


def _ldexp(v: V, e: V) -> V:
    x = _f(v)
    if not math.isfinite(x) or x == 0:
        return V(v.bits, "f", v.width)
    return V(
        round_fraction(Fraction(x) * Fraction(2) ** max(-5000, min(5000, V(e.bits, "i", e.width).number)), v.width),
        "f",
        v.width,
    )


def _nearest_up(a: V) -> V:
    x = _f(a)
    if math.isnan(x):
        return make(0, "i", 32)
    if math.isinf(x):
        return make(2**31 - 1 if x > 0 else -(2**31), "i", 32)
    return make(max(-(2**31), min(2**31 - 1, math.floor(Fraction(x) + Fraction(1, 2)))), "i", 32)


def _round_even(v: V) -> V:
    x = _f(v)
    return V(v.bits, "f", v.width) if not math.isfinite(x) else make(math.copysign(float(round(x)), x), "f", v.width)


def _fract(v: V) -> V:
    x = _f(v)
    if not math.isfinite(x):
        return make(math.nan, "f", v.width)
    top = {16: 1 - 2.0**-11, 32: 1 - 2.0**-24, 64: 1 - 2.0**-53}[v.width]
    exact = Fraction(x) - math.floor(x)
    return make(min(float(V(round_fraction(exact, v.width), "f", v.width).number), top), "f", v.width)


def _perm(a: V, b: V, s: V) -> V:
    data = [(b.bits >> 8 * i) & 255 for i in range(4)] + [(a.bits >> 8 * i) & 255 for i in range(4)]
    out = 0
    for i in range(4):
        sel = (s.bits >> 8 * i) & 255
        if sel >= 13:
            byte = 255
        elif sel == 12:
            byte = 0
        elif sel >= 8:
            byte = 255 if data[2 * (sel - 8) + 1] & 128 else 0
        else:
            byte = data[sel]
        out |= byte << 8 * i
    return V(out, "u", 32)


def _sad(step: int, masked: bool = False) -> Callable[[V, V, V], V]:
    def run(a: V, b: V, c: V) -> V:
        total = c.bits
        for k in range(0, 32, step):
            x, y = (a.bits >> k) & ((1 << step) - 1), (b.bits >> k) & ((1 << step) - 1)
            total += 0 if masked and y == 0 else abs(x - y)
        return make(total, "u", 32)

    return run


def _sat_u8(a: V) -> V:
    lo, hi = V(a.bits & 0xFFFF, "i", 16).number, V(a.bits >> 16, "i", 16).number
    return V(max(0, min(255, lo)) | max(0, min(255, hi)) << 8, "u", 32)


def _pow2(v: V) -> V:
    x = _f(v)
    return make(math.nan if math.isnan(x) else math.inf if x >= 1024 else 0.0 if x < -2000 else 2.0**x, "f", v.width)


def _log2(v: V) -> V:
    x = _f(v)
    y = math.nan if math.isnan(x) or x < 0 else -math.inf if x == 0 else math.inf if math.isinf(x) else math.log2(x)
    return make(y, "f", v.width)


def _root(v: V, reciprocal: bool) -> V:
    x = _f(v)
    if math.isnan(x) or x < 0:
        return make(math.nan, "f", v.width)
    if reciprocal and x == 0:
        return make(math.copysign(math.inf, x), "f", v.width)
    y = math.copysign(math.sqrt(x), x) if math.isfinite(x) else x
    return make(1.0 / y if reciprocal else y, "f", v.width)


def _without_denormals(fn: Callable[[V], V]) -> Callable[[V], V]:
    """The approximate f32 functions read and give zeros for denormals."""

    return lambda v: _flush_bits(fn(_flush_bits(v)))


def _reciprocal(v: V) -> V:
    x = _f(v)
    return make(math.copysign(math.inf, x) if x == 0 else 1.0 / x, "f", v.width)


def _quad(per_quad: bool, width: int) -> Callable[[V], V]:
    def run(a: V) -> V:
        out = 0
        for k in range(0, width, 4):
            if (a.bits >> k) & 15:
                out |= (1 << k // 4) if per_quad else 15 << k
        return V(out, "u", width)

    return run


def _identity(a: V) -> V:
    return a


def _norm(scale: float, low: float) -> Callable[[V, V], V]:
    def one(v: V) -> int:
        x = _f(v)
        x = 0.0 if math.isnan(x) else max(low, min(1.0, x))
        return round(float(np.float32(np.float32(x) * np.float32(scale)))) & 0xFFFF

    return lambda a, b: V(one(a) | one(b) << 16, "u", 32)


def _norm_one(scale: float, low: float) -> Callable[[V], V]:
    pair = _norm(scale, low)
    return lambda a: V(pair(a, V(0, "f", a.width)).bits & 0xFFFF, "u", 16)


def _windows(masked: bool) -> Callable[[V, V, V], V]:
    """Four sums of absolute differences of a 4-byte reference and overlapping windows of eight bytes."""

    def run(a: V, b: V, c: V) -> V:
        out = 0
        for k in range(4):
            window, start = V(a.bits >> 8 * k & 0xFFFFFFFF, "u", 32), V(c.bits >> 16 * k & 0xFFFF, "u", 32)
            out |= (_sad(8, masked)(window, b, start).bits & 0xFFFF) << 16 * k
        return V(out, "u", 64)

    return run


def _toward_zero(v: V) -> int:
    x = _f(v)
    if not math.isfinite(x):
        return make(x, "f", 16).bits
    bits = make(x, "f", 16).bits
    return bits - 1 if abs(V(bits, "f", 16).number) > abs(x) else bits


def _bf16(bits: int) -> float:
    return float(V((bits & 0xFFFF) << 16, "f", 32).number)


def _to_bf16(v: V) -> int:
    """The nearest bfloat16 by exact comparison of the two around a float; ties to even; a NaN keeps its upper bits."""
    x = _f(v)
    if math.isnan(x):
        return v.bits >> 16 | 0x40
    low = v.bits >> 16
    if math.isinf(x) or v.bits & 0xFFFF == 0:
        return low
    rest = v.bits & 0xFFFF
    return low + (rest > 0x8000 or (rest == 0x8000 and low & 1))


def _extreme(largest: bool, width: int) -> Callable[[V, V, V], V]:
    """IEEE 754-2019 minimum or maximum of three: NaN if one is NaN, -0 below +0."""

    def run(a: V, b: V, c: V) -> V:
        found = 0
        for shift in range(0, 32, width):
            parts = [V(v.bits >> shift & ((1 << width) - 1), "f", width) for v in (a, b, c)]
            if any(math.isnan(_f(v)) for v in parts):
                found |= make(math.nan, "f", width).bits << shift
                continue
            order = sorted(parts, key=lambda v: (_f(v), math.copysign(1.0, _f(v))))
            found |= order[-1 if largest else 0].bits << shift
        return V(found, "f" if width == 32 else "u", 32)

    return run


def _flush_bits(v: V) -> V:
    return V(v.bits & 0x80000000, "f", 32) if v.bits & 0x7F800000 == 0 else v


def _half(bits: int) -> float:
    return float(V(bits & (0xFFFF if bits & 0x7C00 else 0x8000), "f", 16).number)


def _dot2(read: Callable[[int], float], start_last: bool) -> Callable[[V, V, V], V]:
    """The published steps, each rounded to f32. `read`: a value of 16 bits, denormals as zeros, as those of the sum are
    (CDNA3 ISA, section 6.4)."""

    def run(a: V, b: V, c: V) -> V:
        products = [(read(a.bits), read(b.bits)), (read(a.bits >> 16), read(b.bits >> 16))]
        start = float(_flush_bits(V(c.bits, "f", 32)).number)
        total = 0.0 if start_last else start
        for n, (x, y) in enumerate(products):
            bits = make(x * y, "f", 32).bits if start_last and n == 0 else fma_bits(x, y, total, 32)
            total = float(V(bits, "f", 32).number)
        return _flush_bits(make(np.float32(total) + np.float32(start), "f", 32) if start_last else V(bits, "f", 32))

    return run


def _shifted_bytes(low: int, high: int) -> Callable[[V, V, V], V]:
    def run(a: V, b: V, c: V) -> V:
        x, y = (max(low, min(high, int(v.number) >> (c.bits & 31))) & 0xFF for v in (a, b))
        return V(x | y << 8, "u", 16)

    return run


# Opcodes whose pseudo-code is missing, only a comment, or adds intermediate roundings that hardware does not do.
HOST: dict[str, Callable[..., V]] = {
    "v_accvgpr_read_b32": _identity,
    "v_accvgpr_write_b32": _identity,
    "v_accvgpr_mov_b32": _identity,
    "v_mad_f32": _mad,
    "v_mac_f32": _mad,
    "v_madmk_f32": _mad,
    "v_madak_f32": _mad,
    "v_mad_legacy_f32": _mad_legacy,
    "v_mad_f16": _mad_f16,
    "v_mac_f16": _mad_f16,
    "v_trig_preop_f64": _trig_preop,
    "v_perm_b32": _perm,
    "v_sad_u8": _sad(8),
    "v_sad_u16": _sad(16),
    "v_sad_u32": _sad(32),
    "v_msad_u8": _sad(8, masked=True),
    "v_sad_hi_u8": lambda a, b, c: make((_sad(8)(a, b, V(0, "u", 32)).bits << 16) + c.bits, "u", 32),
    "v_qsad_pk_u16_u8": _windows(False),
    "v_mqsad_pk_u16_u8": _windows(True),
    "v_madmk_f16": _mad_f16,
    "v_madak_f16": _mad_f16,
    "v_cvt_norm_i16_f16": _norm_one(32767.0, -1.0),
    "v_cvt_norm_u16_f16": _norm_one(65535.0, 0.0),
    "v_cvt_pknorm_i16_f16": _norm(32767.0, -1.0),
    "v_cvt_pknorm_u16_f16": _norm(65535.0, 0.0),
    "v_sat_pk_u8_i16": _sat_u8,
    "v_exp_legacy_f32": _without_denormals(_pow2),
    "v_log_legacy_f32": _without_denormals(_log2),
    "v_rcp_f32": _without_denormals(_reciprocal),
    "v_rcp_iflag_f32": _without_denormals(_reciprocal),
    "s_wqm_b32": _quad(False, 32),
    "s_wqm_b64": _quad(False, 64),
    "s_quadmask_b32": _quad(True, 32),
    "s_quadmask_b64": _quad(True, 64),
    "v_cvt_pkrtz_f16_f32": lambda a, b: V(_toward_zero(a) | _toward_zero(b) << 16, "u", 32),
    "v_cvt_pknorm_i16_f32": _norm(32767.0, -1.0),
    "v_cvt_pknorm_u16_f32": _norm(65535.0, 0.0),
    "v_lerp_u8": lambda a, b, c: V(
        sum((((a.bits >> k & 255) + (b.bits >> k & 255) + (c.bits >> k & 1)) >> 1) << k for k in range(0, 32, 8)),
        "u",
        32,
    ),
    "v_cvt_off_f32_i4": lambda a: make(((a.bits & 15) ^ 8) / 16 - 0.5, "f", 32),
    "v_fma_mix_f32": lambda a, b, c: V(fma_bits(_f(a), _f(b), _f(c), 32), "f", 32),
    "v_cvt_rpi_i32_f32": _nearest_up,
    "v_div_fmas_f32": _div_fmas,
    "v_div_fmas_f64": _div_fmas,
    "v_frexp_exp_i16_f16": _frexp_exp,
    **{f"v_frexp_exp_i32_f{n}": _frexp_exp for n in (32, 64)},
    **{f"v_ldexp_f{n}": _ldexp for n in (16, 32, 64)},
    **{f"v_rndne_f{n}": _round_even for n in (16, 32, 64)},
    **{f"v_fract_f{n}": _fract for n in (16, 32, 64)},
    **{f"v_sin_f{n}": _turns(math.sin, 0.0) for n in (16, 32)},
    **{f"v_cos_f{n}": _turns(math.cos, 1.0) for n in (16, 32)},
    "v_exp_f16": _pow2,
    "v_exp_f32": _without_denormals(_pow2),
    "v_log_f16": _log2,
    "v_log_f32": _without_denormals(_log2),
    **{f"v_sqrt_f{n}": lambda v: _root(v, False) for n in (16, 64)},
    "v_sqrt_f32": _without_denormals(lambda v: _root(v, False)),
    **{f"v_rsq_f{n}": lambda v: _root(v, True) for n in (16, 64)},
    "v_rsq_f32": _without_denormals(lambda v: _root(v, True)),
    "v_cvt_f32_bf16": lambda a: V((a.bits & 0xFFFF) << 16, "f", 32),
    "v_cvt_pk_bf16_f32": lambda a, b: V(_to_bf16(a) | _to_bf16(b) << 16, "u", 32),
    "v_cvt_pk_f16_f32": lambda a, b: V(make(_f(a), "f", 16).bits | make(_f(b), "f", 16).bits << 16, "u", 32),
    "v_minimum3_f32": _extreme(False, 32),
    "v_maximum3_f32": _extreme(True, 32),
    "v_pk_minimum3_f16": _extreme(False, 16),
    "v_pk_maximum3_f16": _extreme(True, 16),
    "v_dot2_f32_f16": _dot2(_half, False),
    "v_dot2c_f32_f16": _dot2(_half, False),
    "v_dot2_f32_bf16": _dot2(lambda bits: float(_flush_bits(V((bits & 0xFFFF) << 16, "f", 32)).number), True),
    "v_dot2c_f32_bf16": _dot2(lambda bits: float(_flush_bits(V((bits & 0xFFFF) << 16, "f", 32)).number), False),
    "v_ashr_pk_i8_i32": _shifted_bytes(-128, 127),
    "v_ashr_pk_u8_i32": _shifted_bytes(0, 255),
}

# Units in the last place that a result may differ: functions computed in a wider format and rounded once.
TOLERANCE = {
    f"v_{fn}_f{n}": 1 for fn in ("exp", "log", "sin", "cos", "rsq", "exp_legacy", "log_legacy") for n in (16, 32, 64)
}

# Opcodes evaluated by another opcode's equivalent pseudo-code, because the evaluator cannot parse their own.
ALIASES = {"v_div_fixup_legacy_f16": "v_div_fixup_f16"}

# Corrections of the published pseudo-code; for the reasons see simulator/native/isa/division.h.
PATCHES: dict[str, list[tuple[str, str]]] = {
    "v_div_scale_f32": [
        ("1.0 / 64'F(S1.f32) == DENORM.f64", "1.0F / S1.f32 == DENORM.f32"),
        ("(S2.f32 / S1.f32 == DENORM.f32)) then\nVCC = 0x1LL;\nif S0.f32 == S1.f32 then\n"
         "// Only scale the denominator\nD0.f32 = ldexp(S0.f32, 64)",
         "(S2.f32 / S1.f32 == DENORM.f32)) then\nVCC = 0x1LL;\nif S0.f32 == S1.f32 then\nD0.f32 = ldexp(S0.f32, -64)"),
    ],
    "v_div_scale_f64": [
        ("(S2.f64 / S1.f64 == DENORM.f64)) then\nVCC = 0x1LL;\nif S0.f64 == S1.f64 then\n"
         "// Only scale the denominator\nD0.f64 = ldexp(S0.f64, 128)",
         "(S2.f64 / S1.f64 == DENORM.f64)) then\nVCC = 0x1LL;\nif S0.f64 == S1.f64 then\nD0.f64 = ldexp(S0.f64, -128)"),
    ],
    "v_div_fixup_f32": [("exponent(S1.f32) == 255", "exponent(S2.f32) - exponent(S1.f32) >= 129")],
    "v_div_fixup_f64": [("exponent(S1.f64) == 2047", "exponent(S2.f64) - exponent(S1.f64) >= 1025")],
}  # fmt: skip


# Result types for comparison where the table only says bits.
RESULT_KINDS = {"v_cvt_pkrtz_f16_f32": "pk_f16", "v_cvt_pk_f16_f32": "pk_f16"}


def usual_arch(row: OpcodeRow) -> str:
    """The architecture on which an opcode is tested: gfx950 has other 8-bit floats (test_cdna4_opcodes.py)."""
    return "gfx942" if "gfx942" in row.archs else row.archs[-1]


def same(got: int, want: int, kind: str, ulps: int) -> bool:
    """Equal bits; two NaNs are equal; floats within `ulps`."""
    if got == want:
        return True
    if kind in ("pk_f16", "pk_f32"):
        half = 16 if kind == "pk_f16" else 32
        mask = (1 << half) - 1
        return all(same((got >> s) & mask, (want >> s) & mask, f"f{half}", ulps) for s in (0, half))
    if kind not in ("f16", "f32", "f64"):
        return False
    width = int(kind[1:])
    a, b = V(got & ((1 << width) - 1), "f", width), V(want & ((1 << width) - 1), "f", width)
    if math.isnan(a.number) and math.isnan(b.number):
        return got >> width == want >> width
    return ulps > 0 and abs(got - want) <= ulps


def as_values(types: dict[str, str], slots: dict[str, int]) -> list[V]:
    """Typed operand values a, b, c for a host oracle."""
    out: list[Any] = []
    for slot in "abcx":
        if slot not in types:
            continue
        kind = types[slot].replace("mix", "f32")
        letter = kind[0] if kind in ("f16", "f32", "f64", "i16", "i32", "i64") else "u"
        width = 16 if kind in ("f16", "i16", "u16", "h16") else width_of(kind)
        out.append(V(slots[slot] & ((1 << width) - 1), letter, width))
    return out
