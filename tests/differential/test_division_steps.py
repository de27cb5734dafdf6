"""Does each step of the division sequence have the property that a correct quotient needs?

AMD's published pseudo-code of these opcodes does not give correctly rounded quotients (see native/isa/division.h), so
the oracle is the purpose of each step, in exact rational arithmetic, on a lattice of exponents around every limit:

- v_div_scale multiplies by powers of two, so that the Newton steps between stay among normal numbers, and sets VCC
  exactly when the quotient of the scaled operands is not the quotient wanted;
- v_div_fmas rounds once, after undoing that scale;
- v_div_fixup gives IEEE's special cases, and the quotients that Newton steps cannot give, for any input quotient.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from exact_floats import F32, F64, NEAREST, FloatFormat, add, decode, div, encode, finite, mul
from wave_helpers import LANES, Wave

FORMATS = {"f32": F32, "f64": F64}
SCALE = {F32: 64, F64: 128}
GARBAGE = {F32: 0x7FC00000, F64: 0x7FF8000000000000}  # what the Newton steps leave where they overflow


def exponents(fmt: FloatFormat) -> list[int]:
    """Fields around everything that decides: both ends, the precision, the scales, the bias and the published gaps."""
    top, p, s = 2 * fmt.bias, fmt.precision, SCALE[fmt]
    gap = 96 if fmt is F32 else 768
    near = [0, 1, p - 1, p, p + 1, s, gap, fmt.bias, fmt.bias + 1, top - gap, top - s, top - p, top - 1, top]
    return sorted({e for x in near for e in (x - 1, x, x + 1) if 0 <= e <= top})


def lattice(fmt: FloatFormat) -> list[int]:
    """Positive finite values, two mantissas per exponent."""
    rng = np.random.default_rng(11)
    half = 1 << (fmt.precision - 1)
    out = []
    for e in exponents(fmt):
        out += [
            e << (fmt.precision - 1) | int(rng.integers(1, half)),
            e << (fmt.precision - 1) | (half - 1 if e & 1 else 0),
        ]
    return [b for b in out if b]


def pairs(fmt: FloatFormat, count: int) -> list[tuple[int, int]]:
    """(numerator, denominator), signs mixed; `count` of the lattice, spread evenly."""
    values = lattice(fmt)
    every = list(product(values, values))
    chosen = every[:: max(1, len(every) // count)]
    chosen += chosen[: -len(chosen) % LANES]
    return [(n | (fmt.sign_bit if i & 1 else 0), d | (fmt.sign_bit if i & 2 else 0)) for i, (n, d) in enumerate(chosen)]


def waves(items: list[tuple[int, ...]]) -> Iterator[list[tuple[int, ...]]]:
    assert items
    for at in range(0, len(items), LANES):
        group = items[at : at + LANES]
        yield group + [group[-1]] * (LANES - len(group))


def register(k: int, fmt: FloatFormat) -> str:
    return f"v[{4 * k}:{4 * k + 1}]" if fmt is F64 else f"v{4 * k}"


def fill(w: Wave, k: int, values: list[int], fmt: FloatFormat) -> None:
    w.v[4 * k] = [v & 0xFFFFFFFF for v in values]
    if fmt is F64:
        w.v[4 * k + 1] = [v >> 32 for v in values]


def lanes(w: Wave, k: int, fmt: FloatFormat) -> list[int]:
    low = [int(x) for x in w.v[4 * k]]
    return [a | int(b) << 32 for a, b in zip(low, w.v[4 * k + 1], strict=True)] if fmt is F64 else low


def fixup_decides(n: int, d: int, fmt: FloatFormat) -> bool:
    """Whether the exponent fields alone show that the quotient is infinite, or less than half the least number."""
    gap = (n & fmt.infinity) - (d & fmt.infinity) >> (fmt.precision - 1)
    return gap > fmt.bias + 1 or gap < -(fmt.bias + fmt.precision - 1)


def steps_between(x: Fraction, y: Fraction) -> int | None:
    """k with x = y * 2**k."""
    ratio = x / y
    power = ratio.numerator.bit_length() - ratio.denominator.bit_length()
    return power if ratio == Fraction(2) ** power else None


@pytest.mark.parametrize("t", FORMATS)
def test_scaled_operands_stay_normal_and_vcc_tells_the_scale(t: str) -> None:
    fmt = FORMATS[t]
    scale = SCALE[fmt]
    n_, d_, num, den = (register(k, fmt) for k in (1, 2, 3, 4))
    text = f"v_div_scale_{t} {den}, s[10:11], {d_}, {d_}, {n_}\nv_div_scale_{t} {num}, vcc, {n_}, {d_}, {n_}"
    for group in waves(pairs(fmt, 4000)):
        w = Wave()
        fill(w, 1, [n for n, _ in group], fmt), fill(w, 2, [d for _, d in group], fmt)
        after = w.run(text)
        nums, dens = lanes(after, 3, fmt), lanes(after, 4, fmt)
        for lane, (nb, db) in enumerate(group):
            n, d, sn, sd = (decode(b, fmt) for b in (nb, db, nums[lane], dens[lane]))
            what = f"{nb:#x} / {db:#x} -> {nums[lane]:#x} / {dens[lane]:#x}"
            vcc = after.pair(106) >> lane & 1
            assert vcc == after.pair(10) >> lane & 1, what
            if fixup_decides(nb, db, fmt):
                continue
            assert (sn.kind, sd.kind) == ("finite", "finite"), what
            up_n, up_d = steps_between(sn.value, n.value), steps_between(sd.value, d.value)
            assert up_n in (0, scale, -scale), what
            assert up_d in (0, scale, -scale), what
            assert abs(up_n - up_d) == scale * vcc, what
            quotient = sn.magnitude / sd.magnitude
            assert sd.magnitude >= fmt.least_normal, what
            assert 1 / sd.magnitude >= fmt.least_normal, what
            # The remainder of the last step, down to the last place of numerator times precision, is no denormal.
            assert sn.magnitude >= fmt.least_normal * 2 ** (fmt.precision - 1), what
            assert encode(finite(quotient), fmt) >= 1 << (fmt.precision - 1), what  # rounds to a normal number
            if vcc:  # v_div_fmas tells the direction by the quotient's own size
                assert (quotient >= 2) == (up_n < up_d), what


def fmas_operands(fmt: FloatFormat) -> list[tuple[int, int, int]]:
    """Quotient steps: a small correction a*b and an estimate c, near ties of the scaled-down result among them."""
    rng = np.random.default_rng(5)
    out = []
    half = 1 << (fmt.precision - 1)
    for k in range(3 * LANES):
        c_field = int(rng.integers(1, 2 * fmt.bias - 2)) if k % 2 else SCALE[fmt] + int(rng.integers(-fmt.precision, 3))
        rest = int(rng.integers(0, half))
        if k % 4 == 0:  # a tie after scaling: the lowest bits are 10...0
            cut = 1 + k % (fmt.precision - 2)
            rest = rest >> cut << cut | 1 << (cut - 1)
        c = c_field << (fmt.precision - 1) | rest
        a = max(c_field - int(rng.integers(10, 2 * fmt.precision)), 1) << (fmt.precision - 1) | int(
            rng.integers(0, half)
        )
        b = fmt.bias - int(rng.integers(0, 3)) << (fmt.precision - 1) | int(rng.integers(0, half))
        out.append((a | (fmt.sign_bit if k & 1 else 0), b, c | (fmt.sign_bit if k & 4 else 0)))
    return out


@pytest.mark.parametrize("t", FORMATS)
def test_the_last_step_rounds_once_after_undoing_the_scale(t: str) -> None:
    fmt = FORMATS[t]
    text = f"v_div_fmas_{t} {register(4, fmt)}, {register(1, fmt)}, {register(2, fmt)}, {register(3, fmt)}"
    flags = 0x5A5A_F00F_3333_CCCC
    for group in waves(fmas_operands(fmt)):
        w = Wave()
        w.set_pair(106, flags)
        for k in range(3):
            fill(w, k + 1, [item[k] for item in group], fmt)
        got = lanes(w.run(text), 4, fmt)
        for lane, (a, b, c) in enumerate(group):
            x, y, z = (decode(v, fmt) for v in (a, b, c))
            total = add(mul(x, y), z, NEAREST)
            if flags >> lane & 1:
                up = z.magnitude >= 2
                total = finite(total.value * Fraction(2) ** (SCALE[fmt] if up else -SCALE[fmt]), total.negative)
            want = encode(total, fmt)
            assert got[lane] == want, f"{a:#x} * {b:#x} + {c:#x}, VCC {flags >> lane & 1}: {got[lane]:#x}, {want:#x}"


@pytest.mark.parametrize("t", FORMATS)
def test_fixup_gives_the_special_cases_whatever_the_quotient(t: str) -> None:
    fmt = FORMATS[t]
    special = [0, fmt.sign_bit, fmt.infinity, fmt.sign_bit | fmt.infinity, GARBAGE[fmt], fmt.infinity | 1]
    ordinary = [fmt.bias << (fmt.precision - 1), fmt.sign_bit | 1, fmt.infinity - 1]
    cases = [(n, d) for n, d in product(special + ordinary, repeat=2) if n in special or d in special]
    cases += [(n, d) for n, d in pairs(fmt, 6000) if fixup_decides(n, d, fmt)]
    text = f"v_div_fixup_{t} {register(4, fmt)}, {register(3, fmt)}, {register(2, fmt)}, {register(1, fmt)}"
    for group in waves(cases):
        w = Wave()
        fill(w, 1, [n for n, _ in group], fmt), fill(w, 2, [d for _, d in group], fmt)
        exact = [div(decode(n, fmt), decode(d, fmt)) for n, d in group]
        # Where the quotient underflows the Newton steps give something small; where it overflows they give NaN.
        tiny = [q.kind == "finite" and q.magnitude != 0 and q.magnitude < 1 for q in exact]
        fill(w, 3, [0 if small else GARBAGE[fmt] for small in tiny], fmt)
        got = lanes(w.run(text), 4, fmt)
        for lane, (n, d) in enumerate(group):
            want = encode(exact[lane], fmt)
            nan = decode(want, fmt).kind == "nan"
            ok = decode(got[lane], fmt).kind == "nan" if nan else got[lane] == want
            assert ok, f"{n:#x} / {d:#x}: {got[lane]:#x}, expected {want:#x}"


@pytest.mark.parametrize("t", FORMATS)
def test_fixup_passes_an_ordinary_quotient_with_the_right_sign(t: str) -> None:
    fmt = FORMATS[t]
    text = f"v_div_fixup_{t} {register(4, fmt)}, {register(3, fmt)}, {register(2, fmt)}, {register(1, fmt)}"
    ordinary = [(n, d) for n, d in pairs(fmt, 4000) if not fixup_decides(n, d, fmt)]
    for group in waves(ordinary):
        w = Wave()
        fill(w, 1, [n for n, _ in group], fmt), fill(w, 2, [d for _, d in group], fmt)
        wanted = [encode(div(decode(n, fmt), decode(d, fmt)), fmt) for n, d in group]
        fill(w, 3, [q ^ (fmt.sign_bit if i & 1 else 0) for i, q in enumerate(wanted)], fmt)
        assert lanes(w.run(text), 4, fmt) == wanted
