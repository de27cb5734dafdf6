"""Can device code access memory outside its allocations? Every case is an attack on the simulating process."""

from __future__ import annotations

import struct
from typing import Any

import needs
import pytest

from hipsynth.simulator import devices

core = needs.core()
DEVICES = {"gfx90a": "mi250", "gfx942": "mi300x"}
BOTH = pytest.mark.parametrize("arch", DEVICES)
WILD = 0x7F00_0000_1000  # where a process keeps its own libraries and stacks


def device(arch: str, **options: Any) -> Any:
    return core.Device(arch, devices.load_device(DEVICES[arch]).spec(), max_wave_instructions=100_000, **options)


def run(arch: str, text: str, args: bytes = b"", lds: int = 0, grid: Any = (1, 1, 1), **options: Any) -> dict[str, Any]:
    """Launches assembler lines (s_endpgm is added) with one wave per work-group; s[0:1] points at `args`."""
    d = device(arch)
    module = d.load_text(text + "\ns_endpgm\n", **options)
    made: dict[str, Any] = d.launch(module, "kernel", grid, (64, 1, 1), args, lds)
    return made


def refusal(arch: str, text: str, **options: Any) -> tuple[str, str]:
    with pytest.raises(core.SimError) as caught:
        run(arch, text, **options)
    reason, message = caught.value.args
    return reason, message


def pointer(register: int, value: int) -> str:
    low, high = value & 0xFFFFFFFF, value >> 32
    return f"v_mov_b32 v{register}, {low:#x}\nv_mov_b32 v{register + 1}, {high:#x}\n"


def scalar_pointer() -> str:
    return f"s_mov_b32 s4, {WILD & 0xFFFFFFFF:#x}\ns_mov_b32 s5, {WILD >> 32:#x}\n"


def resource(words: list[int], first: int = 8) -> str:
    return "".join(f"s_mov_b32 s{first + i}, {word:#x}\n" for i, word in enumerate(words))


WILD_ACCESSES = {
    "global load": pointer(2, WILD) + "global_load_dwordx4 v[4:7], v[2:3], off",
    "global store": pointer(2, WILD) + "global_store_dword v[2:3], v0, off",
    "global atomic": pointer(2, WILD) + "global_atomic_add_x2 v[2:3], v[4:5], off",
    "flat load": pointer(2, WILD) + "flat_load_dword v4, v[2:3]",
    "flat store": pointer(2, WILD) + "flat_store_dwordx3 v[2:3], v[4:6]",
    "flat atomic": pointer(2, WILD) + "flat_atomic_cmpswap v[2:3], v[4:5]",
    "address that wraps": pointer(2, (1 << 64) - 4) + "global_load_dwordx4 v[4:7], v[2:3], off",
    "buffer": resource([WILD & 0xFFFFFFFF, WILD >> 32, 0xFFFFFFFF, 0]) + "buffer_load_dword v1, off, s[8:11], 0",
    "swizzled buffer": resource([WILD & 0xFFFFFFFF, (WILD >> 32) | 1 << 31, 0xFFFFFFFF, 0])
    + "buffer_store_dwordx4 v[4:7], off, s[8:11], 0",
    "swizzled buffer by thread": resource([WILD & 0xFFFFFFFF, (WILD >> 32) | 1 << 31, 0xFFFFFFFF, 1 << 23])
    + "buffer_store_dword v4, off, s[8:11], 0",
    "scalar load": scalar_pointer() + "s_load_dwordx16 s[16:31], s[4:5], 0",
    "scalar store": scalar_pointer() + "s_store_dword s0, s[4:5], 0",
    "scalar buffer": resource([WILD & 0xFFFFFFFF, WILD >> 32, 0xFFFFFFFF, 0])
    + "s_buffer_load_dwordx4 s[16:19], s[8:11], 0x40",
    "LDS beyond its end": "v_mov_b32 v1, 0x40000000\nds_write_b128 v1, v[4:7]",
    "LDS offset": "v_mov_b32 v1, 0\nds_read_b64 v[4:5], v1 offset:65535",
    "LDS atomic": "v_mov_b32 v1, -4\nds_add_u32 v1, v2",
    "LDS through a generic address": pointer(2, (1 << 48) + 0xFFFFFF) + "flat_store_dword v[2:3], v0",
    "private through a generic address": pointer(2, (2 << 48) + 60) + "flat_store_dwordx2 v[2:3], v[4:5]",
    "private": "v_mov_b32 v1, 0x7ffffff0\nscratch_store_dword v1, v0, off",
    "private offset": "scratch_load_dwordx4 v[4:7], off, off offset:4092",
    "jump": "s_mov_b32 s4, 0x1000\ns_mov_b32 s5, 0x7f00\ns_setpc_b64 s[4:5]",
}  # fmt: skip


@BOTH
@pytest.mark.parametrize("case", WILD_ACCESSES)
def test_wild_accesses_are_refused(arch: str, case: str) -> None:
    reason, message = refusal(arch, WILD_ACCESSES[case], scratch_bytes=64)
    assert reason == "illegal_access", message
    assert "kernel kernel, instruction" in message


@BOTH
@pytest.mark.parametrize(
    "text",
    [
        "v_mov_b32 v255, v0",
        "v_accvgpr_write_b32 a255, v0",
        "v_add_f64 v[14:15], v[15:16], v[0:1]",
        "v_mfma_f32_32x32x1f32 v[0:31], v0, v1, 0",
        "global_load_dwordx4 v[13:16], v[0:1], off",
        "ds_read_b128 v[14:17], v0",
    ],
)
def test_registers_beyond_the_kernels_own_are_refused_before_it_runs(arch: str, text: str) -> None:
    reason, message = refusal(arch, text, vgprs=16, accum_offset=8)
    assert reason == "bad_code_object"
    assert "allots 16" in message


@pytest.mark.parametrize(
    "text",
    [
        "buffer_load_format_x v8, v40, s[24:27], 0 idxen",
        "buffer_store_format_x v40, v2, s[24:27], 0 idxen",
        "tbuffer_load_format_d16_xyzw v[15:16], v2, s[24:27], 0 format:4 idxen",
        "tbuffer_load_format_x v8, v[15:16], s[24:27], 0 format:4 idxen offen",
        "image_atomic_cmpswap v[15:16], v2, s[24:31] dmask:0x3 unorm glc",
        "image_load v[13:16], v2, s[24:31] dmask:0xf unorm",
    ],
)
def test_texel_loads_cannot_write_other_registers(text: str) -> None:
    reason, message = refusal("gfx90a", text, vgprs=16)
    assert reason == "bad_code_object"
    assert "allots 16" in message


def test_indexed_registers_beyond_the_kernels_own_read_register_0_and_are_not_written() -> None:
    text = "s_movk_i32 s4, 0xff\ns_set_gpr_idx_on s4, gpr_idx(DST,SRC0)\nv_mov_b32 v7, v1\ns_set_gpr_idx_off"
    assert run("gfx90a", text, vgprs=8)["counters"]["SQ_INSTS_VALU"] == 1


@BOTH
@pytest.mark.parametrize(
    "text",
    [
        "s_load_dwordx16 ttmp15, s[0:1], 0",
        "s_load_dwordx16 s[96:101], s[0:1], 0",
        "s_load_dword s4, v[0:1], 0",
        "s_getpc_b64 v[200:201]",
        "s_setpc_b64 v[200:201]",
        "s_memtime exec_hi",
        "global_load_dword v1, 0, off",
        "global_load_dword v1, v2, off",
        "global_load_dwordx4 v1, v[2:3], off",
        "global_store_dwordx4 v[2:3], v1, off",
        "global_atomic_add v[2:3], s4, off",
        "flat_load_dword v1, s[2:3]",
        "buffer_load_dword v1, off, v[8:11], 0",
        "buffer_load_dword off, s[8:11], 0",
        "buffer_load_dword v1, v2, s[8:11], 0 offen idxen",
        "ds_read_b32 v1, s4",
        "ds_write2_b64 v1, v2, v[4:5]",
        "ds_bpermute_b32 v1, v2, 0",
        "ds_add_rtn_u64 v1, v2, v[4:5]",
        "v_readlane_b32 s4, s5, 0",
        "v_writelane_b32 s4, s5, 0",
        "v_swap_b32 v1, s4",
        "v_mfma_f32_4x4x1f32 v[0:3], s4, v1, 0",
        "v_fma_mix_f32 s4, v1, v2, v3",
    ],
)
def test_operands_of_the_wrong_kind_or_width_are_refused_before_anything_runs(arch: str, text: str) -> None:
    reason, message = refusal(arch, text)
    assert (reason, text in message) == ("unsupported_opcode", True)


def test_executing_padding_between_functions_is_a_trap() -> None:
    """Compilers leave nothing behind a call that does not return; what follows may use registers we do not have."""
    text = "s_cbranch_scc1 1 // 000000000000: 00000000\ns_endpgm // 000000000004: 00000000\n"
    text += "v_mov_b32 v1, v0 // 000000000008: 00000000\n\t...\nv_mov_b32 v200, v0 // 000000000100: 00000000\n"
    d = device("gfx90a")
    d.launch(d.load_text(text, vgprs=8), "kernel", (1, 1, 1), (64, 1, 1), b"")
    fallen = text.replace("s_cbranch_scc1 1", "s_branch 1").replace("scc1", "scc0")
    with pytest.raises(core.SimError) as caught:
        d.launch(d.load_text(fallen, vgprs=8), "kernel", (1, 1, 1), (64, 1, 1), b"")
    assert caught.value.args[0] == "trap"


def test_falling_off_the_end_is_a_trap() -> None:
    d = device("gfx90a")
    with pytest.raises(core.SimError) as caught:
        d.launch(d.load_text("v_mov_b32 v1, v0\n"), "kernel", (1, 1, 1), (64, 1, 1), b"")
    assert caught.value.args[0] == "trap"


@pytest.mark.parametrize(
    ("grid", "block"),
    [
        ((1 << 31, 1 << 31, 1 << 31), (64, 1, 1)),
        ((1, 1, 1), (0xFFFFFFFF, 0xFFFFFFFF, 1)),
        ((1, 1, 1), (3, 0xAAAAAAAB, 0xAAAAAAAB)),
        ((0, 1, 1), (64, 1, 1)),
        ((1, 1, 1), (1025, 1, 1)),
    ],
)
def test_absurd_launch_sizes_are_refused(grid: Any, block: Any) -> None:
    d = device("gfx942")
    with pytest.raises(core.SimError) as caught:
        d.launch(d.load_text("s_endpgm\n"), "kernel", grid, block, b"")
    assert caught.value.args[0] == "bad_launch"


@pytest.mark.parametrize("options", [{"lds_bytes": 1 << 17}, {"scratch_bytes": 0xFFFFFFFF}, {"lds_bytes": 0xFFFFFFFF}])
def test_absurd_kernel_resources_are_refused(options: dict[str, int]) -> None:
    assert refusal("gfx942", "s_nop 0", **options)[0] == "bad_launch"


def printf_attack(words: bytes, header: tuple[int, int] = (0, 0)) -> str:
    """Output of a kernel that writes a printf record of its own making."""
    d = device("gfx942")
    record = words.ljust((len(words) + 3) // 4 * 4, b"\0")
    used = header[0] or len(record)
    lines = [f"v_mov_b32 v0, {used:#x}", f"v_mov_b32 v1, {header[1] or 0x1000:#x}", "v_mov_b32 v9, 0"]
    lines += ["s_load_dwordx2 s[4:5], s[0:1], 0x40", "s_waitcnt lgkmcnt(0)", "global_store_dwordx2 v9, v[0:1], s[4:5]"]
    for i, (word,) in enumerate(struct.iter_unpack("<I", record)):
        lines += [f"v_mov_b32 v0, {word:#x}", f"global_store_dword v9, v0, s[4:5] offset:{8 + 4 * i}"]
    module = d.load_text("\n".join([*lines, "s_endpgm", ""]))
    text: bytes = d.launch(module, "kernel", (1, 1, 1), (64, 1, 1), b"")["printf"]
    return text.decode(errors="replace")


def record(text: bytes, *arguments: int) -> bytes:
    padded = text.ljust((len(text) + 8) // 8 * 8, b"\0")
    body = padded + b"".join(struct.pack("<Q", a) for a in arguments)
    return struct.pack("<I", (4 + len(body)) << 2) + body


def test_printf_records_made_by_the_kernel_are_read_safely() -> None:
    assert printf_attack(record(b"value %d\n", 7)) == "value 7\n"
    assert "unsupported conversion" in printf_attack(record(b"%n", WILD))
    assert "unsupported conversion" in printf_attack(record(b"%hhn", WILD))
    assert "unsupported conversion" in printf_attack(record(b"%1$s", WILD))
    assert "unsupported conversion" in printf_attack(record(b"%*d", 0x7FFFFFFF, 1))
    assert "unsupported conversion" in printf_attack(record(b"%.999999999f", 1))
    assert "truncated" in printf_attack(record(b"%s%s%s"))
    assert "unreadable" in printf_attack(struct.pack("<I", 0xFFFFFFFC))


def test_a_printf_buffer_that_claims_to_be_larger_than_it_is_ends_at_its_end() -> None:
    assert printf_attack(b"\0" * 8, header=(0xFFFFFFFF, 0xFFFFFFFF)).endswith("[unreadable printf record]\n")


@BOTH
def test_a_kernel_that_cannot_run_does_not_stop_the_others(arch: str) -> None:
    d = device(arch)
    bad = "s_branch over\nv_no_such_thing v0\nover:\ns_endpgm\n"
    assert d.launch(d.load_text(bad), "kernel", (1, 1, 1), (64, 1, 1), b"")["counters"]["SQ_INSTS"] == 2
    reason, message = refusal(arch, "s_cbranch_scc1 over\nv_no_such_thing v0\nv_nor_this v0\nover:")
    assert reason == "unsupported_opcode"
    for part in ("2 unsupported", "v_no_such_thing", "v_nor_this"):
        assert part in message
