"""Does the decoder read disassembler text, and refuse with a complete list what it cannot?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from hipsynth.simulator import _core
from hipsynth.simulator.isa import coverage as coverage_report
from hipsynth.simulator.isa.coverage import executing_opcodes, ranked_coverage
from hipsynth.simulator.isa.table import load_rows

OBJDUMP = """
x.co:\tfile format elf64-amdgpu

Disassembly of section .text:

0000000000001900 <kernel>:
\ts_load_dword s0, s[4:5], 0x2c                              // 000000001900: C0020002 0000002C
\tv_cmp_gt_i32_e32 vcc, s1, v0                               // 000000001908: 7D880001
\ts_cbranch_execz 2                                          // 00000000190C: BF880002 <kernel+0x18>
\tv_add_f64 v[2:3], v[2:3], 0.5                              // 000000001910: D2800002 0001E102
\ts_endpgm                                                   // 000000001918: BF810000
\ts_branch 65534                                             // 00000000191C: BF82FFFE <kernel+0x18>
\t.long 0xffffffff                                           // 000000001920: FFFFFFFF
\t...
"""


def decode(text: str, arch: str = "gfx90a") -> list[dict[str, Any]]:
    result = _core.decode(arch, text)
    assert result["unsupported"] == []
    return list(result["insts"])


def one(text: str, arch: str = "gfx90a") -> dict[str, Any]:
    return decode(text, arch)[0]


def test_objdump_text_with_addresses_and_branches() -> None:
    insts = decode(OBJDUMP)
    assert [i["mnemonic"] for i in insts][:3] == ["s_load_dword", "v_cmp_gt_i32", "s_cbranch_execz"]
    assert [i["size"] for i in insts] == [8, 4, 4, 8, 4, 4]
    assert insts[2]["imm"] == 4  # the index of s_endpgm
    assert insts[5]["imm"] == 4  # backwards
    assert insts[0]["imm"] == 0x2C


def test_labels_in_plain_assembler() -> None:
    insts = decode("loop:\n v_nop\n s_cbranch_scc1 loop ; comment\n s_branch end\n s_nop 3\nend:\n s_endpgm\n")
    assert insts[1]["imm"] == 0
    assert insts[2]["imm"] == 4
    assert insts[3]["imm"] == 3


def test_constants_take_the_operand_type() -> None:
    value = lambda text, k=0: one(text)["src"][k]["value"]  # noqa: E731
    assert value("v_add_f32 v0, 1.0, v1") == 0x3F800000
    assert value("v_add_f16 v0, 1.0, v1") == 0x3C00
    assert value("v_add_f64 v[0:1], 1.0, v[2:3]") == 0x3FF0000000000000
    assert value("v_fma_f64 v[0:1], v[2:3], 0x40590000, v[4:5]", 1) == 0x4059000000000000
    assert value("v_add_u32 v0, -4, v1") == 0xFFFFFFFFFFFFFFFC
    assert value("s_mov_b64 s[0:1], 0x80000000") == 0x80000000
    assert value("s_cmp_eq_u64 s[0:1], -1", 1) == 0xFFFFFFFFFFFFFFFF
    assert value("s_ashr_i64 s[0:1], 0x80000000, s4") == 0xFFFFFFFF80000000
    assert value("v_mul_f32 v0, 0.15915494, v1") == 0x3E22F983


def test_waitcnt_fields() -> None:
    assert one("s_waitcnt vmcnt(0)")["imm"] == 0x0F70
    assert one("s_waitcnt vmcnt(0) lgkmcnt(3)")["imm"] == 0x0370
    assert one("s_waitcnt expcnt(0)")["imm"] == 0xCF0F
    assert one("s_waitcnt vmcnt(63) expcnt(7) lgkmcnt(15)")["imm"] == 0xCF7F


def kinds(inst: dict[str, Any]) -> list[str]:
    return [inst["dst"]["kind"], *(s["kind"] for s in inst["src"])]


def test_memory_operands_go_to_their_slots() -> None:
    assert kinds(one("global_load_dword v1, v[2:3], off offset:-8"))[:3] == ["vgpr", "vgpr", "off"]
    assert one("global_load_dword v1, v[2:3], off offset:-8")["imm"] == -8
    assert kinds(one("global_store_dwordx2 v0, v[2:3], s[4:5]"))[:4] == ["none", "vgpr", "vgpr", "sgpr"]
    assert kinds(one("global_atomic_add v1, v[2:3], v4, off glc"))[:4] == ["vgpr", "vgpr", "vgpr", "off"]
    assert kinds(one("global_atomic_add v2, v4, s[0:1]"))[:4] == ["none", "vgpr", "vgpr", "sgpr"]
    assert kinds(one("buffer_load_dword v1, off, s[8:11], s3 offset:4"))[:5] == ["vgpr", "off", "none", "sgpr", "sgpr"]
    assert kinds(one("buffer_load_dword off, s[8:11], s3 lds"))[:5] == ["none", "off", "none", "sgpr", "sgpr"]
    assert kinds(one("buffer_store_dword v1, v2, s[8:11], 0 offen"))[:5] == ["none", "vgpr", "vgpr", "sgpr", "constant"]
    assert kinds(one("buffer_atomic_add v1, off, s[8:11], 0 glc"))[0] == "vgpr"
    assert kinds(one("scratch_load_dword v0, off, s0"))[:3] == ["vgpr", "off", "sgpr"]
    assert kinds(one("ds_write2_b32 v0, v1, v2 offset0:3 offset1:5"))[:4] == ["none", "vgpr", "vgpr", "vgpr"]
    assert one("ds_write2_b32 v0, v1, v2 offset0:3 offset1:5")["offset1"] == 5
    assert kinds(one("s_load_dwordx2 s[0:1], s[4:5], s6"))[:3] == ["sgpr", "sgpr", "sgpr"]


def test_swizzle_patterns() -> None:
    pattern = lambda text: one(f"ds_swizzle_b32 v0, v1 offset:{text}")["offset0"]  # noqa: E731
    assert pattern('swizzle(BITMASK_PERM,"01pip")') == 0x0907
    assert pattern("swizzle(QUAD_PERM,0,1,2,3)") == 0x80E4
    assert pattern("swizzle(SWAP,16)") == 0x401F
    assert pattern("swizzle(REVERSE,8)") == 0x1C1F
    assert pattern("swizzle(BROADCAST,8,3)") == 0x0078
    assert pattern("swizzle(ROTATE,1,3)") == 0xC460
    assert pattern("swizzle(FFT,15)") == 0xE00F
    assert pattern("0x8055") == 0x8055


def test_everything_unsupported_is_listed_once() -> None:
    text = "v_foo_b32 v0, v1\nv_foo_b32 v0, v1\nv_add_f32 v0, v1\n"
    text += "s_setvskip s0, 4\nv_mov_b32 v0, v1 wat:3\n"
    found = _core.decode("gfx90a", text)["unsupported"]
    assert len(found) == 4
    assert any("v_foo_b32: no such opcode" in f for f in found)
    assert any("no compiler emits it" in f for f in found)


def test_instructions_of_the_other_architecture_are_refused() -> None:
    assert _core.decode("gfx90a", "v_mov_b64 v[0:1], v[2:3]")["unsupported"]
    assert _core.decode("gfx942", "v_mac_f32 v0, v1, v2")["unsupported"]


def test_register_tuples_of_wrong_width_are_refused() -> None:
    bad = ["v_add_f64 v0, v[2:3], v[4:5]", "v_add_f32 v[0:1], v2, v3", "s_add_u32 s0, v1, s2", "v_mov_b32 v300, v1"]
    bad += ["v_mfma_f32_16x16x4f32 v[0:1], v4, v5, 0", "v_add_f32 1.0, v1, v2"]
    for text in bad:
        assert _core.decode("gfx90a", text)["unsupported"], text


@given(st.text(alphabet="vsa[]()0123456789:,.|- _xefdglobalmixt\n\t/<>;\"'", max_size=200))
def test_garbage_never_raises(text: str) -> None:
    for prefix in ("", "v_add_f32 ", "ds_swizzle_b32 v0, v1 offset:", "s_waitcnt ", "v_mov_b32_dpp v0, v1 "):
        _core.decode("gfx942", prefix + text)


def test_every_opcode_that_programs_use_executes() -> None:
    entries = ranked_coverage()
    assert len(entries) == 471
    for arch in ("gfx90a", "gfx942"):
        assert [e.mnemonic for e in entries if e.ranks[arch] is not None and e.state != "executes"] == []
        assert len(executing_opcodes(entries, arch)) == sum(e.ranks[arch] is not None for e in entries)


def test_rows_that_execute_have_a_handler_or_a_memory_form() -> None:
    rows = [op for op in _core.opcodes() if op["unit"] in ("valu", "salu")]
    assert len(rows) > 500
    for op in rows:
        assert op["has_handler"] == (op["refused"] == ""), op["name"]


def test_rates_are_named_as_in_the_table() -> None:
    rates = {row.name: row.rate for row in load_rows()}
    assert {op["name"]: op["rate"] for op in _core.opcodes()} == rates and {"packed", "mfma"} <= set(rates.values())


def test_the_report_of_opcodes_is_fresh() -> None:
    assert coverage_report.main(["--check"]) == 0


def test_every_executing_opcode_names_a_test_that_exists() -> None:
    folder = Path(__file__).parents[2] / "differential"
    entries = [entry for entry in coverage_report.full_coverage() if entry.state == "executes"]
    assert len(entries) > 500
    for entry in entries:
        file, _, function = entry.test.partition("::")
        assert f"def {function}" in (folder / file).read_text(), entry
        assert entry.oracle
