"""Do the matrix instructions of f8f6f4 operands multiply what their formats, layout and scales say?

Layout: AMD, "Matrix Core Programming on CDNA3 and CDNA4". A lane's 32 elements are 32 consecutive k of its group of
lanes, for 8-bit formats 16 of the lower half of K and 16 of the upper. Sums of small integers are exact in any order.
"""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from ocp_floats import CODES, encode, width_of
from wave_helpers import LANES, Wave

from hipsynth.simulator import _core

SHAPES = {"32x32x64": (32, 64), "16x16x128": (16, 128)}
A, B, C, SA, SB = 32, 48, 64, 24, 25
DWORDS = {8: 8, 6: 6, 4: 4}


def first_k(lane: int, n: int, m: int, depth: int, width: int) -> int:
    group = lane // m
    return n // 16 * (depth // 2) + 16 * group + n % 16 if width == 8 else 32 * group + n


def place(w: Wave, first: int, kind: str, matrix: np.ndarray) -> None:
    """matrix[row, k] of small integers into registers from `first`."""
    m, depth = matrix.shape
    width = width_of(kind)
    codes = {value: encode(float(value), Fraction(1), kind) for value in range(-2, 3)}
    for lane in range(LANES):
        packed = 0
        for n in range(32):
            packed |= codes[int(matrix[lane % m, first_k(lane, n, m, depth, width)])] << n * width
        for r in range(width):
            w.v[first + r][lane] = packed >> 32 * r & 0xFFFFFFFF


def product(w: Wave, m: int) -> np.ndarray:
    out = np.zeros((m, m))
    for i, j in np.ndindex(m, m):
        groups = LANES // m
        register, lane = i // (4 * groups) * 4 + i % 4, m * (i // 4 % groups) + j
        out[i, j] = w.v[register][lane].view(np.float32)
    return out


def tuple_of(first: int, count: int) -> str:
    return f"v[{first}:{first + count - 1}]"


EVERY_PAIR = [("16x16x128", pair) for pair in itertools.product(CODES, CODES)]
SOME_PAIRS = [("32x32x64", pair) for pair in (("fp8", "bf8"), ("fp6", "fp4"), ("fp4", "fp4"), ("bf6", "fp8"))]


@pytest.mark.parametrize(("shape", "formats"), EVERY_PAIR + SOME_PAIRS)
def test_products_of_every_pair_of_formats(shape: str, formats: tuple[str, str]) -> None:
    m, depth = SHAPES[shape]
    rng = np.random.default_rng(m)
    a, b = rng.integers(-2, 3, (m, depth)), rng.integers(-2, 3, (m, depth))
    w = Wave(96)
    place(w, A, formats[0], a), place(w, B, formats[1], b)
    acc = tuple_of(0, m * m // LANES)
    sources = ", ".join(tuple_of(r, width_of(f)) for r, f in zip((A, B), formats, strict=True))
    tail = "".join(f" {n}:{CODES[f]}" for n, f in zip(("cbsz", "blgp"), formats, strict=True) if CODES[f])
    name = f"v_mfma_f32_{shape}_f8f6f4"
    after = w.run(f"{name} {acc}, {sources}, 0{tail}\n{name} {acc}, {sources}, {acc}{tail}", arch="gfx950")
    assert (product(after, m) == 2 * a @ b.T).all()


@pytest.mark.parametrize("formats", [("fp8", "fp8"), ("fp4", "fp4"), ("fp8", "fp4"), ("bf6", "bf8")])
@pytest.mark.parametrize("shape", SHAPES)
def test_each_block_of_32_has_its_scale(shape: str, formats: tuple[str, str]) -> None:
    """Byte `op_sel + 2 op_sel_hi` of lane i + M * block holds the exponent of row i's block."""
    m, depth = SHAPES[shape]
    rng = np.random.default_rng(m + 1)
    a, b = rng.integers(-2, 3, (m, depth)), rng.integers(-2, 3, (m, depth))
    w = Wave(96)
    place(w, A, formats[0], a), place(w, B, formats[1], b)
    exponents = rng.integers(-2, 3, (2, LANES))
    junk = rng.integers(0, 256, (2, 4, LANES))
    for register, byte, n in ((SA, 1, 0), (SB, 2, 1)):
        junk[n, byte] = exponents[n] + 127
        w.v[register] = sum(junk[n, k].astype(np.uint32) << np.uint32(8 * k) for k in range(4))
    acc = tuple_of(0, m * m // LANES)
    sources = ", ".join(tuple_of(r, width_of(f)) for r, f in zip((A, B), formats, strict=True))
    tail = " op_sel:[1,0,0] op_sel_hi:[0,1,0]"
    tail += "".join(f" {n}:{CODES[f]}" for n, f in zip(("cbsz", "blgp"), formats, strict=True) if CODES[f])
    after = w.run(f"v_mfma_scale_f32_{shape}_f8f6f4 {acc}, {sources}, 0, v{SA}, v{SB}{tail}", arch="gfx950")
    scaled = []
    for matrix, powers in zip((a, b), exponents, strict=True):
        factors = np.array([[2.0 ** powers[row + m * (k // 32)] for k in range(depth)] for row in range(m)])
        scaled.append(matrix * factors)
    assert (product(after, m) == scaled[0] @ scaled[1].T).all()


@pytest.mark.parametrize(
    "text",
    [
        "v_mfma_f32_32x32x64_f8f6f4 v[0:15], v[16:19], v[24:31], v[0:15]",  # fp8 needs eight registers
        "v_mfma_f32_32x32x64_f8f6f4 v[0:15], v[16:23], v[24:31], v[0:15] cbsz:4",  # and fp4 four
        "v_mfma_f32_32x32x64_f8f6f4 v[0:15], v[16:23], v[24:31], v[0:15] cbsz:5",
        "v_mfma_scale_f32_32x32x64_f8f6f4 v[0:15], v[16:23], v[24:31], v[0:15], v[32:33], v34",
    ],
)
def test_operands_of_other_widths_are_refused(text: str) -> None:
    assert _core.decode("gfx950", text)["unsupported"]
