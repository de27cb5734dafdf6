"""Do the LDS reads that transpose, and the wide loads into the LDS, move the elements that the measured lane map says?

The map of ds_read_b64_tr_b16 was measured on an MI350: element i of lane j is element j % 4 of what lane
16 * (j // 16) + 4 * i + j % 16 // 4 addresses; nothing crosses 16 lanes. Narrower elements follow the same rule: within
16 lanes, the lanes' data in turn are rows of 16 elements, of which lane j gets column j.
"""

from __future__ import annotations

import functools
import struct
from typing import Any

import numpy as np
import pytest

from hipsynth.simulator import _core, devices

LANES = 64
HEAD = """
s_load_dwordx4 s[4:7], s[0:1], 0x0
s_waitcnt lgkmcnt(0)
v_lshlrev_b32 v1, 4, v0
global_load_dwordx4 v[4:7], v1, s[4:5]
v_mov_b32 v20, -1
v_mov_b32 v21, -1
v_mov_b32 v22, -1
v_mov_b32 v23, -1
s_waitcnt vmcnt(0)
"""
TAIL = "\ns_waitcnt vmcnt(0) lgkmcnt(0)\nglobal_store_dwordx4 v1, v[20:23], s[6:7]\ns_endpgm\n"


@functools.cache
def device() -> Any:
    return _core.Device("gfx950", devices.load_device("mi350x").spec(), count=True)


def run(text: str, given: np.ndarray, lds_bytes: int = 4096) -> np.ndarray:
    """v[20:23] of all lanes; lane i starts with 16 bytes of `given` in v[4:7], which stand at s[4:5] + 16 i."""
    d = device()
    source, result = (d.allocate(16 * LANES) for _ in range(2))
    d.write(source, np.ascontiguousarray(given).view(np.uint8).ravel())
    module = d.load_text(HEAD + text + TAIL, lds_bytes=lds_bytes)
    d.launch(module, "kernel", (1, 1, 1), (LANES, 1, 1), struct.pack("<2Q", source, result))
    out = np.zeros(16 * LANES, np.uint8)
    d.read(result, out)
    return out.view(np.uint32).reshape(LANES, 4)


def elements(row: np.ndarray, width: int, count: int) -> list[int]:
    packed = sum(int(word) << 32 * k for k, word in enumerate(row))
    return [packed >> width * k & ((1 << width) - 1) for k in range(count)]


@pytest.mark.parametrize(
    ("name", "width", "dwords"),
    [
        ("ds_read_b64_tr_b16", 16, 2),
        ("ds_read_b64_tr_b8", 8, 2),
        ("ds_read_b64_tr_b4", 4, 2),
        ("ds_read_b96_tr_b6", 6, 3),
    ],
)
def test_reads_that_transpose(name: str, width: int, dwords: int) -> None:
    rng = np.random.default_rng(width)
    given = rng.integers(0, 1 << 32, (LANES, 4), np.uint32)
    # Every lane reads the 16 bytes of a lane of its choice, moved by an offset.
    reads = (
        "ds_write_b128 v1, v[4:7]\ns_waitcnt lgkmcnt(0)\nv_xor_b32 v2, 0x1f, v0\nv_lshlrev_b32 v2, 4, v2\n"
        f"v_sub_u32 v2, v2, 8\n{name} v[20:{19 + dwords}], v2 offset:8"
    )
    got = run(reads.replace("v_sub_u32 v2, v2, 8", "v_subrev_u32 v2, 8, v2"), given)
    count = 32 * dwords // width
    loaded = [elements(given[lane ^ 0x1F, :dwords], width, count) for lane in range(LANES)]
    for lane in range(LANES):
        first, column = lane & ~15, lane & 15
        want = [loaded[first + k * (16 // count) + column // count][column % count] for k in range(count)]
        assert elements(got[lane, :dwords], width, count) == want, lane
        assert (got[lane, dwords:] == 0xFFFFFFFF).all()


@pytest.mark.parametrize("base", [64, 0x20000])
@pytest.mark.parametrize("dwords", [3, 4])
@pytest.mark.parametrize("space", ["global", "buffer"])
def test_wide_loads_into_the_lds(space: str, dwords: int, base: int) -> None:
    """M0 (which reaches all 160 KB) + the immediate + the lane's number times 16, of three dwords, too (CDNA4 ISA,
    section 9.1.9)."""
    given = np.arange(4 * LANES, dtype=np.uint32).reshape(LANES, 4) + 1000
    load = f"global_load_lds_dwordx{dwords} v1, s[4:5]"
    if space == "buffer":
        load = (
            "s_mov_b32 s12, s4\ns_mov_b32 s13, s5\ns_mov_b32 s14, 0x400\ns_mov_b32 s15, 0\n"
            f"buffer_load_dwordx{dwords} v1, s[12:15], 0 offen lds"
        )
    text = f"s_mov_b32 m0, {base:#x}\n{load}\ns_waitcnt vmcnt(0)\nv_lshlrev_b32 v3, 4, v0\n"
    text += f"v_add_u32 v3, {base:#x}, v3\nds_read_b{32 * dwords} v[20:{19 + dwords}], v3\n"
    got = run(text, given, lds_bytes=160 * 1024)
    assert np.array_equal(got[:, :dwords], given[:, :dwords])


def test_a_group_may_have_160_kilobytes() -> None:
    given = np.arange(4 * LANES, dtype=np.uint32).reshape(LANES, 4)
    text = "v_add_u32 v3, 0x27c00, v1\nds_write_b128 v3, v[4:7]\ns_waitcnt lgkmcnt(0)\nds_read_b128 v[20:23], v3"
    assert np.array_equal(run(text, given, lds_bytes=160 * 1024), given)
    with pytest.raises(Exception, match=r"(?i)lds|shared"):
        run(text, given, lds_bytes=160 * 1024 + 16)
