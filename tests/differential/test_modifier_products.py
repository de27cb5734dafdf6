"""Do selects, signs, extensions and destinations of packed and SDWA instructions combine as the ISA guides say?

Every combination of the modifiers, on random bits; the oracle takes the operands apart with numpy.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest
from wave_helpers import LANES, Wave

Bits = np.ndarray
BYTES = {f"BYTE_{k}": (8, 8 * k) for k in range(4)}
SELECTS = BYTES | {"WORD_0": (16, 0), "WORD_1": (16, 16), "DWORD": (32, 0)}


def random_bits(seed: int, rows: int = 3) -> list[Bits]:
    """Random words whose halves and whole are numbers of moderate size, so that no NaN hides a wrong sign."""
    rng = np.random.default_rng(seed)
    words = [rng.integers(0, 1 << 32, LANES, dtype=np.uint32) for _ in range(rows)]
    return [(w & np.uint32(0x8FFF8FFF)) | np.uint32(0x30003000) for w in words]


def listed(value: int, count: int) -> str:
    return "[" + ",".join(str(value >> k & 1) for k in range(count)) + "]"


def half(word: Bits, high: int, negative: int) -> Bits:
    return ((word >> np.uint32(16 * high)) & 0xFFFF ^ (0x8000 if negative else 0)).astype(np.uint16)


def fused(a: Bits, b: Bits, c: Bits) -> Bits:
    """Halves multiplied and added in doubles, which hold the exact sum, and rounded once."""
    x, y, z = (v.view(np.float16).astype(np.float64) for v in (a, b, c))
    with np.errstate(over="ignore"):
        return (x * y + z).astype(np.float16).view(np.uint16)


PACKED: dict[str, tuple[int, bool, Callable[..., Bits]]] = {
    "v_pk_fma_f16": (3, True, fused),
    "v_pk_add_f16": (2, True, lambda a, b: (a.view(np.float16) + b.view(np.float16)).view(np.uint16)),
    "v_pk_max_f16": (2, True, lambda a, b: np.maximum(a.view(np.float16), b.view(np.float16)).view(np.uint16)),
    "v_pk_mad_u16": (3, False, lambda a, b, c: a * b + c),
    "v_pk_sub_i16": (2, False, lambda a, b: a - b),
    "v_pk_ashrrev_i16": (2, False, lambda a, b: (b.view(np.int16) >> (a & 15).view(np.int16)).view(np.uint16)),
}


@pytest.mark.parametrize("name", PACKED)
def test_packed_halves(name: str) -> None:
    count, signs, operation = PACKED[name]
    w = Wave()
    words = random_bits(len(name))
    w.v[1], w.v[2], w.v[3] = words
    lines, wanted = [], []
    choices = range(1 << count)
    negations = [(0, 0), (1, 6), (5, 2), (7, 7)] if signs else [(0, 0)]
    for low, high, (neg_lo, neg_hi) in itertools.product(choices, choices, negations):
        text = f"{name} v4, " + ", ".join(f"v{k + 1}" for k in range(count))
        text += f" op_sel:{listed(low, count)} op_sel_hi:{listed(high, count)}"
        text += f" neg_lo:{listed(neg_lo, count)} neg_hi:{listed(neg_hi, count)}" if signs else ""
        lines.append(text)
        parts = [
            operation(*(half(words[k], select >> k & 1, negative >> k & 1) for k in range(count)))
            for select, negative in ((low, neg_lo), (high, neg_hi))
        ]
        wanted.append(parts[0].astype(np.uint32) | parts[1].astype(np.uint32) << np.uint32(16))
    for text, want in zip(lines, wanted, strict=True):
        got = w.run(text).v[4]
        assert (got == want).all(), text


def test_packed_floats() -> None:
    w = Wave()
    rng = np.random.default_rng(5)
    values = rng.uniform(-8, 8, (3, 2, LANES)).astype(np.float32)
    for k, h in itertools.product(range(3), range(2)):
        w.v[2 + 2 * k + h] = values[k, h].view(np.uint32)
    for low, high, signs in itertools.product(range(8), range(8), (0, 3, 5)):
        text = f"v_pk_fma_f32 v[10:11], v[2:3], v[4:5], v[6:7] op_sel:{listed(low, 3)} op_sel_hi:{listed(high, 3)}"
        after = w.run(f"{text} neg_lo:{listed(signs, 3)} neg_hi:{listed(7 ^ signs, 3)}")
        for h, (select, negative) in enumerate(((low, signs), (high, 7 ^ signs))):
            a, b, c = (
                values[k, select >> k & 1].astype(np.float64) * (-1 if negative >> k & 1 else 1) for k in range(3)
            )
            assert (after.as_floats(10 + h) == (a * b + c).astype(np.float32)).all(), text


def chosen(word: Bits, select: str, extend: bool) -> Bits:
    width, shift = SELECTS[select]
    field = (word >> np.uint32(shift)).astype(np.uint64) & np.uint64((1 << width) - 1)
    if extend and width < 32:
        field = np.where(field >> np.uint64(width - 1), field | np.uint64(0xFFFFFFFF ^ ((1 << width) - 1)), field)
    return field.astype(np.uint32)


def placed(value: Bits, old: Bits, select: str, unused: str) -> Bits:
    """The result in its part of the destination; the rest is zero, the sign, or what was there."""
    width, shift = SELECTS[select]
    if width == 32:
        return value
    mask = np.uint32(((1 << width) - 1) << shift)
    part = (value << np.uint32(shift)) & mask
    if unused == "UNUSED_PRESERVE":
        return part | old & ~mask
    if unused == "UNUSED_SEXT":
        above = np.uint32(0xFFFFFFFF ^ ((1 << (width + shift)) - 1))
        return np.where(value >> np.uint32(width - 1) & 1, part | above, part)
    return part


@pytest.mark.parametrize("unused", ["UNUSED_PAD", "UNUSED_SEXT", "UNUSED_PRESERVE"])
@pytest.mark.parametrize("dst", SELECTS)
def test_sdwa_of_integers(dst: str, unused: str) -> None:
    """Sources of every part, with and without sign extension."""
    w = Wave()
    rng = np.random.default_rng(len(dst) + len(unused))
    a, b, old = (rng.integers(0, 1 << 32, LANES, dtype=np.uint32) for _ in range(3))
    w.v[1], w.v[2], w.v[4] = a, b, old
    for (first, second), (x, y) in itertools.product(itertools.product(SELECTS, SELECTS), ((0, 0), (1, 0), (0, 1))):
        sources = ["sext(v1)" if x else "v1", "sext(v2)" if y else "v2"]
        text = f"v_add_u32_sdwa v4, {sources[0]}, {sources[1]} dst_sel:{dst} dst_unused:{unused}"
        got = w.run(f"{text} src0_sel:{first} src1_sel:{second}").v[4]
        want = placed(chosen(a, first, bool(x)) + chosen(b, second, bool(y)), old, dst, unused)
        assert (got == want).all(), (text, first, second)


@pytest.mark.parametrize("words", list(itertools.product(("WORD_0", "WORD_1"), repeat=3)))
def test_sdwa_of_halves(words: tuple[str, str, str]) -> None:
    """Signs and magnitudes act on the part that was chosen."""
    first, second, dst = words
    w = Wave()
    a, b, old = random_bits(9)
    w.v[1], w.v[2], w.v[4] = a, b, old
    forms: dict[str, Callable[[Bits], Bits]] = {
        "{}": lambda h: h, "-{}": lambda h: h ^ 0x8000, "|{}|": lambda h: h & 0x7FFF, "-|{}|": lambda h: h | 0x8000,
    }  # fmt: skip
    for x, y in itertools.product(forms, forms):
        text = f"v_add_f16_sdwa v4, {x.format('v1')}, {y.format('v2')} dst_sel:{dst} dst_unused:UNUSED_PRESERVE"
        got = w.run(f"{text} src0_sel:{first} src1_sel:{second}").v[4]
        left, right = (forms[f](chosen(v, s, False)).astype(np.uint16) for f, v, s in ((x, a, first), (y, b, second)))
        total = (left.view(np.float16) + right.view(np.float16)).view(np.uint16).astype(np.uint32)
        assert (got == placed(total, old, dst, "UNUSED_PRESERVE")).all(), text


@pytest.mark.parametrize("bits", range(16))
def test_op_sel_of_single_halves(bits: int) -> None:
    """v_fma_f16 in VOP3: a half of each source, and of the destination, whose other half stays."""
    w = Wave()
    a, b, c = words = random_bits(11)
    w.v[1], w.v[2], w.v[3], w.v[4] = a, b, c, 0x12345678
    got = w.run(f"v_fma_f16 v4, v1, -v2, |v3| op_sel:{listed(bits, 4)}").v[4]
    x, y, z = (half(words[k], bits >> k & 1, 0) for k in range(3))
    value = fused(x, y ^ np.uint16(0x8000), z & np.uint16(0x7FFF)).astype(np.uint32)
    want = value << np.uint32(16) | 0x5678 if bits >> 3 else value | 0x12340000
    assert (got == want).all()
