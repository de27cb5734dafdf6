"""Do lanes exchange values as AMD's pseudo-code says, under any lane mask and with lane numbers out of range?

The oracles are the published loops over lanes, written with numpy.
"""

from __future__ import annotations

import functools
import struct
from typing import Any

import numpy as np
import pytest
from wave_helpers import ALL, LANE, LANES, Wave

from hipsynth.simulator import _core, devices

MASKS = (ALL, 0xFFFF_0000_FFFF_0000, 0x8000_0000_0000_0001, 0x0123_4567_89AB_CDEF, 1 << 63, 0x5555_5555_5555_5555)
HEAD = """
s_load_dwordx4 s[4:7], s[0:1], 0x0
s_load_dwordx2 s[8:9], s[0:1], 0x10
s_load_dwordx2 s[10:11], s[0:1], 0x18
s_waitcnt lgkmcnt(0)
v_lshlrev_b32 v1, 2, v0
global_load_dword v2, v1, s[4:5]
global_load_dword v3, v1, s[6:7]
v_mov_b32 v20, 0x7777
s_waitcnt vmcnt(0)
s_mov_b64 exec, s[10:11]
"""
TAIL = "\ns_waitcnt lgkmcnt(0)\ns_mov_b64 exec, -1\nglobal_store_dword v1, v20, s[8:9]\ns_endpgm\n"


@functools.cache
def device() -> Any:
    return _core.Device("gfx942", devices.load_device("mi300x").spec(), count=False)


def run(text: str, first: np.ndarray, second: np.ndarray, mask: int) -> np.ndarray:
    """v20 of all lanes; v2 and v3 hold the two arrays."""
    d = device()
    places = []
    for data in (first, second, np.zeros(LANES, np.uint32)):
        places.append(d.allocate(4 * LANES))
        d.write(places[-1], data.astype(np.uint32).view(np.uint8))
    module = d.load_text(HEAD + text + TAIL)
    d.launch(module, "kernel", (1, 1, 1), (LANES, 1, 1), struct.pack("<4Q", *places, mask))
    out = np.zeros(4 * LANES, np.uint8)
    d.read(places[2], out)
    for place in places:
        d.release(place)
    return out.view(np.uint32)


def active(mask: int) -> list[int]:
    return [i for i in range(LANES) if mask >> i & 1]


def settled(moved: np.ndarray, mask: int) -> list[int]:
    return [int(moved[i]) if mask >> i & 1 else 0x7777 for i in range(LANES)]


def addresses(seed: int) -> np.ndarray:
    """Lane numbers times four with odd bytes, far beyond the wave, and many twice."""
    rng = np.random.default_rng(seed)
    out = rng.integers(0, 1 << 32, LANES, dtype=np.uint32)
    out[::3] = 4 * rng.integers(0, 16, out[::3].size)
    out[1] = 0xFFFFFFFF
    return out


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("offset", [0, 4, 60, 65532])
def test_permutes(mask: int, offset: int) -> None:
    at, data = addresses(offset), np.random.default_rng(mask & 0xFFFF).integers(0, 1 << 32, LANES, dtype=np.uint32)
    pushed, pulled = np.zeros(LANES, np.uint32), np.zeros(LANES, np.uint32)
    for i in active(mask):
        named = ((int(at[i]) + offset) & 0xFFFFFFFF) // 4 % LANES
        pushed[named] = data[i]
        pulled[i] = data[named] if mask >> named & 1 else 0
    assert run(f"ds_permute_b32 v20, v2, v3 offset:{offset}", at, data, mask).tolist() == settled(pushed, mask)
    assert run(f"ds_bpermute_b32 v20, v2, v3 offset:{offset}", at, data, mask).tolist() == settled(pulled, mask)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("pattern", [0x001F, 0x041F, 0x7C1F, 0x03E0, 0x0010, 0x5555 & 0x7FFF, 0x80E4, 0x801B, 0x8000])
def test_swizzles(mask: int, pattern: int) -> None:
    """Bit masks within 32 lanes, or a permutation of each four."""
    data = np.random.default_rng(pattern).integers(0, 1 << 32, LANES, dtype=np.uint32)
    moved = np.zeros(LANES, np.uint32)
    for i in active(mask):
        if pattern & 0x8000:
            source = (i & ~3) + (pattern >> 2 * (i & 3) & 3)
        else:
            source = (i & 32) + (((i & 31 & pattern) | pattern >> 5 & 31) ^ pattern >> 10 & 31)
        moved[i] = data[source] if mask >> source & 1 else 0
    assert run(f"ds_swizzle_b32 v20, v2 offset:{pattern:#x}", data, data, mask).tolist() == settled(moved, mask)


@pytest.mark.parametrize("mask", [*MASKS, 0])
@pytest.mark.parametrize("lane", [0, 1, 31, 63, 64, 127, 0x80000005, 0xFFFFFFFF])
def test_single_lanes(mask: int, lane: int) -> None:
    """Lane numbers wrap; readlane and writelane ignore EXEC, readfirstlane does not."""
    w = Wave()
    w.exec = mask
    w.v[1], w.s[4], w.s[5] = LANE * 3 + 7, lane, 0xABCD
    after = w.run("s_mov_b32 m0, s4\nv_readlane_b32 s6, v1, m0\nv_readlane_b32 s7, v1, s4\nv_writelane_b32 v1, s5, s4\n"
                  "v_readfirstlane_b32 s8, v1")  # fmt: skip
    first = active(mask)[0] if mask else 0
    assert int(after.s[6]) == int(after.s[7]) == 3 * (lane % 64) + 7
    assert int(after.v[1][lane % 64]) == 0xABCD
    assert int(after.s[8]) == (0xABCD if first == lane % 64 else 3 * first + 7)
    others = [i for i in range(LANES) if i != lane % 64]
    assert (after.v[1][others] == (LANE * 3 + 7)[others]).all()


@pytest.mark.parametrize("mask", MASKS)
def test_swaps(mask: int) -> None:
    w = Wave()
    w.exec = mask
    w.v[1], w.v[2] = LANE + 100, LANE + 500
    after = w.run("v_swap_b32 v1, v2")
    lanes = np.array([bool(mask >> i & 1) for i in range(LANES)])
    assert (after.v[1] == np.where(lanes, LANE + 500, LANE + 100)).all()
    assert (after.v[2] == np.where(lanes, LANE + 100, LANE + 500)).all()


@pytest.mark.parametrize("size", [1, 4, 9, 24, 32])
@pytest.mark.parametrize("offset", [0, 1, 7, 12, 31])
def test_fields_of_mode(offset: int, size: int) -> None:
    """Reading shifts and masks; writing changes the field alone. Only bits that MODE has are compared."""
    w = Wave()
    field = ((1 << size) - 1) << offset & 0xFFFFFFFF
    has = 0x3FF | 1 << 23
    w.s[4] = 0x00A5A5A5
    place = f"hwreg(HW_REG_MODE, {offset}, {size})"
    text = f"s_getreg_b32 s5, {place}\ns_setreg_b32 {place}, s4\n"
    after = w.run(text + "s_getreg_b32 s6, hwreg(HW_REG_MODE)", mode=0x3F0)
    assert int(after.s[5]) == (0x3F0 & field) >> offset
    assert int(after.s[6]) & has == ((0x3F0 & ~field) | (0x00A5A5A5 << offset & field)) & has


DPP = [*(f"row_shl:{n}" for n in (1, 7, 15)), *(f"row_shr:{n}" for n in (1, 8, 15)), "row_ror:1", "row_ror:13"]
DPP += ["wave_shl:1", "wave_shr:1", "wave_rol:1", "wave_ror:1", "row_mirror", "row_half_mirror", "row_bcast:15"]
DPP += ["row_bcast:31", "row_newbcast:3", "quad_perm:[3,1,0,2]"]


def dpp_source(control: str, i: int) -> int | None:
    """The lane that lane i reads, by the ISA guide's table; None: there is none."""
    name, _, value = control.partition(":")
    row, at = i & ~15, i & 15
    if name == "quad_perm":
        return (i & ~3) + int(value[1:-1].split(",")[i & 3])
    n = int(value or 0)
    if name == "row_shl":
        return i + n if at + n < 16 else None
    if name == "row_shr":
        return i - n if at >= n else None
    if name == "row_bcast":
        return (row - 1 if row else None) if n == 15 else (31 if i >= 32 else None)
    simple = {
        "row_ror": row + (at - n) % 16, "row_mirror": row + 15 - at, "row_half_mirror": (i & ~7) + 7 - (i & 7),
        "row_newbcast": row + n, "wave_rol": (i + 1) % 64, "wave_ror": (i - 1) % 64,
        "wave_shl": i + 1 if i < 63 else None, "wave_shr": i - 1 if i else None,
    }  # fmt: skip
    return simple[name]


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("control", DPP)
def test_dpp_under_masks(control: str, mask: int) -> None:
    """Rows, banks and lanes that are masked keep their value; a source that is missing or idle gives 0 with bound_ctrl
    and no write without it."""
    w = Wave()
    w.exec = mask
    w.v[1], w.v[2], w.v[3] = LANE * 5 + 1, 1000 * LANE, 0x7777
    for rows, banks, bound in ((0xF, 0xF, ""), (0xF, 0xF, "bound_ctrl:1"), (0x5, 0xE, "bound_ctrl:1"), (0xA, 0x9, "")):
        after = w.run(f"v_add_u32_dpp v3, v1, v2 {control} row_mask:{rows:#x} bank_mask:{banks:#x} {bound}")
        for i in range(LANES):
            source = dpp_source(control, i)
            there = source is not None and mask >> source & 1
            enabled = mask >> i & 1 and rows >> i // 16 & 1 and banks >> i % 16 // 4 & 1
            value = 1000 * i + (5 * source + 1 if there and source is not None else 0)
            want = value if enabled and (there or bound) else 0x7777
            assert int(after.v[3][i]) == want, (control, hex(mask), rows, banks, bound, i)
