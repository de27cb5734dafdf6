"""Does the decoder read every operand correctly?

Assembler lines of every opcode in many operand forms go through LLVM's assembler and disassembler. The disassembly is
decoded, printed again from the decoded fields only, and assembled again: the bytes must be the same.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import llvm_syntax
import pytest
from llvm_tools import MC, OBJDUMP

from hipsynth.simulator import _core
from hipsynth.simulator.isa.table import ARCHS, OpcodeRow, load_rows

ROWS = {r.name: r for r in load_rows() if r.executes}
VGPRS = {"d": 40, "a": 4, "b": 8, "c": 12, "x": 16, "y": 24}
SGPRS = {"d": 48, "e": 50, "a": 52, "b": 56, "c": 60, "x": 64}
CONSTANTS = ("0", "5", "-16", "64", "0x12345678", "0xffff8000")
REALS = ("1.0", "-4.0", "0.5", "0.15915494309189532")
SCALARS = ("vcc_lo", "vcc_hi", "m0", "exec_lo", "exec_hi", "flat_scratch_lo", "xnack_mask_hi", "ttmp4", "src_scc")
SCALARS += ("src_vccz", "src_execz", "src_pops_exiting_wave_id", "src_shared_base", "src_private_limit")
PAIRS = ("vcc", "exec", "flat_scratch", "xnack_mask", "ttmp[4:5]", "src_private_base", "src_shared_limit")
DPP = (
    "quad_perm:[3,0,2,1] row_mask:0xa bank_mask:0x5",
    "row_shl:3 row_mask:0xf bank_mask:0xf bound_ctrl:1",
    "row_ror:15 row_mask:0x1 bank_mask:0xf",
    "row_shr:1 row_mask:0xf bank_mask:0xf",
    "wave_rol:1 row_mask:0xf bank_mask:0xf",
    "wave_ror:1 row_mask:0xf bank_mask:0xf",
    "wave_shl:1 row_mask:0xf bank_mask:0xf",
    "wave_shr:1 row_mask:0xf bank_mask:0xf",
    "row_mirror row_mask:0xf bank_mask:0xf",
    "row_half_mirror row_mask:0xf bank_mask:0xf",
    "row_bcast:15 row_mask:0xf bank_mask:0xf",
    "row_bcast:31 row_mask:0xf bank_mask:0xf",
    "row_newbcast:7 row_mask:0xf bank_mask:0xf",
)
FLAGS = {"gfx90a": ("", "glc", "slc", "glc slc scc")}
FLAGS |= dict.fromkeys(("gfx942", "gfx950"), ("", "sc0", "sc1", "nt", "sc0 sc1 nt"))
NOT_WRITTEN = {"target"}  # branches: their operand becomes an instruction index, test_isa_decode.py checks those


def width(row: OpcodeRow, slot: str, kind: str) -> int:
    """Dwords of a register operand."""
    if found := re.fullmatch(r"(mat|mx|acc|wide|quad)(\d+)", kind):
        return int(found[2])
    if kind in ("b64", "u64", "i64", "f64", "f64bits", "pk_f32", "pk_b32", "mask"):
        return 2
    if kind == "b128":
        return 4
    data = slot in ("d", "b", "c") and row.unit in ("vmem", "lds", "smem") and kind == "b32"
    if not data or row.mem.kind == "cross_lane":
        return 1
    size = row.mem.elem_bytes * (1 if row.mem.two_addr and slot != "d" else row.mem.count)
    double = row.mem.op.startswith("cmpswap") and row.unit != "lds" and slot != "d"
    return max(1, -(-size // 4)) * (2 if double else 1)


def tuple_of(letter: str, first: int, count: int) -> str:
    return f"{letter}{first}" if count == 1 else f"{letter}[{first}:{first + count - 1}]"


def plain(row: OpcodeRow, slot: str, kind: str) -> str:
    count = width(row, slot, kind)
    scalar = row.unit in ("salu", "smem") or kind == "mask" or (row.unit == "flow" and count == 2)
    if row.name in ("v_readlane_b32", "v_readfirstlane_b32") and slot == "d":
        scalar = True
    return tuple_of("s", SGPRS[slot], count) if scalar else tuple_of("v", VGPRS[slot], count)


def others(row: OpcodeRow, slot: str, kind: str) -> list[str]:
    """Other kinds of ALU operands; the assembler rejects invalid ones."""
    count = width(row, slot, kind)
    here = plain(row, slot, kind)
    if slot in "de":
        return ["vcc", "s[98:99]"] if kind == "mask" else [tuple_of("a", 8, count), "m0", "vcc_hi", "exec", "ttmp[2:3]"]
    if row.unit == "flow" or row.name.startswith("s_movrels") or row.sig.startswith(("hwreg", "a:i32 k", "a:u32 k")):
        return [tuple_of("s", 20, count), "ttmp[2:3]" if count == 2 else "vcc_hi"]  # registers alone
    if row.mfma is not None:  # the assembler takes scalars here that its own disassembler does not know
        return [tuple_of("a", 4, count), tuple_of("v", 256 - count, count), "0", "-16", "64", *REALS]
    if row.name.startswith("v_cvt_scalef32_"):  # likewise; constants are refused
        return [tuple_of("v", 256 - count, count), *([f"-{here}", f"|{here}|"] if count == 1 else [])]
    out = [tuple_of("s", 20, count), *CONSTANTS, *REALS, *(PAIRS if count == 2 else SCALARS)]
    out += [tuple_of("v", 252, count), tuple_of("a", 4, count)]
    if row.unit == "valu":
        out += [f"-{here}", f"|{here}|", f"-|{here}|", f"-|{tuple_of('s', 20, count)}|", "neg(1.0)", "|-2.0|"]
    return out


def with_operand(row: OpcodeRow, suffix: str = "", changed: tuple[str, str] | None = None, tail: str = "") -> str:
    parts = []
    for slot, kind, _ in llvm_syntax.slots(row):
        if slot in ("k", "waitcnt", "hwreg", "sendmsg", "gpridx"):
            parts.append(IMMEDIATES.get(slot, ("5",))[0])
        elif slot == "soff":
            parts.append("0x40")
        else:
            parts.append(changed[1] if changed and changed[0] == slot else plain(row, slot, kind))
    return f"{row.name}{suffix} {', '.join(parts)} {tail}".strip()


OF_THEIR_OWN = {
    "s_setreg_imm32_b32": ("s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 4), 0x12345678",),
    "v_accvgpr_mov_b32": ("v_accvgpr_mov_b32 a1, a255",),
    "v_writelane_b32": ("v_writelane_b32 v1, s2, m0", "v_writelane_b32 v1, 5, s3", "v_writelane_b32 v1, vcc_lo, 63"),
}
IMMEDIATES = {
    "k": ("5", "0x7fff", "0x8001"),
    "waitcnt": ("vmcnt(3)", "lgkmcnt(1)", "vmcnt(63) expcnt(2) lgkmcnt(0)", "0"),
    "hwreg": ("hwreg(HW_REG_MODE)", "hwreg(HW_REG_HW_ID, 8, 4)", "hwreg(HW_REG_XCC_ID, 0, 32)", "hwreg(30, 3, 5)"),
    "sendmsg": ("sendmsg(MSG_INTERRUPT)", "sendmsg(MSG_SAVEWAVE)"),
    "gpridx": ("gpr_idx(SRC0,DST)", "gpr_idx()", "gpr_idx(SRC0,SRC1,SRC2,DST)"),
}


def alu_forms(row: OpcodeRow) -> Iterator[str]:
    suffixes = ("", "_e64") if row.unit == "valu" and row.sig else ("",)
    yield from OF_THEIR_OWN.get(row.name, ())
    slots = llvm_syntax.slots(row)
    yield with_operand(row, tail="gds")
    for suffix in suffixes:
        yield with_operand(row, suffix)
        for slot, kind, _ in slots:
            if slot in IMMEDIATES:
                continue
            for other in others(row, slot, kind):
                yield with_operand(row, suffix, (slot, other))
    base = with_operand(row)
    for slot, _, _ in slots:
        for value in IMMEDIATES.get(slot, ())[1:]:
            yield base.replace(IMMEDIATES[slot][0], value)
    if row.unit != "valu":
        return
    for tail in ("clamp", "mul:2", "mul:4", "div:2", "clamp div:2"):
        yield with_operand(row, "_e64", tail=tail)
    for tail in DPP:
        yield with_operand(row, "_dpp", tail=tail)
    yield with_operand(row, "_dpp", ("a", "-|v4|"), DPP[0])
    yield from select_forms(row)
    if row.name != "v_pk_fmac_f16":  # LLVM sets signs in its SDWA form that it does not show
        yield from sdwa_forms(row)


def select_forms(row: OpcodeRow) -> Iterator[str]:
    count = sum(slot in "abcxy" for slot, _, _ in llvm_syntax.slots(row))
    for n in (count, count + 1, 4):
        for value in range(1, 1 << n):
            bits = ",".join(str(value >> k & 1) for k in range(n))
            yield with_operand(row, tail=f"op_sel:[{bits}]")
            if n == count:
                yield with_operand(row, tail=f"op_sel_hi:[{bits}]")
                yield with_operand(row, tail=f"neg_lo:[{bits}]")
                yield with_operand(row, tail=f"neg_hi:[{bits}] clamp")
                yield with_operand(row, tail=f"neg:[{bits}]")
    if row.mfma is not None:
        tails = ("cbsz:1 abid:1", "cbsz:2 abid:3", "blgp:5", "cbsz:1", "cbsz:1 blgp:3")
        if row.mfma.narrow_cycles:  # formats of other widths need other registers
            tails = ("cbsz:1", "blgp:1", "cbsz:1 blgp:1")
        for tail in tails:
            yield with_operand(row, tail=tail)
        yield with_operand(row, changed=("c", "1.0"))
        for slot in "dabc":
            kinds = {s: kind for s, kind, _ in llvm_syntax.slots(row)}
            if slot in kinds:
                yield with_operand(row, changed=(slot, tuple_of("a", 32, width(row, slot, kinds[slot]))))


def sdwa_forms(row: OpcodeRow) -> Iterator[str]:
    names = {slot for slot, _, _ in llvm_syntax.slots(row)}
    for k, select in enumerate(llvm_syntax.SELECTS):
        tail = f"dst_sel:{select} dst_unused:{llvm_syntax.UNUSED[k % 3]} " if "d" in names else ""
        tail += f"src0_sel:{llvm_syntax.SELECTS[6 - k]}"
        tail += f" src1_sel:{select}" if "b" in names else ""
        yield with_operand(row, "_sdwa", tail=tail)
        for changed in (("a", "sext(v4)"), ("a", "-|v4|"), ("a", "s20"), ("b", "s21"), ("b", "sext(v8)")):
            yield with_operand(row, "_sdwa", changed, tail)
        yield with_operand(row, "_sdwa", tail=f"clamp {tail}")
        yield with_operand(row, "_sdwa", tail=f"mul:2 {tail}")


def flat_forms(row: OpcodeRow, arch: str) -> Iterator[str]:
    """FLAT, global and scratch."""
    data = {slot: tuple_of("v", VGPRS[slot], width(row, slot, kind)) for slot, kind, _ in llvm_syntax.slots(row)}
    accumulators = {slot: v.replace("v", "a") for slot, v in data.items()}
    addresses = {"flat": [("v[4:5]", None)], "global": [("v[4:5]", "off"), ("v4", "s[20:21]")]}
    addresses["scratch"] = [("v4", "off"), ("off", "s20"), ("off", "off"), ("v4", "s21")]
    offsets = ("", "offset:4095", "offset:16") if row.mem.space == "flat" else ("", "offset:-4096", "offset:4095")
    base_slot = "b" if row.mem.kind == "load" else "c"
    for registers in (data, accumulators):
        for result in (True, False):
            for address, base in addresses[row.mem.space]:
                parts = [registers["d"]] if result and "d" in registers else []
                parts.append(address)
                parts += [registers["b"]] if "b" in registers and base_slot != "b" else []
                parts += [base] if base else []
                for k, flags in enumerate(FLAGS[arch]):
                    yield f"{row.name} {', '.join(parts)} {offsets[k % 3]} {flags}"
                if row.mem.kind == "load" and not result:  # straight into the LDS
                    yield f"{row.name} {', '.join(parts)} {offsets[1]} lds"


def buffer_forms(row: OpcodeRow, arch: str) -> Iterator[str]:
    slot = next((s for s, _, _ in llvm_syntax.slots(row) if s in "db"), None)
    count = width(row, slot, "b32") if slot else 0
    for letter in ("v", "a", ""):
        first = f"{tuple_of(letter, 8, count)}, " if letter and slot else ""
        for address, tail in (("off", ""), ("v4", "offen"), ("v4", "idxen"), ("v[4:5]", "idxen offen")):
            for k, soffset in enumerate(("s20", "0", "64", "m0", "-4", "0.5")):
                flags = FLAGS[arch][k % len(FLAGS[arch])]
                offset = ("", "offset:4095", "offset:4")[k % 3]
                lds = "" if letter or row.mem.space == "image" else "lds"
                named = ("", "format:[BUF_DATA_FORMAT_32]", "format:[BUF_NUM_FORMAT_SINT]", "format:77", "format:127")
                named += ("format:[BUF_DATA_FORMAT_8_8_8_8,BUF_NUM_FORMAT_SNORM]",)
                form = named[k % len(named)] if row.mem.op == "format_named" else ""
                yield f"{row.name} {first}{address}, s[24:27], {soffset} {form} {tail} {offset} {flags} {lds}"


def image_forms(row: OpcodeRow) -> Iterator[str]:
    rest = "s[24:31], s[32:35]" if row.mem.kind == "sample" else "s[24:31]"
    masks = ((1, "v8"), (3, "v[8:9]"), (7, "v[8:10]"), (15, "v[8:11]"), (8, "v8"))
    if row.mem.kind == "atomic":
        masks = masks[1:2] if row.mem.op.startswith("cmpswap") else masks[:1]
    for dmask, data in masks:
        for address in ("v4", "v[4:5]", "v[4:6]", "v[4:7]"):
            for flags in ("unorm", "unorm glc", "unorm da", "unorm slc scc", "unorm a16", "d16 unorm", ""):
                yield f"{row.name} {data}, {address}, {rest} dmask:{dmask:#x} {flags}"


def lds_forms(row: OpcodeRow) -> Iterator[str]:
    offsets = ("", "offset0:255", "offset1:1 offset0:7", "gds") if row.mem.two_addr else ("", "offset:65535", "gds")
    if row.name == "ds_swizzle_b32":
        offsets = ("offset:swizzle(QUAD_PERM,3,0,1,2)", 'offset:swizzle(BITMASK_PERM,"0pi1p")', "offset:0x8000")
        offsets += tuple(f"offset:swizzle({f})" for f in ("SWAP,16", "REVERSE,8", "BROADCAST,4,1", "SWAP,1"))
        offsets += ("offset:0xc060", "offset:0xe00f")
    for letter in ("v", "a"):
        parts = []
        for slot, kind, _ in llvm_syntax.slots(row):
            register = tuple_of("v" if kind == "addr" else letter, VGPRS[slot], width(row, slot, kind))
            parts.append(register)
        for offset in offsets:
            yield f"{row.name} {', '.join(parts)} {offset}"


def scalar_memory_forms(row: OpcodeRow, arch: str) -> Iterator[str]:
    yield with_operand(row)
    names = [slot for slot, _, _ in llvm_syntax.slots(row)]
    if "soff" not in names:
        return
    line = with_operand(row)
    for soffset in ("s20", "m0", "0x0", "0x1fffff", "-0x10", "s20 offset:0x64", "vcc_hi"):
        for flags in ("", "glc"):
            yield f"{line.removesuffix('0x40')}{soffset} {flags}"


def forms(row: OpcodeRow, arch: str) -> Iterator[str]:
    if row.unit in ("valu", "salu", "flow"):
        yield from alu_forms(row)
    elif row.unit == "smem":
        yield from scalar_memory_forms(row, arch)
    elif row.unit == "lds":
        yield from lds_forms(row)
    elif row.mem.kind == "cache":
        yield from (f"{row.name} {flags}" for flags in FLAGS[arch])
    elif row.mem.space == "image" and not row.mem.op.startswith("format"):
        yield from image_forms(row)
    elif row.mem.space in ("buffer", "image"):
        yield from buffer_forms(row, arch)
    else:
        yield from flat_forms(row, arch)


def assemble(arch: str, lines: list[str], out: Path) -> list[str]:
    """The lines that LLVM accepts; `out` is their object."""
    command = [str(MC), "-triple=amdgcn-amd-amdhsa", f"-mcpu={arch}", "-filetype=obj", "-o", str(out)]
    done = subprocess.run(command, input="\n".join(lines), capture_output=True, text=True, check=False)
    bad = {int(n) for n in re.findall(r"<stdin>:(\d+):\d+: error", done.stderr)}
    kept = [line for n, line in enumerate(lines, 1) if n not in bad]
    if bad:
        subprocess.run(command, input="\n".join(kept), capture_output=True, text=True, check=True)
    return kept


def disassemble(arch: str, out: Path) -> list[str]:
    command = [str(OBJDUMP), "-d", f"--mcpu={arch}", str(out)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [line for line in text.splitlines() if "//" in line and not line.endswith(":")]


def source_of(line: str) -> str:
    return line.split("//")[0].strip()


def base_name(mnemonic: str) -> str:
    return re.sub(r"_(dpp|sdwa|e32|e64)$", "", mnemonic)


def code_of(line: str) -> str:
    return line.split("//")[1].split(":", 1)[1].split("<")[0].strip()


def round_trip(arch: str, rows: list[OpcodeRow], folder: Path) -> list[str]:
    """The differences, and the rows of which LLVM accepts no form."""
    lines = list(dict.fromkeys(line for row in rows for line in forms(row, arch)))
    kept = assemble(arch, lines, folder / "first.o")
    listing = disassemble(arch, folder / "first.o")
    assert len(listing) == len(kept)
    decoded = _core.decode(arch, "\n".join(listing))
    written = [llvm_syntax.text(ROWS[f["mnemonic"]], f) if f["mnemonic"] in ROWS else "" for f in decoded["insts"]]
    bad = [f"{arch}: not decoded: {line}" for line in decoded["unsupported"]]
    again = [line or "s_nop 0" for line in written]
    accepted = assemble(arch, again, folder / "second.o")
    if len(accepted) != len(again):
        rest = set(again) - set(accepted)
        pairs = [(source_of(a), b) for a, b in zip(listing, again, strict=True) if b in rest]
        bad += [f"{arch}: {a} written as: {b}" for a, b in pairs if a != b]  # else LLVM does not read what it writes
        listing = [a for a, b in zip(listing, again, strict=True) if b not in rest]
        written = [b for b in written if b not in rest]
    for before, text, after in zip(listing, written, disassemble(arch, folder / "second.o"), strict=True):
        if text and code_of(before) != code_of(after):
            bad.append(f"{arch}: {source_of(before)} [{code_of(before)}] written as {text}: [{code_of(after)}]")
    taken = {base_name(line.split()[0]) for line in kept}
    return bad + [f"{arch}: {row.name}: LLVM takes none of its forms" for row in rows if row.name not in taken]


def rows_of(arch: str) -> list[OpcodeRow]:
    writable = (row for row in ROWS.values() if arch in row.archs and not row.name.startswith("s_atc_probe"))
    return [row for row in writable if not {slot for slot, _, _ in llvm_syntax.slots(row)} & NOT_WRITTEN]


@pytest.mark.parametrize("arch", ARCHS)
def test_operands_of_a_sample_of_opcodes(arch: str, tmp_path: Path) -> None:
    bad = round_trip(arch, rows_of(arch)[3::17], tmp_path)
    assert not bad, f"{len(bad)} differences, the first:\n" + "\n".join(bad[:20])


@pytest.mark.full
@pytest.mark.parametrize("arch", ARCHS)
def test_operands_of_every_opcode(arch: str, tmp_path: Path) -> None:
    bad = round_trip(arch, rows_of(arch), tmp_path)
    assert not bad, f"{len(bad)} differences, the first:\n" + "\n".join(bad[:40])
