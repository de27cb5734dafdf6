"""Are buffer accesses limited to their descriptor's range, and do loads into the LDS write the right elements?

The oracle follows the ISA guides' sections on range checking and swizzled addresses: raw buffers compare byte offsets,
each dword of a wide access for itself; structured ones compare indices; atomics and formats are all or nothing.
"""

from __future__ import annotations

import functools
import struct
from typing import Any

import numpy as np
import pytest

from hipsynth.simulator import _core, devices

LANES = 64
DWORDS = 512
EVERY = pytest.mark.parametrize("arch", devices.list_architectures())
HEAD = """
s_load_dwordx4 s[4:7], s[0:1], 0x0
s_load_dwordx2 s[8:9], s[0:1], 0x10
s_load_dwordx4 s[12:15], s[0:1], 0x20
s_waitcnt lgkmcnt(0)
v_lshlrev_b32 v1, 4, v0
global_load_dwordx2 v[2:3], v1, s[6:7]
v_mov_b32 v20, -1
v_mov_b32 v21, -2
v_mov_b32 v22, -3
v_mov_b32 v23, -4
s_waitcnt vmcnt(0)
"""
TAIL = "\ns_waitcnt vmcnt(0) lgkmcnt(0)\nglobal_store_dwordx4 v1, v[20:23], s[8:9]\ns_endpgm\n"
KEPT = np.array([-1, -2, -3, -4], np.int32).view(np.uint32)


@functools.cache
def device(arch: str) -> Any:
    return _core.Device(arch, devices.load_device(devices.default_device(arch)).spec(), count=True)


def upload(d: Any, data: np.ndarray) -> int:
    address: int = d.allocate(data.nbytes)
    d.write(address, data.ravel().view(np.uint8))
    return address


def run(arch: str, text: str, addresses: np.ndarray, words: tuple[int, int, int]) -> tuple[np.ndarray, np.ndarray]:
    """(memory, v[20:23] of all lanes) afterwards. `addresses`: v2 and v3 of each lane; `words`: stride and flags of the
    descriptor's second dword, its records, its last dword. Dword i of the memory is 1000 + i beforehand."""
    d = device(arch)
    given = np.zeros((LANES, 4), np.uint32)
    given[:, :2] = addresses
    places = [upload(d, np.arange(1000, 1000 + DWORDS, dtype=np.uint32)), upload(d, given)]
    places.append(upload(d, np.zeros(LANES * 4, np.uint32)))
    resource = (places[0] & 0xFFFFFFFF, places[0] >> 32 | words[0], words[1], words[2])
    module = d.load_text(HEAD + text + TAIL, lds_bytes=1024, scratch_bytes=512)
    d.launch(module, "kernel", (1, 1, 1), (LANES, 1, 1), struct.pack("<4Q4I", *places, 0, *resource))
    out = [np.zeros(DWORDS * 4, np.uint8), np.zeros(LANES * 16, np.uint8)]
    d.read(places[0], out[0]), d.read(places[2], out[1])
    for place in places:
        d.release(place)
    return out[0].view(np.uint32), out[1].view(np.uint32).reshape(LANES, 4)


def offsets(first: int = 0, step: int = 4) -> np.ndarray:
    at = np.zeros((LANES, 2), np.uint32)
    at[:, 0] = first + step * np.arange(LANES)
    return at


def registers(count: int) -> str:
    return "v20" if count == 1 else f"v[20:{19 + count}]"


@EVERY
@pytest.mark.parametrize("count", [1, 2, 3, 4])
@pytest.mark.parametrize(
    ("stride", "records"), [(0, 0), (0, 100), (0, 101), (0, 103), (0, 256), (0, 260), (0x4040, 101)]
)
def test_raw_buffers_check_each_dword(arch: str, count: int, stride: int, records: int) -> None:
    """Offsets of 4 * lane and an immediate; the scalar offset moves the base and is not compared. A stride without an
    index, as Triton sets it, is for the sets of the vL1D (bit 14) and changes neither addresses nor checks."""
    at = offsets()
    name = "dword" if count == 1 else f"dwordx{count}"
    words = (stride << 16, records, 0)
    _, got = run(arch, f"s_mov_b32 s20, 64\nbuffer_load_{name} {registers(count)}, v2, s[12:15], s20 offen offset:8",
                 at, words)  # fmt: skip
    memory, _ = run(arch, f"buffer_store_{name} {registers(count)}, v2, s[12:15], 0 offen offset:8", at, words)
    want, stored = np.tile(KEPT, (LANES, 1)), np.arange(1000, 1000 + DWORDS, dtype=np.uint32)
    for lane in range(LANES):
        for k in range(count):
            offset = int(at[lane, 0]) + 8 + 4 * k
            inside = offset + 4 <= records
            want[lane, k] = 1000 + (offset + 64) // 4 if inside else 0
            if inside:
                stored[offset // 4] = KEPT[k]
    assert (got == want).all()
    assert (memory == stored).all()


@EVERY
def test_narrow_accesses_and_atomics_at_the_end_of_a_raw_buffer(arch: str) -> None:
    at = offsets(0, 2)
    data = np.arange(1000, 1000 + DWORDS, dtype=np.uint32)
    _, got = run(arch, "buffer_load_ushort v20, v2, s[12:15], 0 offen", at, (0, 51, 0))
    halves = data.view(np.uint16)[:LANES].astype(np.uint32)
    assert (got[:, 0] == np.where(at[:, 0] + 2 <= 51, halves, 0)).all()
    at = offsets(0, 8)
    memory, _ = run(arch, "buffer_atomic_add_x2 v[20:21], v2, s[12:15], 0 offen", at, (0, 100, 0))
    pairs = data.view(np.uint64).copy()
    pairs[:12] += np.uint64(KEPT[0]) | np.uint64(int(KEPT[1]) << 32)  # the thirteenth would end at byte 104
    assert (memory.view(np.uint64) == pairs).all()
    _, got = run(arch, "buffer_atomic_add_x2 v[20:21], v2, s[12:15], 0 offen glc", at, (0, 100, 0))
    assert (got[:12, :2].ravel() == data[:24]).all() and not got[12:, :2].any()


@EVERY
def test_structured_buffers_check_the_index(arch: str) -> None:
    """A stride of 20 bytes; the offset may leave the record."""
    at = np.zeros((LANES, 2), np.uint32)
    at[:, 0], at[:, 1] = np.arange(LANES), 4 * (np.arange(LANES) % 8)
    _, got = run(arch, "buffer_load_dwordx2 v[20:21], v[2:3], s[12:15], 0 idxen offen offset:4", at, (20 << 16, 40, 0))
    for lane in range(LANES):
        first = 1000 + (20 * lane + int(at[lane, 1]) + 4) // 4
        assert got[lane, :2].tolist() == ([first, first + 1] if lane < 40 else [0, 0])


@EVERY
@pytest.mark.parametrize("field", [0, 1, 2, 3])
def test_swizzled_buffers_interleave_the_records(arch: str, field: int) -> None:
    """Records of 8 bytes in groups of 8 to 64: dword k of all records of a group lies side by side."""
    at = np.zeros((LANES, 2), np.uint32)
    at[:, 0] = np.arange(LANES)[::-1]
    group = 8 << field
    _, got = run(arch, "buffer_load_dwordx2 v[20:21], v[2:3], s[12:15], 0 idxen offen", at,
                 (8 << 16 | 1 << 31, 60, field << 21))  # fmt: skip
    for lane in range(LANES):
        index = int(at[lane, 0])
        first = index // group * 2 * group + index % group
        assert got[lane, :2].tolist() == ([1000 + first, 1000 + first + group] if index < 60 else [0, 0])


@EVERY
def test_the_lane_number_can_be_the_index(arch: str) -> None:
    """Then nothing is out of range (CDNA3 ISA, section 9.1.5.1)."""
    _, got = run(arch, "buffer_load_dword v20, off, s[12:15], 0", offsets(), (12 << 16, 50, 1 << 23))
    assert got[:, 0].tolist() == [1000 + 3 * i for i in range(LANES)]


@pytest.mark.parametrize("count", [3, 4])
@pytest.mark.parametrize("records", [0, 100, 101, 256, 260, 2000])
def test_wide_loads_into_the_lds_check_each_dword(count: int, records: int) -> None:
    """gfx950 alone loads 12 or 16 bytes of each lane, each to 16 of its own; what is outside is stored as 0."""
    size = 4 * count
    text = "v_mov_b32 v4, 77\nv_lshlrev_b32 v5, 4, v0\n"
    text += "".join(f"ds_write_b32 v5, v4 offset:{4 * k}\n" for k in range(4))
    text += "s_waitcnt lgkmcnt(0)\ns_mov_b32 m0, 0\n"
    text += f"buffer_load_dwordx{count} v2, s[12:15], 0 offen lds\ns_waitcnt vmcnt(0)\n"
    text += "".join(f"ds_read_b32 v{20 + k}, v5 offset:{4 * k}\n" for k in range(count)) + "s_waitcnt lgkmcnt(0)"
    at = offsets(8, size)
    _, got = run("gfx950", text, at, (0, records, 0))
    offset = at[:, :1].astype(np.int64) + 4 * np.arange(count)
    assert (got[:, :count] == np.where(offset + 4 <= records, 1000 + offset // 4, 0)).all()


SIZES = {"dword": np.uint32, "ubyte": np.uint8, "sbyte": np.int8, "ushort": np.uint16, "sshort": np.int16}


def straight(arch: str, space: str, size: str) -> str:
    """A load into the LDS from offset v2 + 12 of the memory."""
    if space == "buffer":
        return f"buffer_load_{size} v2, s[12:15], 0 offen offset:12 lds"
    name, flag = (f"{space}_load_{size}", "lds") if arch == "gfx90a" else (f"{space}_load_lds_{size}", "")
    return f"{name} v2, {'s[4:5]' if space == 'global' else 'off'} offset:12 {flag}"


@EVERY
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("space", ["global", "buffer", "scratch"])
def test_loads_into_the_lds(arch: str, space: str, size: str) -> None:
    """M0 + the immediate + 4 * lane, a dword for every element, however narrow; inactive lanes leave theirs alone."""
    step = np.dtype(SIZES[size]).itemsize
    text = "v_mov_b32 v4, 77\nv_lshlrev_b32 v5, 2, v0\nds_write_b32 v5, v4\nds_write_b32 v5, v4 offset:256\n"
    if space == "scratch":
        text += "v_add_u32 v4, 0x80f1, v0\nscratch_store_dword v2, v4, off offset:12\ns_waitcnt vmcnt(0)\n"
    text += "s_waitcnt lgkmcnt(0)\ns_mov_b32 m0, 32\ns_mov_b64 exec, 0x0fffffffffffffff\n"
    text += f"{straight(arch, space, size)}\ns_waitcnt vmcnt(0)\ns_mov_b64 exec, -1\n"
    text += "ds_read_b32 v20, v5 offset:44\ns_waitcnt lgkmcnt(0)"
    records = 12 + step * 50 if space == "buffer" else 2048
    _, got = run(arch, text, offsets(0, step), (0, records, 0))
    if space == "scratch":
        values = [int(np.array([0x80F1 + i], np.uint32).view(SIZES[size])[0]) for i in range(LANES)]
    else:
        raw = np.arange(1000, 1000 + DWORDS, dtype=np.uint32).view(SIZES[size])[12 // step :][:LANES]
        values = [int(v) if space != "buffer" or i < 50 else 0 for i, v in enumerate(raw)]
    want = [v & 0xFFFFFFFF if i < 60 else 77 for i, v in enumerate(values)]
    assert got[:, 0].tolist() == want
