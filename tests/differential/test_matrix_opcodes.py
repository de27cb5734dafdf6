"""Do matrix instructions multiply the matrices that their register layout says?

Layout as AMD publishes it (matrix instruction calculator): A element (block, i, k) stands in lane
i + M * (block + blocks * (k // per_lane)) at position k % per_lane; 32-bit accumulators hold groups of four rows.
Inputs are small integers, so sums are exact in every format and order.
"""

from __future__ import annotations

import numpy as np
import pytest
from alu_cases import usual_arch
from wave_helpers import LANES, Wave

from hipsynth.simulator.isa.table import Mfma, OpcodeRow, load_rows

# Those of mixed formats are in test_cdna4_matrices.py.
ROWS = {r.name: r for r in load_rows() if r.mfma is not None and not r.mfma.sparse and "f8f6f4" not in r.name}
SPARSE = {r.name: r for r in load_rows() if r.mfma is not None and r.mfma.sparse}
BITS = {"f32": 32, "xf32": 32, "f16": 16, "bf16": 16, "i8": 8, "fp8": 8, "bf8": 8, "f64": 64}
A, B, C, D = 64, 72, 0, 32


def fp8_bits(x: int, mantissa: int, bias: int) -> int:
    if x == 0:
        return 0
    e = abs(x).bit_length() - 1
    return (0x80 if x < 0 else 0) | (e + bias) << mantissa | ((abs(x) << mantissa >> e) & ((1 << mantissa) - 1))


def encode(x: int, kind: str, arch: str = "gfx942") -> int:
    """The bits of a small integer; gfx950 has OCP's 8-bit floats, whose exponents are biased by one less."""
    if kind in ("f32", "xf32"):
        return int(np.float32(x).view(np.uint32))
    if kind == "f16":
        return int(np.float16(x).view(np.uint16))
    if kind == "bf16":
        return int(np.float32(x).view(np.uint32)) >> 16
    if kind == "f64":
        return int(np.float64(x).view(np.uint64))
    if kind == "i8":
        return x & 0xFF
    less = arch == "gfx950"
    return fp8_bits(x, 3, 8 - less) if kind == "fp8" else fp8_bits(x, 2, 16 - less)


def place_input(w: Wave, first: int, kind: str, matrix: np.ndarray, arch: str = "gfx942") -> None:
    """matrix[block, i, k] into registers from `first`."""
    blocks, m, depth = matrix.shape
    per_lane = m * depth * blocks // LANES
    for b in range(blocks):
        for i in range(m):
            for k in range(depth):
                lane, n = i + m * (b + blocks * (k // per_lane)), k % per_lane
                bit = n * BITS[kind]
                value = encode(int(matrix[b, i, k]), kind, arch)
                w.v[first + bit // 32][lane] |= np.uint32((value << bit % 32) & 0xFFFFFFFF)
                if BITS[kind] == 64:
                    w.v[first + bit // 32 + 1][lane] = value >> 32


def accumulator_place(mfma: Mfma, b: int, i: int, j: int) -> tuple[int, int]:
    """(accumulator number, lane) of D[b][i][j]."""
    m, n, _, _ = mfma.shape
    if m == 4:
        return (0, 16 * i + 4 * b + j) if mfma.types[2] == "f64" else (i, 4 * b + j)
    if mfma.types[2] == "f64":
        return i // 4, 16 * (i % 4) + j
    groups = LANES // n
    return b * (m // groups) + i // (4 * groups) * 4 + i % 4, n * (i // 4 % groups) + j


def accumulator(mfma: Mfma, w: Wave, first: int) -> np.ndarray:
    m, n, _, blocks = mfma.shape
    out = np.zeros((blocks, m, n))
    kind = {"f32": np.float32, "i32": np.int32, "f64": np.float64}[mfma.types[2]]
    for b, i, j in np.ndindex(blocks, m, n):
        reg, lane = accumulator_place(mfma, b, i, j)
        if kind is np.float64:
            raw = np.uint64(int(w.v[first + 2 * reg][lane]) | int(w.v[first + 2 * reg + 1][lane]) << 32)
        else:
            raw = w.v[first + reg][lane]
        out[b, i, j] = raw.view(kind)
    return out


def registers(token: str, first: int) -> str:
    count = int("".join(c for c in token.split(":")[1] if c.isdigit()))
    return f"v{first}" if count == 1 else f"v[{first}:{first + count - 1}]"


def multiply(row: OpcodeRow, suffix: str = "") -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(A, B, D) after one instruction with C = 0 and a second one with C = D."""
    assert row.mfma is not None
    m, n, k, blocks = row.mfma.shape
    rng = np.random.default_rng(len(row.name))
    a = rng.integers(-3, 4, (blocks, m, k))
    b = rng.integers(-3, 4, (blocks, n, k))
    w = Wave(96)
    place_input(w, A, row.mfma.types[0], a, usual_arch(row))
    place_input(w, B, row.mfma.types[1], b, usual_arch(row))
    d, ta, tb, _ = row.sig.split()
    dst = registers(d, D)
    operands = f"{dst}, {registers(ta, A)}, {registers(tb, B)}"
    after = w.run(f"{row.name} {operands}, 0{suffix}\n{row.name} {operands}, {dst}{suffix}", arch=usual_arch(row))
    return a, b, accumulator(row.mfma, after, D)


SMALL = [n for n, r in ROWS.items() if r.mfma is not None and r.mfma.shape[0] * r.mfma.shape[3] <= 64]


@pytest.mark.parametrize("name", SMALL)
def test_product_and_accumulation(name: str) -> None:
    a, b, d = multiply(ROWS[name])
    assert (d == 2 * np.einsum("bik,bjk->bij", a, b)).all()


def test_every_matrix_opcode_is_tested_here() -> None:
    assert set(SMALL) == set(ROWS)


def test_broadcast_of_a_blocks() -> None:
    """cbsz:1 abid:1 shares the second of every two blocks of A."""
    a, b, d = multiply(ROWS["v_mfma_f32_4x4x1f32"], " cbsz:1 abid:1")
    shared = a[[i | 1 for i in range(16)]]
    assert (d == 2 * np.einsum("bik,bjk->bij", shared, b)).all()


@pytest.mark.parametrize("arch", ["gfx90a", "gfx942"])
def test_doubles_have_no_broadcast(arch: str) -> None:
    """CDNA3 ISA, section 7.1.5: f64 instructions ignore cbsz and abid."""
    rng, w = np.random.default_rng(7), Wave(96)
    w.v[A : A + 4] = (
        rng.normal(size=(2, LANES)).view(np.uint32).reshape(2, LANES, 2).transpose(0, 2, 1).reshape(4, LANES)
    )
    name = "v_mfma_f64_4x4x4f64" if arch == "gfx90a" else "v_mfma_f64_4x4x4_4b_f64"
    line = f"{name} v[{D}:{D + 1}], v[{A}:{A + 1}], v[{A + 2}:{A + 3}], 0"
    plain, shared = (w.run(line + suffix, arch).v[D : D + 2] for suffix in ("", " cbsz:1 abid:1"))
    assert plain.any() and (plain == shared).all()


@pytest.mark.parametrize("choice", ["", " cbsz:0 abid:1", " cbsz:1 abid:1"])
@pytest.mark.parametrize("name", SPARSE)
def test_sparse_product(name: str, choice: str) -> None:
    """Two of every four A elements along K are given, with their positions as 2-bit indices."""
    row = SPARSE[name]
    assert row.mfma is not None
    m, n, k, _ = row.mfma.shape
    rng = np.random.default_rng(len(name))
    packed, b = rng.integers(-3, 4, (1, m, k // 2)), rng.integers(-3, 4, (1, n, k))
    positions = np.array([sorted(rng.choice(4, 2, replace=False)) for _ in range(m * k // 4)]).reshape(m, k // 2)
    dense = np.zeros((m, k))
    for i, at in np.ndindex(m, k // 2):
        dense[i, 4 * (at // 2) + positions[i, at]] = packed[0, i, at]
    w = Wave(96)
    place_input(w, A, row.mfma.types[0], packed, usual_arch(row))
    place_input(w, B, row.mfma.types[1], b, usual_arch(row))
    per_lane = m * k // 2 // LANES
    w.v[80] = rng.integers(0, 1 << 32, LANES, dtype=np.uint32)  # the sets that are not chosen
    # The second set of indices; where one set fills the register, there is no choice.
    shift = 2 * per_lane if "cbsz:0" in choice and 4 * per_lane <= 32 else 0
    for i, at in np.ndindex(m, k // 2):
        lane, bit = i + m * (at // per_lane), shift + 2 * (at % per_lane)
        w.v[80][lane] = w.v[80][lane] & ~np.uint32(3 << bit) | np.uint32(int(positions[i, at]) << bit)
    d, ta, tb, _ = row.sig.split()
    line = f"{name} {registers(d, D)}, {registers(ta, A)}, {registers(tb, B)}, v80{choice}"
    after = w.run(f"{line}\n{line}", arch=usual_arch(row))
    assert (accumulator(row.mfma, after, D)[0] == 2 * dense @ b[0].T).all()


def test_accumulators_may_be_agprs_and_constants() -> None:
    w = Wave(96)
    w.floats(A, 1.0), w.floats(B, 2.0)
    after = w.run(f"v_mfma_f32_16x16x4f32 a[0:3], v{A}, v{B}, 1.0", arch="gfx90a", accum_offset=32)
    assert (after.v[32:36].view(np.float32) == 9.0).all()
