"""Do the instructions that CDNA4 added compute what its manual, its pseudo-code and the formats of the OCP say?"""

from __future__ import annotations

import math
import re
from fractions import Fraction

import numpy as np
import pytest
from ocp_floats import FORMATS, encode, finite_codes, nearest_codes, value_of, width_of
from wave_helpers import ALL, LANE, LANES, Wave

from hipsynth.simulator.isa.table import load_rows

SCALED = [row for row in load_rows() if row.name.startswith("v_cvt_scalef32_")]
EXACT = [row.name for row in SCALED if "_sr_" not in row.name]
RANDOM = [row.name for row in SCALED if "_sr_" in row.name]
WIDE = {"f32": 32, "f16": 16, "bf16": 16}
SCALES = (1.0, 0.25, 8.0, 2.0**-40, 2.0**30)
FP16_OVFL = 1 << 23 | 0x3F0


def run(w: Wave, text: str, mode: int = 0x3F0) -> Wave:
    return w.run(text, arch="gfx950", mode=mode)


# --- moves and bits -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("group", [16, 32])
@pytest.mark.parametrize("active", [ALL, 0x0000FFFF_F0F0F0F0])
@pytest.mark.parametrize("reads", ["", " bound_ctrl:1", " fi:1"])
def test_groups_of_lanes_change_places(group: int, active: int, reads: str) -> None:
    w = Wave()
    w.v[1], w.v[2] = LANE + 100, LANE + 200
    w.exec = active
    after = run(w, f"v_permlane{group}_swap_b32{'_e64' if reads else ''} v1, v2{reads}")
    for lane in range(LANES):
        register, other = (1, lane - group) if lane & group else (2, lane + group)
        old, moved = int(w.v[register][lane]), int(w.v[3 - register][other])
        untouched = 3 - register
        assert after.v[untouched][lane] == w.v[untouched][lane]
        if not active >> lane & 1:
            want = old
        elif active >> other & 1 or "fi" in reads:
            want = moved
        else:
            want = 0 if "bound_ctrl" in reads else old
        assert after.v[register][lane] == want, (group, lane, reads)


@pytest.mark.parametrize("table", [0x00, 0xFF, 0x5A, 0xCA, 0x96, 0xE8, 0x40, 0x01])
def test_any_function_of_three_bits(table: int) -> None:
    rng = np.random.default_rng(table)
    w = Wave()
    w.v[1:5] = rng.integers(0, 1 << 32, (4, LANES), np.uint32)
    after = run(
        w,
        f"v_bitop3_b32 v10, v1, v2, v3 bitop3:{table:#x}\n"
        f"v_bitop3_b16 v4, v1, v2, v3 bitop3:{table:#x} op_sel:[1,0,1,1]",
    )

    def applied(a: int, b: int, c: int, bits: int) -> int:
        return sum((table >> (4 * (a >> k & 1) + 2 * (b >> k & 1) + (c >> k & 1)) & 1) << k for k in range(bits))

    for lane in range(LANES):
        a, b, c, d = (int(w.v[r][lane]) for r in (1, 2, 3, 4))
        assert after.v[10][lane] == applied(a, b, c, 32)
        assert after.v[4][lane] == applied(a >> 16, b & 0xFFFF, c >> 16, 16) << 16 | d & 0xFFFF


# --- floats of 8 bits as the OCP defines them -----------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["fp8", "bf8"])
def test_every_8_bit_float_is_the_one_of_the_ocp(kind: str) -> None:
    for first in range(0, 256, LANES):
        w = Wave()
        w.v[1] = first + LANE
        got = run(w, f"v_cvt_f32_{kind} v2, v1").as_floats(2)
        want = [value_of(first + lane, kind) for lane in range(LANES)]
        assert np.array_equal(got, np.array(want, np.float32), equal_nan=True)


INTERESTING = [0.0, -0.0, 1.0, -1.5, 448.0, 449.0, 464.0, 465.0, -480.0, 57344.0, 61440.0, 65000.0, 1e9, math.inf]
INTERESTING += [-math.inf, math.nan, 2.0**-9, 2.0**-10, 1.5 * 2.0**-10, 2.0**-17, 2.0**-16, 0.3, 1.0625, 1.1875, 6.0]
INTERESTING += [7.0, 28.0, 30.0, 31.0, 7.5, 7.75, 5.0, 0.25, 0.75, -2.5, 3.5, -0.124, 0.0625, 200.0, 2.0**-149]


def interesting(rng: np.random.Generator, count: int) -> np.ndarray:
    drawn = rng.normal(size=count) * 2.0 ** rng.integers(-8, 9, count)
    chosen = rng.choice(np.array(INTERESTING), count)
    return np.where(rng.random(count) < 0.5, chosen, drawn).astype(np.float32)


@pytest.mark.parametrize("saturate", [False, True])
@pytest.mark.parametrize("kind", ["fp8", "bf8"])
def test_conversions_to_8_bit_floats_of_the_ocp(kind: str, saturate: bool) -> None:
    rng = np.random.default_rng(8)
    w = Wave()
    values = interesting(rng, 2 * LANES)
    w.floats(1, values[:LANES]), w.floats(2, values[LANES:])
    after = run(w, f"v_cvt_pk_{kind}_f32 v4, v1, v2", FP16_OVFL if saturate else 0x3F0)
    for lane in range(LANES):
        low, high = (encode(float(values[lane + n]), Fraction(1), kind, saturate) for n in (0, LANES))
        assert after.v[4][lane] == low | high << 8, values[[lane, lane + LANES]]


# --- conversions with a scale ---------------------------------------------------------------------------------------


def wide_bits(x: float, kind: str) -> int:
    with np.errstate(over="ignore"):
        if kind == "f16":
            return int(np.float16(x).view(np.uint16))
    bits = int(np.float32(x).view(np.uint32))
    return bits if kind == "f32" else bits >> 16


def wide_value(bits: int, kind: str) -> float:
    if kind == "f16":
        return float(np.uint16(bits).view(np.float16))
    return float(np.uint32(bits if kind == "f32" else bits << 16).view(np.float32))


def rounded(x: Fraction, kind: str) -> int:
    """The nearest wide float to an exact value that is not huge: f32 holds more digits than any small float has."""
    single = np.float32(float(x))
    if kind == "bf16":
        bits = int(single.view(np.uint32))
        return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    with np.errstate(over="ignore"):
        return wide_bits(float(x) if kind == "f16" else float(single), kind)


def names_of(name: str) -> tuple[str, str, bool]:
    """(small format, wide format, whether the conversion narrows)."""
    match = re.fullmatch(r"v_cvt_scalef32_(?:sr_)?(?:pk32_|2xpk16_|pk_)?(\w+?)_(\w+)", name)
    assert match is not None
    to, source = match[1], match[2]
    return (to, source, True) if to in FORMATS else (source, to, False)


def elements(name: str) -> int:
    return 32 if "pk32" in name or "2xpk16" in name else 2 if "_pk_" in name else 1


def registers(first: int, count: int) -> str:
    return f"v{first}" if count == 1 else f"v[{first}:{first + count - 1}]"


def store(w: Wave, first: int, width: int, lane: int, n: int, bits: int) -> None:
    """Puts element n of `width` bits into the lane's registers from `first`."""
    at = n * width
    w.v[first + at // 32][lane] |= np.uint32(bits << at % 32 & 0xFFFFFFFF)
    if at % 32 + width > 32:
        w.v[first + at // 32 + 1][lane] |= np.uint32(bits >> (32 - at % 32))


def fetch(w: Wave, first: int, width: int, lane: int, n: int) -> int:
    at = n * width
    pair = int(w.v[first + at // 32][lane]) | int(w.v[first + at // 32 + 1][lane]) << 32
    return pair >> at % 32 & ((1 << width) - 1)


A, B, SCALE, NOISE, D = 8, 40, 72, 73, 76


class Conversion:
    """One scaled conversion on 64 lanes with random operands."""

    def __init__(self, name: str, seed: int, noise: int | None = None) -> None:
        self.name, self.count = name, elements(name)
        self.small, self.wide, self.narrows = names_of(name)
        rng = np.random.default_rng(seed)
        self.scales = rng.choice(np.array(SCALES), LANES)
        w = self.before = Wave(112)
        w.floats(SCALE, self.scales * rng.uniform(1, 1.99, LANES))  # only its exponent counts
        w.v[NOISE] = rng.integers(0, 1 << 32, LANES, np.uint32) if noise is None else noise
        w.v[D : D + 33] = 0xABABABAB
        if self.narrows:
            drawn = interesting(rng, LANES * self.count).reshape(LANES, -1) * self.scales[:, None].astype(np.float32)
            self.bits = [[wide_bits(float(x), self.wide) for x in row] for row in drawn]
        else:
            self.bits = rng.integers(0, 1 << width_of(self.small), (LANES, self.count)).tolist()
        for lane in range(LANES):
            for n, bits in enumerate(self.bits[lane]):
                self._place(lane, n, bits)

    def _place(self, lane: int, n: int, bits: int) -> None:
        apart = self.narrows and self.wide == "f32" and "_sr_" not in self.name and self.count > 1
        if apart:  # elements of two sources in turn
            store(self.before, B if n % 2 else A, 32, lane, n // 2, bits)
        else:
            store(self.before, A, WIDE[self.wide] if self.narrows else width_of(self.small), lane, n, bits)

    def text(self, op_sel: str = "") -> str:
        width = WIDE[self.wide]
        row = next(row for row in SCALED if row.name == self.name)
        operands = []
        for token in row.sig.split():
            slot, kind = token.split(":")
            digits = re.sub(r"\D", "", kind) if kind.startswith("mat") else "2" if kind in ("pk_f32", "b64") else "1"
            last = slot == ("c" if " c:" in row.sig else "b")
            noise = slot == "b" and "_sr_" in self.name
            first = D if slot == "d" else A if slot == "a" else SCALE if last else NOISE if noise else B
            operands.append(registers(first, int(digits)))
        assert width
        return f"{self.name} {', '.join(operands)}{op_sel}"

    def run(self, op_sel: str = "", saturate: bool = False) -> Wave:
        return run(self.before, self.text(op_sel), FP16_OVFL if saturate else 0x3F0)


@pytest.mark.parametrize("saturate", [False, True])
@pytest.mark.parametrize("name", EXACT)
def test_scaled_conversions(name: str, saturate: bool) -> None:
    one = Conversion(name, len(name))
    after = one.run(saturate=saturate)
    width = width_of(one.small) if one.narrows else WIDE[one.wide]
    for lane in range(LANES):
        scale = Fraction(float(one.scales[lane]))
        for n, bits in enumerate(one.bits[lane]):
            got = fetch(after, D, width, lane, n)
            if one.narrows:
                assert got == encode(wide_value(bits, one.wide), scale, one.small, saturate), (lane, n)
                continue
            value = value_of(bits, one.small)
            if not math.isfinite(value):
                assert str(wide_value(got, one.wide)) == str(value)
                continue
            want = rounded(Fraction(value) * scale, one.wide)
            assert got & ((1 << width - 1) - 1) == want & ((1 << width - 1) - 1), (lane, n, value)
    if width * one.count < 32:  # the rest of the register is kept
        assert (
            after.v[D] >> np.uint32(width * one.count) == np.uint32(0xABABABAB) >> np.uint32(width * one.count)
        ).all()


@pytest.mark.parametrize(
    ("name", "op_sel", "shift"),
    [
        ("v_cvt_scalef32_pk_fp8_f32", " op_sel:[0,0,0,1]", 16),
        ("v_cvt_scalef32_pk_bf8_f16", " op_sel:[0,0,1]", 16),
        ("v_cvt_scalef32_pk_fp4_f32", " op_sel:[0,0,1,0]", 8),
        ("v_cvt_scalef32_pk_fp4_f16", " op_sel:[0,0,1,1]", 24),
        ("v_cvt_scalef32_f16_fp8", " op_sel:[0,0,1]", 16),
    ],
)
def test_op_sel_names_the_place_of_a_result(name: str, op_sel: str, shift: int) -> None:
    one = Conversion(name, 3)
    plain, moved = one.run(), one.run(op_sel)
    width = (width_of(one.small) if one.narrows else WIDE[one.wide]) * one.count
    mask = (1 << width) - 1
    assert ((moved.v[D] >> np.uint32(shift) & np.uint32(mask)) == (plain.v[D] & np.uint32(mask))).all()
    rest = np.uint32(0xFFFFFFFF & ~(mask << shift))
    assert ((moved.v[D] & rest) == (np.uint32(0xABABABAB) & rest)).all()


@pytest.mark.parametrize(
    ("name", "op_sel", "shift"),
    [
        ("v_cvt_scalef32_pk_f32_fp8", " op_sel:[1,0,0]", 16),
        ("v_cvt_scalef32_pk_bf16_fp4", " op_sel:[0,1,0]", 16),
        ("v_cvt_scalef32_f32_bf8", " op_sel:[1,1,0]", 24),
    ],
)
def test_op_sel_names_the_place_of_a_source(name: str, op_sel: str, shift: int) -> None:
    one = Conversion(name, 4)
    plain = one.run()
    one.before.v[A] = one.before.v[A] << np.uint32(shift)
    moved = one.run(op_sel)
    count = 2 if one.wide == "f32" and one.count == 2 else 1
    assert np.array_equal(moved.v[D : D + count], plain.v[D : D + count])


@pytest.mark.parametrize("name", RANDOM)
def test_scaled_conversions_with_random_bits(name: str) -> None:
    """Without random bits a result is cut off; with any it is one of the two neighbours."""
    width = width_of(names_of(name)[0])
    for noise in (0, None):
        one = Conversion(name, len(name), noise)
        after = one.run()
        for lane in range(LANES):
            scale = Fraction(float(one.scales[lane]))
            for n, bits in enumerate(one.bits[lane]):
                value = wide_value(bits, one.wide)
                got, sign = fetch(after, D, width, lane, n), (1 << width - 1) if math.copysign(1, value) < 0 else 0
                largest = Fraction(value_of(finite_codes(one.small)[-1], one.small))
                if not math.isfinite(value) or abs(Fraction(value) / scale) > largest:
                    continue
                below, above = nearest_codes(Fraction(value) / scale, one.small)
                assert got in ((sign | below,) if noise == 0 else (sign | below, sign | above)), (lane, n, value)


def test_random_bits_round_as_often_as_the_value_is_near() -> None:
    """1.0625 lies half-way between two E4M3 floats: half of the random words round up."""
    w = Wave()
    w.floats(1, 1.0625), w.floats(3, 1.0)
    w.v[2] = np.arange(LANES, dtype=np.uint32) << np.uint32(26)
    after = run(w, "v_cvt_scalef32_sr_fp8_f32 v4, v1, v2, v3")
    assert sorted(set(after.v[4] & 0xFF)) == [0x38, 0x39] and (after.v[4] & 0xFF == 0x39).sum() == LANES // 2


@pytest.mark.parametrize(("kind", "dropped"), [("f16", 13), ("bf16", 16)])
def test_stochastic_halves(kind: str, dropped: int) -> None:
    rng = np.random.default_rng(dropped)
    w = Wave()
    values = rng.uniform(-100, 100, LANES).astype(np.float32)
    values[:3] = math.inf, -math.inf, math.nan
    w.floats(1, values)
    w.v[2] = rng.integers(0, 1 << 32, LANES, np.uint32)
    w.v[3] = w.v[4] = 0xABCDABCD
    after = run(w, f"v_cvt_sr_{kind}_f32 v3, v1, v2\nv_cvt_sr_{kind}_f32 v4, v1, v2 op_sel:[0,0,1]")
    for lane in range(LANES):
        low = int(after.v[3][lane]) & 0xFFFF
        assert after.v[3][lane] >> 16 == 0xABCD and after.v[4][lane] == low << 16 | 0xABCD
        got = wide_value(low, kind)
        if lane < 3:
            assert str(got) == str(float(values[lane]))
            continue
        bits = int(w.v[1][lane]) + (int(w.v[2][lane]) >> (32 - dropped)) & ~((1 << dropped) - 1)
        assert got == wide_value(bits, "f32")
