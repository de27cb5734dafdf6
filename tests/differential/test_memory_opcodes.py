"""Do loads, stores and atomics transfer exactly the bytes given by AMD's pseudo-code and the host?"""

from __future__ import annotations

import functools
import re
import struct
import zlib
from typing import Any

import needs
import numpy as np
import pytest
from alu_cases import EDGES_F16, EDGES_F32, EDGES_F64, EDGES_INT, same
from exact_floats import F32, F64, FloatFormat, decode, flush
from pcode import PcodeEvaluator, opcode_texts
from pcode_parser import Parser

from hipsynth.simulator import _core, devices
from hipsynth.simulator.isa.table import OpcodeRow, load_rows

LANES = 64
STEP = 16  # bytes of memory and of operands that each lane has
DEVICES = {arch: devices.default_device(arch) for arch in devices.list_architectures()}
ROWS = {r.name: r for r in load_rows() if r.mem.kind in ("load", "store", "atomic") and r.executes}
ATOMICS = sorted(
    n
    for n, r in ROWS.items()
    if r.mem.kind == "atomic" and r.unit != "smem" and r.mem.space != "image" and not r.mem.two_addr
)
SCALAR = sorted(n for n, r in ROWS.items() if r.unit == "smem")
MOVES = sorted(
    n
    for n, r in ROWS.items()
    if r.unit != "smem" and r.mem.kind != "atomic" and r.mem.op == "" and r.mem.space != "image" and not r.mem.to_lds
)


@functools.cache
def device(arch: str) -> Any:
    return _core.Device(arch, devices.load_device(DEVICES[arch]).spec(), count=False)


def upload(d: Any, data: bytes) -> int:
    address: int = d.allocate(len(data))
    d.write(address, np.frombuffer(data, np.uint8))
    return address


def download(d: Any, address: int, size: int) -> bytes:
    out = np.zeros(size, np.uint8)
    d.read(address, out)
    return out.tobytes()


# s[4:5] memory, s[6:7] operands, s[8:9] results; v1 = 16 * lane, v[4:7] operands, v[8:11] memory, v[12:13] its address
PROLOGUE = """
s_load_dwordx4 s[4:7], s[0:1], 0x0
s_load_dwordx2 s[8:9], s[0:1], 0x10
s_waitcnt lgkmcnt(0)
s_mov_b32 m0, -1
s_mov_b32 s12, s4
s_mov_b32 s13, s5
s_mov_b32 s14, 0x400
s_mov_b32 s15, 0
v_lshlrev_b32 v1, 4, v0
global_load_dwordx4 v[4:7], v1, s[6:7]
global_load_dwordx4 v[8:11], v1, s[4:5]
global_load_dwordx4 v[20:23], v1, s[8:9]
v_mov_b32 v3, s5
v_add_co_u32 v12, vcc, s4, v1
v_addc_co_u32 v13, vcc, 0, v3, vcc
s_waitcnt vmcnt(0)
"""
LDS_IN = "ds_write_b128 v1, v[8:11]\ns_waitcnt lgkmcnt(0)\n"
LDS_OUT = (
    "s_waitcnt lgkmcnt(0)\nds_read_b128 v[8:11], v1\ns_waitcnt lgkmcnt(0)\nglobal_store_dwordx4 v1, v[8:11], s[4:5]\n"
)
RESULTS = "s_waitcnt vmcnt(0) lgkmcnt(0)\nglobal_store_dwordx4 v1, v[20:23], s[8:9]\n"


def vector(first: int, bytes_: int) -> str:
    count = max(1, bytes_ // 4)
    return f"v{first}" if count == 1 else f"v[{first}:{first + count - 1}]"


def statement(row: OpcodeRow, arch: str) -> str:
    """The instruction under test; every lane works on its own 16 bytes, results go to v20 and following."""
    size = row.mem.elem_bytes * row.mem.count
    result, data = vector(20, size), vector(4, size)
    if row.mem.kind == "atomic":
        double = row.mem.op.startswith("cmpswap") and row.unit == "vmem"
        data = vector(4, 2 * size if double else size)
    returns = (" glc" if arch == "gfx90a" else " sc0") if row.mem.kind == "atomic" else ""
    first = f"{result}, " if row.mem.kind != "store" else ""
    second = f", {data}" if row.mem.kind != "load" else ""
    space = row.mem.space
    if space == "global":
        return f"{row.name} {first}v1{second}, s[4:5]{returns}"
    if space == "flat":
        return f"{row.name} {first}v[12:13]{second}{returns}"
    if space == "buffer":
        if row.mem.kind == "atomic":
            return f"{row.name} {data}, v1, s[12:15], 0 offen{returns}"
        return f"{row.name} {data if second else result}, v1, s[12:15], 0 offen"
    if space == "scratch":
        return f"{row.name} {first}v2{second}, off" if first else f"{row.name} v2{second}, off"
    first = first if "d:" in row.sig else ""
    third = f", {vector(4 + size // 4, size)}" if "c:" in row.sig else ""
    return f"{row.name} {first}v1{second}{third}"


def run(row: OpcodeRow, arch: str, memory: bytes, operands: bytes, results: bytes) -> tuple[bytes, bytes]:
    """(memory, results) afterwards."""
    d = device(arch)
    places = [upload(d, b) for b in (memory, operands, results)]
    text = PROLOGUE + (LDS_IN if row.mem.space == "lds" else "")
    if row.mem.space == "scratch":
        text += "v_mov_b32 v2, 16\nscratch_store_dwordx4 v2, v[8:11], off\ns_waitcnt vmcnt(0)\n"
    text += statement(row, arch) + "\n"
    if row.mem.space == "lds":
        text += LDS_OUT
    if row.mem.space == "scratch":
        text += "s_waitcnt vmcnt(0)\nscratch_load_dwordx4 v[8:11], v2, off\ns_waitcnt vmcnt(0)\n"
        text += "global_store_dwordx4 v1, v[8:11], s[4:5]\n"
    if row.mem.kind == "atomic" and row.mem.space == "buffer":  # the data register receives the old value
        text += "s_waitcnt vmcnt(0)\nv_mov_b32 v20, v4\nv_mov_b32 v21, v5\n"
    module = d.load_text(text + RESULTS + "s_endpgm\n", lds_bytes=1024, scratch_bytes=64)
    d.launch(module, "kernel", (1, 1, 1), (LANES, 1, 1), struct.pack("<3Q", *places))
    out = download(d, places[0], len(memory)), download(d, places[2], len(results))
    for place in places:
        d.release(place)
    return out


def fill(name: str, what: str, kind: str) -> bytes:
    """16 bytes per lane: edge values of the element type in the first half of the lanes, random ones after them."""
    rng = np.random.default_rng(zlib.crc32(f"{name}/{what}".encode()))
    raw = bytearray(rng.integers(0, 256, LANES * STEP, dtype=np.uint8).tobytes())
    edges = {"f32": EDGES_F32, "f64": EDGES_F64, "f16": EDGES_F16}.get(kind, EDGES_INT)
    size = {"f64": 8, "f16": 2}.get(kind, 4)
    for at in range(0, len(raw) // 2, size):
        raw[at : at + size] = int(edges[rng.integers(len(edges))]).to_bytes(8, "little")[:size]
    return bytes(raw)


def element(raw: bytes, lane: int, size: int, skip: int = 0) -> int:
    return int.from_bytes(raw[lane * STEP + skip : lane * STEP + skip + size], "little")


# --- atomics against AMD's pseudo-code ------------------------------------------------------------------------------


@functools.cache
def pseudo_code() -> dict[str, str]:
    try:
        return dict(opcode_texts())
    except ImportError:
        needs.missing("the tinygrad package, which ships AMD's pseudo-code, is not installed")


def new_value(name: str) -> str:
    """The pseudo-code of an atomic as a function: S0 memory, S1 DATA, S2 DATA2, D0 what is written."""
    lines = [line for line in pseudo_code()[name].split("\n") if not line.startswith(("addr ", "RETURN_DATA", "//"))]
    text = "\n".join(lines).rstrip().removesuffix(";")
    text = re.sub(r"MEM\[\w+\](\.\w+)? \+= (.*)", r"D0\1 = S0\1 + \2", text)
    text = re.sub(r"MEM\[\w+\](\.\w+)? -= (.*)", r"D0\1 = S0\1 - \2", text)
    text = re.sub(r"^MEM\[\w+\](\.\w+)? =", r"D0\1 =", text, flags=re.MULTILINE)
    text = re.sub(r"MEM\[\w+\]", "S0", text)
    return re.sub(r"\bDATA\b", "S1", re.sub(r"\bDATA2\b", "S2", text))


def packed_sum(kind: str, a: int, b: int) -> int:
    out = 0
    for shift in (0, 16):
        x, y = a >> shift & 0xFFFF, b >> shift & 0xFFFF
        if kind == "f16":
            with np.errstate(all="ignore"):
                total = np.uint16(x).view(np.float16) + np.uint16(y).view(np.float16)
            out |= int(total.view(np.uint16)) << shift
        else:
            wide = (np.array([x, y], np.uint32) << 16).view(np.float32)
            with np.errstate(all="ignore"):
                total32 = np.float32(wide[0] + wide[1])
            raw = int(total32.view(np.uint32))
            rounded = (raw >> 16) | 0x40 if np.isnan(total32) else (raw + 0x7FFF + (raw >> 16 & 1)) >> 16
            out |= (rounded & 0xFFFF) << shift
    return out


def choose_number(a: int, b: int, fmt: FloatFormat, largest: bool) -> int:
    """The minimum or maximum of two floats, as the ISA's section 9.2.3 (CDNA3) and LLVM's atomicrmw say and the
    pseudo-code does not: a number wins over a NaN, unless that signals, and -0 < +0."""
    quiet = 1 << (fmt.precision - 2)
    nans = [code for code in (a, b) if decode(code, fmt).kind == "nan"]
    if signalling := [code for code in nans if not code & quiet]:
        return signalling[0] | quiet
    if nans:
        return b if a in nans else a
    form = ("<I", "<f") if fmt is F32 else ("<Q", "<d")
    ordered = sorted((a, b), key=lambda c: (struct.unpack(form[1], struct.pack(form[0], c))[0], -(c & fmt.sign_bit)))
    return ordered[largest]


def oracle(row: OpcodeRow) -> Any:
    """(memory, DATA, DATA2) -> new memory, as bit patterns."""
    if "pk_add" in row.mem.op:
        return lambda m, a, b: packed_sum("bf16" if "bf16" in row.name else "f16", m, a)
    if row.mem.op.startswith("condxchg"):

        def exchange(m: int, a: int, b: int) -> int:
            for half in (0, 32):
                if a >> (half + 31) & 1:
                    m = m & ~(0xFFFFFFFF << half) | (a >> half & 0x7FFFFFFF) << half
            return m

        return exchange
    if (extreme := re.fullmatch(r"(min|max)_f(32|64)", row.mem.op)) is not None:
        fmt = F32 if extreme[2] == "32" else F64
        return lambda m, a, _: choose_number(m, a, fmt, extreme[1] == "max")
    known = pseudo_code()
    name = row.name if row.name in known else row.name.replace("_rtn", "")
    program = Parser(new_value(name)).block("")

    def run_it(m: int, a: int, b: int) -> int:
        out = PcodeEvaluator(program, lambda n: known[n]).run({"S0": m, "S1": a, "S2": b, "D0": m, "OFFSET": 0})
        return out["D0"] & ((1 << 8 * row.mem.elem_bytes) - 1)

    return run_it


def value_kind(row: OpcodeRow) -> str:
    found = re.search(r"(f16|bf16|f32|f64)$", row.mem.op)
    return found[1] if found else "int"


@pytest.mark.parametrize("name", ATOMICS)
def test_atomic(name: str) -> None:
    row = ROWS[name]
    size, kind, want = row.mem.elem_bytes, value_kind(row), oracle(row)
    memory, operands = fill(name, "memory", kind), fill(name, "data", kind)
    if "cmpswap" in row.mem.op:  # every other lane compares equal
        data = bytearray(operands)
        at = 0 if row.unit == "lds" else size
        for lane in range(0, LANES, 2):
            data[lane * STEP + at : lane * STEP + at + size] = memory[lane * STEP : lane * STEP + size]
        operands = bytes(data)
    assert row.archs
    for arch in row.archs:
        results = bytes(LANES * STEP)
        after, returned = run(row, arch, memory, operands, results)
        wide = 2 * size if "cmpswap" in row.mem.op and row.unit == "vmem" else size
        for lane in range(LANES):
            old, data1 = element(memory, lane, size), element(operands, lane, wide)
            expected = want(old, data1, element(operands, lane, size, size))
            if arch == "gfx90a" and row.mem.op == "add_f32" and row.unit == "vmem":  # its L2 flushes denormals
                expected = flush(want(flush(old, F32), flush(data1, F32), 0), F32)
            got = element(after, lane, size)
            assert same(got, expected, "pk_f16" if kind == "f16" else kind, 0), (
                f"{name} {arch} lane {lane}: memory {old:#x}, data {data1:#x} -> {got:#x}, expected {expected:#x}"
            )
            if "d:" in row.sig or "d?" in row.sig or row.mem.space == "buffer":
                assert element(returned, lane, size) == old, f"{name} {arch} lane {lane}: returned value"


@pytest.mark.parametrize("name", sorted(n for n, r in ROWS.items() if r.mem.kind == "atomic" and r.mem.two_addr))
def test_double_exchange(name: str) -> None:
    row = ROWS[name]
    size = row.mem.elem_bytes
    memory, operands = fill(name, "memory", "int"), fill(name, "data", "int")
    text = f"{name} {vector(20, 2 * size)}, v1, {vector(4, size)}, {vector(4 + size // 4, size)} offset1:1"
    if row.mem.two_addr == 64:  # far apart: only lane 0 has both places inside
        text = f"s_mov_b64 exec, 1\nv_mov_b32 v1, 0\n{text}\nv_mov_b32 v1, 0\ns_waitcnt lgkmcnt(0)\n"
    d = device("gfx90a")
    places = [upload(d, b) for b in (memory, operands, bytes(LANES * STEP))]
    code = PROLOGUE + LDS_IN + text + "\n" + RESULTS + "s_endpgm\n"
    d.launch(d.load_text(code, lds_bytes=1024), "kernel", (1, 1, 1), (LANES, 1, 1), struct.pack("<3Q", *places))
    returned = download(d, places[2], LANES * STEP)
    far = row.mem.two_addr * size
    assert element(returned, 0, size) == element(memory, 0, size)
    assert element(returned, 0, size, size) == int.from_bytes(memory[far : far + size], "little")


# --- loads and stores against the host ------------------------------------------------------------------------------


def loaded(row: OpcodeRow, raw: bytes, old: bytes) -> bytes:
    """The 16 result bytes of a load: what the mnemonic says about size, sign and half."""
    size = row.mem.elem_bytes * row.mem.count
    if size >= 4:
        return raw[:size] + old[size:]
    value = int.from_bytes(raw[:size], "little", signed="sb" in row.name or "ss" in row.name or "_i" in row.name)
    if "d16_hi" in row.name:
        word = (value & 0xFFFF) << 16 | int.from_bytes(old[:2], "little")
    elif "d16" in row.name:
        word = value & 0xFFFF | int.from_bytes(old[2:4], "little") << 16
    else:
        word = value & 0xFFFFFFFF
    return word.to_bytes(4, "little") + old[4:]


def stored(row: OpcodeRow, memory: bytes, data: bytes) -> bytes:
    size = row.mem.elem_bytes * row.mem.count
    from_ = data[2:] if "d16_hi" in row.name else data
    return from_[:size] + memory[size:]


@pytest.mark.parametrize("name", MOVES)
def test_load_or_store(name: str) -> None:
    row = ROWS[name]
    if row.mem.two_addr:
        return two_places(row)
    memory, operands, results = (fill(name, what, "int") for what in ("memory", "data", "results"))
    assert row.archs
    for arch in row.archs:
        after, returned = run(row, arch, memory, operands, results)
        for lane in range(LANES):
            here = slice(lane * STEP, (lane + 1) * STEP)
            if row.mem.kind == "load":
                assert after[here] == memory[here]
                assert returned[here] == loaded(row, memory[here], results[here]), f"{name} {arch} lane {lane}"
            else:
                assert after[here] == stored(row, memory[here], operands[here]), f"{name} {arch} lane {lane}"
    return None


def two_places(row: OpcodeRow) -> None:
    """ds_read2 and ds_write2: the second address is `offset1` elements, or 64 times as many, further."""
    size, step = row.mem.elem_bytes, row.mem.two_addr
    memory, operands = fill(row.name, "memory", "int"), fill(row.name, "data", "int")
    d = device("gfx942")
    places = [upload(d, b) for b in (memory, operands, bytes(LANES * STEP))]
    text = PROLOGUE + LDS_IN + "s_mov_b64 exec, 1\n"
    if row.mem.kind == "load":
        text += f"{row.name} {vector(20, 2 * size)}, v1 offset1:1\n" + RESULTS
    else:
        text += (
            f"{row.name} v1, {vector(4, size)}, {vector(4 + size // 4, size)} offset1:1\ns_mov_b64 exec, -1\n" + LDS_OUT
        )
    d.launch(
        d.load_text(text + "s_endpgm\n", lds_bytes=1024),
        "kernel",
        (1, 1, 1),
        (LANES, 1, 1),
        struct.pack("<3Q", *places),
    )
    second = step * size
    if row.mem.kind == "load":
        got = download(d, places[2], 2 * size)
        assert got == memory[:size] + memory[second : second + size]
    else:
        got = download(d, places[0], LANES * STEP)
        assert got[:size] == operands[:size]
        assert got[second : second + size] == operands[size : 2 * size]


# --- scalar memory --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SCALAR)
def test_scalar_memory(name: str) -> None:
    row = ROWS[name]
    size = row.mem.elem_bytes * row.mem.count
    dwords = size // 4
    memory, operands = fill(name, "memory", "int"), fill(name, "data", "int")
    base = {"buffer": "s[12:15]"}.get(row.mem.space, "s[4:5]")
    compares = "cmpswap" in row.mem.op
    width = dwords * (2 if compares else 1)
    scalars = f"s[20:{20 + width - 1}]" if width > 1 else "s20"
    glc = " glc" if row.mem.kind == "atomic" else ""
    text = PROLOGUE + "s_load_dwordx4 s[20:23], s[6:7], 0x0\ns_waitcnt lgkmcnt(0)\n"
    text += f"{name} {scalars}, {base}, 0x40{glc}\ns_waitcnt lgkmcnt(0)\n"
    for i in range(min(4, dwords)):
        text += f"v_mov_b32 v{20 + i}, s{20 + i}\n"
    assert row.archs
    for arch in row.archs:
        d = device(arch)
        places = [upload(d, b) for b in (memory, operands, bytes(LANES * STEP))]
        d.launch(
            d.load_text(text + RESULTS + "s_endpgm\n"), "kernel", (1, 1, 1), (LANES, 1, 1), struct.pack("<3Q", *places)
        )
        after, got = download(d, places[0], len(memory)), download(d, places[2], STEP)
        if row.mem.kind == "load":
            assert got[: min(16, size)] == memory[0x40 : 0x40 + min(16, size)]
        elif row.mem.kind == "store":
            assert after[0x40 : 0x40 + size] == operands[:size]
        else:
            old = int.from_bytes(memory[0x40 : 0x40 + size], "little")
            data = int.from_bytes(operands[: width * 4], "little")
            assert int.from_bytes(got[:size], "little") == old
            assert int.from_bytes(after[0x40 : 0x40 + size], "little") == oracle(row)(old, data, 0)
        for place in places:
            d.release(place)


# --- the rest of the LDS -------------------------------------------------------------------------------------------


def lds_kernel(text: str, arch: str = "gfx942") -> tuple[np.ndarray, np.ndarray]:
    """(LDS dwords, v20 of all lanes) after `text`, with dword i of the LDS set to i beforehand."""
    d = device(arch)
    memory = np.arange(LANES * 4, dtype=np.uint32).tobytes()
    places = [upload(d, b) for b in (memory, bytes(LANES * STEP), bytes(LANES * STEP))]
    code = PROLOGUE + LDS_IN + text + "\ns_mov_b64 exec, -1\n" + LDS_OUT + RESULTS + "s_endpgm\n"
    d.launch(d.load_text(code, lds_bytes=1024), "kernel", (1, 1, 1), (LANES, 1, 1), struct.pack("<3Q", *places))
    after = np.frombuffer(download(d, places[0], len(memory)), np.uint32)
    return after, np.frombuffer(download(d, places[2], LANES * STEP), np.uint32)[::4]


def test_append_and_consume_move_a_counter_by_the_active_lanes() -> None:
    after, got = lds_kernel("s_mov_b32 m0, 16\ns_mov_b64 exec, 0xff\nds_append v20 offset:4")
    assert (after[5], got[:9].tolist()) == (5 + 8, [5] * 8 + [0])
    after, got = lds_kernel("s_mov_b32 m0, 16\ns_mov_b64 exec, 0x7\nds_consume v20")
    assert (after[4], got[:4].tolist()) == (4 - 3, [4, 4, 4, 0])


def test_addresses_by_work_item_number() -> None:
    after, got = lds_kernel("s_mov_b32 m0, 8\nds_read_addtid_b32 v20 offset:4")
    assert got.tolist() == [3 + i for i in range(LANES)]
    after, _ = lds_kernel("s_mov_b32 m0, 8\nv_add_u32 v2, 1000, v0\nds_write_addtid_b32 v2 offset:4")
    assert after[3 : 3 + LANES].tolist() == [1000 + i for i in range(LANES)]
    assert after[2] == 2


# The published tables of the FFT mode: the lane that lane i reads, counted from 1, by bits 0..4 of the pattern.
FFT = {
    0x00: "1 11 9 19 5 15 d 1d 3 13 b 1b 7 17 f 1f 2 12 a 1a 6 16 e 1e 4 14 c 1c 8 18 10 20",
    0x10: "1 9 5 d 3 b 7 f 2 a 6 e 4 c 8 10 11 19 15 1d 13 1b 17 1f 12 1a 16 1e 14 1c 18 20",
    0x1F: " ".join(f"{i + 1:x}" for i in range(32)),
}


@pytest.mark.parametrize("pattern", FFT)
def test_swizzle_in_fft_mode(pattern: int) -> None:
    _, got = lds_kernel(f"ds_swizzle_b32 v20, v0 offset:{0xE000 | pattern:#x}")
    lanes = [int(word, 16) - 1 for word in FFT[pattern].split()]
    assert got.tolist() == lanes + [32 + lane for lane in lanes]


@pytest.mark.parametrize("direction", [0, 1])
def test_swizzle_in_rotate_mode(direction: int) -> None:
    _, got = lds_kernel(f"ds_swizzle_b32 v20, v0 offset:{0xC000 | direction << 10 | 3 << 5:#x}")
    by = -3 if direction else 3
    assert got.tolist() == [(i & 32) | (i + by) % 32 for i in range(LANES)]


@pytest.mark.parametrize("arch", DEVICES)
def test_loads_straight_into_the_lds(arch: str) -> None:
    text = "s_mov_b32 m0, 64\nbuffer_load_dword v1, s[12:15], 0 offen offset:4 lds\ns_waitcnt vmcnt(0)"
    after, _ = lds_kernel(text, arch)
    assert after[17 : 17 + LANES].tolist() == [4 * i + 1 for i in range(LANES)]
    if arch == "gfx942":
        after, _ = lds_kernel("s_mov_b32 m0, 64\nglobal_load_lds_dword v1, s[4:5] offset:4\ns_waitcnt vmcnt(0)", arch)
        assert after[17 : 17 + LANES].tolist() == [4 * i + 1 for i in range(LANES)]
