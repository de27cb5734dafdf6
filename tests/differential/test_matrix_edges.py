"""Do matrix and dot instructions multiply infinities, NaNs, denormals and extremes as one fused multiply-add would?

Only one element along K is not zero, so that the order of the sum does not matter; the oracle is exact rational
arithmetic. The sign of a zero result is not compared: it depends on that order.
"""

from __future__ import annotations

import math
import zlib
from fractions import Fraction

import numpy as np
import ocp_floats
import pytest
from alu_cases import EDGES_F16, EDGES_F32, EDGES_F64, EDGES_INT
from exact_floats import F16, F32, F64, NAN, FloatFormat, Real, add, decode, encode, finite, flush, infinite, mul
from test_matrix_opcodes import ROWS, A, B, D, accumulator_place, registers
from wave_helpers import LANES, Wave

from hipsynth.simulator.isa.table import OpcodeRow

BF16 = FloatFormat(16, 8, 127)
FLOATS = {"f16": F16, "bf16": BF16, "f32": F32, "xf32": F32, "f64": F64}
BITS = {"f32": 32, "xf32": 32, "f16": 16, "bf16": 16, "i8": 8, "fp8": 8, "bf8": 8, "f64": 64}
EDGES = {
    "f16": EDGES_F16,
    "bf16": [e >> 16 for e in EDGES_F32] + [0x0001, 0x8001, 0x007F, 0x7F7F],
    "f32": EDGES_F32,
    "xf32": [e & 0xFFFFE000 for e in EDGES_F32],  # values that the reduced format holds
    "f64": EDGES_F64,
    "i8": [0, 1, 2, 0x7F, 0x80, 0x81, 0xFF],
    "fp8": list(range(256)),
    "bf8": list(range(256)),
}
C = 16  # registers of the third operand


def picks(name: str, what: str, edges: list[int], count: int) -> list[int]:
    rng = np.random.default_rng(zlib.crc32(f"{name}/{what}".encode()))
    return [edges[i] for i in rng.integers(0, len(edges), count)]


def eighth(bits: int, mantissa: int, bias: int) -> Real:
    """An 8-bit float without infinities or negative zero."""
    if bits == 0x80:
        return NAN
    field, rest = bits >> mantissa & (0x7F >> mantissa), bits & ((1 << mantissa) - 1)
    magnitude = Fraction(rest + ((1 << mantissa) if field else 0)) * Fraction(2) ** (max(field, 1) - bias - mantissa)
    return Real("finite", bits >> 7 == 1, magnitude)


def ocp(bits: int, kind: str) -> Real:
    """An 8-bit float of gfx950."""
    value, negative = ocp_floats.value_of(bits, kind), bits >> 7 == 1
    if math.isnan(value):
        return NAN
    return infinite(negative) if math.isinf(value) else Real("finite", negative, abs(Fraction(value)))


def number(bits: int, kind: str, flushes: bool, arch: str) -> Real:
    if kind in ("fp8", "bf8") and arch == "gfx950":
        return ocp(bits, kind)
    if kind == "fp8":
        return eighth(bits, 3, 8)
    if kind == "bf8":
        return eighth(bits, 2, 16)
    fmt = FLOATS[kind]
    return decode(flush(bits, fmt) if flushes and fmt.width == 16 else bits, fmt)


def set_bits(w: Wave, first: int, bit: int, lane: int, value: int, width: int) -> None:
    w.v[first + bit // 32][lane] |= np.uint32((value << bit % 32) & 0xFFFFFFFF)
    if width == 64:
        w.v[first + bit // 32 + 1][lane] = value >> 32


def result(row: OpcodeRow, a: int, b: int, c: int, flushes: bool, arch: str) -> int | None:
    """Bits of a * b + c; None for a NaN."""
    assert row.mfma is not None
    ta, tb, tc = row.mfma.types
    if tc == "i32":
        signed = [v - 256 if v > 127 else v for v in (a, b)]
        return (signed[0] * signed[1] + c) & 0xFFFFFFFF
    fmt = FLOATS[tc]
    start = decode(flush(c, fmt) if flushes else c, fmt)
    total = add(add(mul(number(a, ta, flushes, arch), number(b, tb, flushes, arch)), start, 0), finite(Fraction(0)), 0)
    if total.kind == "nan":
        return None
    bits = encode(total, fmt)
    return flush(bits, fmt) if flushes else bits


def one_nonzero(name: str, arch: str) -> list[str]:
    row = ROWS[name]
    assert row.mfma is not None
    m, n, k, blocks = row.mfma.shape
    ta, tb, tc = row.mfma.types
    flushes = arch == "gfx90a" and ta in ("f16", "bf16")
    a, b = (np.array(picks(name, s, EDGES[t], blocks * d), object).reshape(blocks, d)
            for s, t, d in (("a", ta, m), ("b", tb, n)))  # fmt: skip
    w = Wave(96)
    for first, matrix, kind, rows in ((A, a, ta, m), (B, b, tb, n)):
        per_lane = rows * k * blocks // LANES
        assert per_lane >= 1
        for block in range(blocks):
            for i in range(rows):
                set_bits(w, first, 0, i + rows * block, int(matrix[block, i]), BITS[kind])
    wide = tc == "f64"
    edges_c = {"f32": EDGES_F32, "f64": EDGES_F64, "i32": EDGES_INT}[tc]
    start = {}
    for block, i, j in np.ndindex(blocks, m, n):
        reg, lane = accumulator_place(row.mfma, block, i, j)
        start[block, i, j] = picks(name, f"{block},{i},{j}", edges_c, 1)[0]
        low = D + reg * (2 if wide else 1)
        w.v[low][lane] = start[block, i, j] & 0xFFFFFFFF
        if wide:
            w.v[low + 1][lane] = start[block, i, j] >> 32
    d, sa, sb, _ = row.sig.split()
    after = w.run(f"{name} {registers(d, D)}, {registers(sa, A)}, {registers(sb, B)}, {registers(d, D)}", arch)
    bad = []
    for block, i, j in np.ndindex(blocks, m, n):
        reg, lane = accumulator_place(row.mfma, block, i, j)
        low = D + reg * (2 if wide else 1)
        got = int(after.v[low][lane]) | (int(after.v[low + 1][lane]) << 32 if wide else 0)
        x, y, z = int(a[block, i]), int(b[block, j]), start[block, i, j]
        want = result(row, x, y, z, flushes, arch)
        fmt = FLOATS.get(tc)
        if fmt is None:
            right = got == want
        elif want is None:
            right = decode(got, fmt).kind == "nan"
        else:
            zeros = not (got | want) & (fmt.sign_bit - 1)
            right = got == want or zeros
        if not right:
            bad.append(f"{name} on {arch}: {x:#x} * {y:#x} + {z:#x} -> {got:#x}, expected {want}")
    return bad


CASES = [(name, arch) for name, row in ROWS.items() for arch in row.archs]


@pytest.mark.parametrize(("name", "arch"), CASES[::5])
def test_edge_values_of_a_sample_of_opcodes(name: str, arch: str) -> None:
    bad = one_nonzero(name, arch)
    assert not bad, f"{len(bad)} differences, the first:\n" + "\n".join(bad[:6])


@pytest.mark.full
@pytest.mark.parametrize(("name", "arch"), CASES)
def test_edge_values_of_every_opcode(name: str, arch: str) -> None:
    bad = one_nonzero(name, arch)
    assert not bad, f"{len(bad)} differences, the first:\n" + "\n".join(bad[:6])
