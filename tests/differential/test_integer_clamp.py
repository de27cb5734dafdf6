"""Does the clamp bit saturate integer results, and not change results that always fit?

The oracle computes with Python's integers and clamps to the range of the result's type.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable

import numpy as np
import pytest
from alu_cases import EDGES_INT, usual_arch
from wave_helpers import LANES, Wave

from hipsynth.simulator.isa.table import OpcodeRow, load_rows

ROWS = {r.name: r for r in load_rows() if r.unit == "valu"}


def signed(v: int, width: int) -> int:
    v &= (1 << width) - 1
    return v - (1 << width) if v >> (width - 1) else v


def lanes_of(v: int, width: int, is_signed: bool) -> list[int]:
    pieces = [v >> k & ((1 << width) - 1) for k in range(0, 32, width)]
    return [signed(p, width) for p in pieces] if is_signed else pieces


def dot(width: int, is_signed: bool) -> Callable[..., int]:
    def of(a: int, b: int, c: int, *_: int) -> int:
        pairs = zip(lanes_of(a, width, is_signed), lanes_of(b, width, is_signed), strict=True)
        return sum(x * y for x, y in pairs) + (signed(c, 32) if is_signed else c)

    return of


def differences(width: int, masked: bool = False) -> Callable[[int, int], int]:
    def of(a: int, b: int) -> int:
        pairs = zip(lanes_of(a, width, False), lanes_of(b, width, False), strict=True)
        return sum(abs(x - y) for x, y in pairs if not (masked and y == 0))

    return of


def low(bits: int) -> Callable[[int], int]:
    return lambda v: v & ((1 << bits) - 1)


def high16(v: int) -> int:
    return signed(v, 16)


U24, S24 = low(24), lambda v: signed(v, 24)
U16 = low(16)
# Result type and exact value from the sources a, b, c and the carry that comes in.
EXACT: dict[str, tuple[str, Callable[..., int]]] = {
    "v_add_u32": ("u32", lambda a, b, c, x: a + b),
    "v_sub_u32": ("u32", lambda a, b, c, x: a - b),
    "v_subrev_u32": ("u32", lambda a, b, c, x: b - a),
    "v_add_i32": ("i32", lambda a, b, c, x: signed(a, 32) + signed(b, 32)),
    "v_sub_i32": ("i32", lambda a, b, c, x: signed(a, 32) - signed(b, 32)),
    "v_add_u16": ("u16", lambda a, b, c, x: U16(a) + U16(b)),
    "v_sub_u16": ("u16", lambda a, b, c, x: U16(a) - U16(b)),
    "v_subrev_u16": ("u16", lambda a, b, c, x: U16(b) - U16(a)),
    "v_add_i16": ("i16", lambda a, b, c, x: high16(a) + high16(b)),
    "v_sub_i16": ("i16", lambda a, b, c, x: high16(a) - high16(b)),
    "v_mul_lo_u16": ("u16", lambda a, b, c, x: U16(a) * U16(b)),
    "v_mad_u16": ("u16", lambda a, b, c, x: U16(a) * U16(b) + U16(c)),
    "v_mad_i16": ("i16", lambda a, b, c, x: high16(a) * high16(b) + high16(c)),
    "v_mad_legacy_u16": ("u16", lambda a, b, c, x: U16(a) * U16(b) + U16(c)),
    "v_mad_legacy_i16": ("i16", lambda a, b, c, x: high16(a) * high16(b) + high16(c)),
    "v_mad_u32_u16": ("u32", lambda a, b, c, x: U16(a) * U16(b) + c),
    "v_mad_i32_i16": ("i32", lambda a, b, c, x: high16(a) * high16(b) + signed(c, 32)),
    "v_mul_u32_u24": ("u32", lambda a, b, c, x: U24(a) * U24(b)),
    "v_mul_i32_i24": ("i32", lambda a, b, c, x: S24(a) * S24(b)),
    "v_mad_u32_u24": ("u32", lambda a, b, c, x: U24(a) * U24(b) + c),
    "v_mad_i32_i24": ("i32", lambda a, b, c, x: S24(a) * S24(b) + signed(c, 32)),
    "v_mad_u64_u32": ("u64", lambda a, b, c, x: a * b + c),
    "v_mad_i64_i32": ("i64", lambda a, b, c, x: signed(a, 32) * signed(b, 32) + signed(c, 64)),
    "v_add_co_u32": ("u32", lambda a, b, c, x: a + b),
    "v_sub_co_u32": ("u32", lambda a, b, c, x: a - b),
    "v_subrev_co_u32": ("u32", lambda a, b, c, x: b - a),
    "v_addc_co_u32": ("u32", lambda a, b, c, x: a + b + x),
    "v_subb_co_u32": ("u32", lambda a, b, c, x: a - b - x),
    "v_subbrev_co_u32": ("u32", lambda a, b, c, x: b - a - x),
    "v_sad_u8": ("u32", lambda a, b, c, x: differences(8)(a, b) + c),
    "v_msad_u8": ("u32", lambda a, b, c, x: differences(8, True)(a, b) + c),
    "v_sad_hi_u8": ("u32", lambda a, b, c, x: (differences(8)(a, b) << 16) + c),
    "v_sad_u16": ("u32", lambda a, b, c, x: differences(16)(a, b) + c),
    "v_sad_u32": ("u32", lambda a, b, c, x: differences(32)(a, b) + c),
    "v_dot2_i32_i16": ("i32", dot(16, True)),
    "v_dot2_u32_u16": ("u32", dot(16, False)),
    "v_dot2c_i32_i16": ("i32", dot(16, True)),
    "v_dot4_i32_i8": ("i32", dot(8, True)),
    "v_dot4_u32_u8": ("u32", dot(8, False)),
    "v_dot4c_i32_i8": ("i32", dot(8, True)),
    "v_dot8_i32_i4": ("i32", dot(4, True)),
    "v_dot8_u32_u4": ("u32", dot(4, False)),
    "v_dot8c_i32_i4": ("i32", dot(4, True)),
}
PACKED: dict[str, tuple[str, Callable[[int, int, int], int]]] = {
    "v_pk_add_u16": ("u16", lambda a, b, c: a + b),
    "v_pk_sub_u16": ("u16", lambda a, b, c: a - b),
    "v_pk_add_i16": ("i16", lambda a, b, c: signed(a, 16) + signed(b, 16)),
    "v_pk_sub_i16": ("i16", lambda a, b, c: signed(a, 16) - signed(b, 16)),
    "v_pk_mul_lo_u16": ("u16", lambda a, b, c: a * b),
    "v_pk_mad_u16": ("u16", lambda a, b, c: a * b + c),
    "v_pk_mad_i16": ("i16", lambda a, b, c: signed(a, 16) * signed(b, 16) + signed(c, 16)),
}
WINDOWS = {"v_qsad_pk_u16_u8": False, "v_mqsad_pk_u16_u8": True}


def saturated(kind: str, v: int) -> int:
    width = int(kind[1:])
    low_end, high_end = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if kind[0] == "i" else (0, (1 << width) - 1)
    return max(low_end, min(high_end, v)) & ((1 << width) - 1)


def values(name: str, slot: str) -> list[int]:
    rng = np.random.default_rng(zlib.crc32(f"{name}/{slot}".encode()))
    edges = [EDGES_INT[i] for i in rng.integers(0, len(EDGES_INT), 40)]
    return [*edges, *(int(v) for v in rng.integers(0, 1 << 32, LANES - 40))]


def slots(row: OpcodeRow) -> dict[str, str]:
    return dict(re.findall(r"([deabcx])\??:(\w+)", row.sig))


def wave(name: str) -> Wave:
    w = Wave()
    for first, slot in ((4, "a"), (8, "b"), (12, "c")):
        w.v[first], w.v[first + 1] = values(name, slot), values(name, f"{slot}/high")
    w.v[40], w.v[41] = w.v[12], w.v[13]
    w.set_pair(20, 0x123456789ABCDEF0)
    return w


def text(row: OpcodeRow, tail: str) -> str:
    kinds = slots(row)
    places = {"d": 40, "a": 4, "b": 8, "c": 12}
    parts = []
    for slot, kind in kinds.items():
        if kind == "mask":
            parts.append({"e": "s[30:31]", "c": "s[20:21]"}[slot])
            continue
        wide = kind in ("b64", "u64", "i64", "f64", "pk_b32", "pk_f32")
        parts.append(f"v[{places[slot]}:{places[slot] + 1}]" if wide else f"v{places[slot]}")
    return f"{row.name}{'' if row.sig.count('pk_') else '_e64'} {', '.join(parts)} {tail}"


def carry(exact: int, kind: str) -> bool:
    return exact < 0 or exact >> int(kind[1:]) != 0


@pytest.mark.parametrize("name", EXACT)
def test_results_saturate(name: str) -> None:
    row, (kind, exact) = ROWS[name], EXACT[name]
    w = wave(name)
    after = w.run(text(row, "clamp"), usual_arch(row))
    wide, flags = kind.endswith("64"), slots(row)
    for n in range(LANES):
        a, b = int(w.v[4][n]), int(w.v[8][n])
        c = int(w.v[12][n]) | (int(w.v[13][n]) << 32 if wide else 0)
        value = exact(a, b, c, w.pair(20) >> n & 1)
        got = int(after.v[40][n]) | (int(after.v[41][n]) << 32 if wide else 0)
        got &= (1 << int(kind[1:])) - 1
        assert got == saturated(kind, value), (hex(a), hex(b), hex(c), value, hex(got))
        if "e" in flags and name != "v_mad_i64_i32":
            assert after.pair(30) >> n & 1 == carry(value, kind)


@pytest.mark.parametrize("name", PACKED)
def test_both_halves_saturate(name: str) -> None:
    row, (kind, exact) = ROWS[name], PACKED[name]
    w = wave(name)
    after = w.run(text(row, "clamp"), usual_arch(row))
    for n in range(LANES):
        for shift in (0, 16):
            a, b, c = (int(w.v[r][n]) >> shift & 0xFFFF for r in (4, 8, 12))
            assert int(after.v[40][n]) >> shift & 0xFFFF == saturated(kind, exact(a, b, c)), (n, shift)


@pytest.mark.parametrize(("name", "masked"), WINDOWS.items())
def test_sums_of_windows_saturate(name: str, masked: bool) -> None:
    row = ROWS[name]
    w = wave(name)
    after = w.run(text(row, "clamp"), usual_arch(row))
    for n in range(LANES):
        a, c, got = (int(r[n]) | int(s[n]) << 32 for r, s in ((w.v[4], w.v[5]), (w.v[12], w.v[13]), after.v[40:42]))
        for k in range(4):
            total = differences(8, masked)(a >> 8 * k & 0xFFFFFFFF, int(w.v[8][n])) + (c >> 16 * k & 0xFFFF)
            assert got >> 16 * k & 0xFFFF == min(total, 0xFFFF)


def test_results_that_always_fit_are_not_clamped() -> None:
    fitting = [row for row in ROWS.values() if row.sat is True]
    assert len(fitting) > 50
    for row in fitting:
        w = wave(row.name)
        one, other = (w.run(text(row, tail), usual_arch(row)) for tail in ("", "clamp"))
        assert np.array_equal(one.v[40:42], other.v[40:42]), row.name


def test_every_row_with_a_clamp_form_is_compared() -> None:
    saturating = {row.name for row in ROWS.values() if row.sat and row.sat is not True}
    saturating -= {"v_cvt_pk_f16_f32", "v_cvt_pk_bf16_f32"}  # clamped to 0..1 as floats are
    assert saturating == EXACT.keys() | PACKED.keys() | WINDOWS.keys()
