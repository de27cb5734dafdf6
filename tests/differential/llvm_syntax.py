"""Prints instructions in LLVM's assembler syntax, using only the fields of our decoder."""

from __future__ import annotations

import re
import struct
from typing import Any

from hipsynth.simulator.isa.table import OpcodeRow

SPECIALS = ("src_vccz", "src_execz", "src_scc", "src_shared_base", "src_shared_limit", "src_private_base")
SPECIALS += ("src_private_limit", "src_pops_exiting_wave_id")
NAMED_SGPRS = {102: "flat_scratch", 104: "xnack_mask", 106: "vcc", 126: "exec"}
SELECTS = ("BYTE_0", "BYTE_1", "BYTE_2", "BYTE_3", "WORD_0", "WORD_1", "DWORD")
UNUSED = ("UNUSED_PAD", "UNUSED_SEXT", "UNUSED_PRESERVE")
SOURCES = "abcxy"
PLACES = {"d": "dst", "e": "sdst"} | {s: f"src{i}" for i, s in enumerate(SOURCES)}
INLINE_F64 = {struct.unpack("<Q", struct.pack("<d", x))[0] for x in (0.5, -0.5, 1.0, -1.0, 2.0, -2.0, 4.0, -4.0)}
INLINE_F64 |= {0x3FC45F306DC9C882}
REALS = ("0.5", "-0.5", "1.0", "-1.0", "2.0", "-2.0", "4.0", "-4.0")
INLINE_F32 = {struct.unpack("<I", struct.pack("<f", float(x)))[0]: x for x in REALS} | {0x3E22F983: "0.15915494"}
INLINE_F16 = {struct.unpack("<H", struct.pack("<e", float(x)))[0]: x for x in REALS} | {0x3118: "0.15915494"}

# Their destination is one of four bytes, which takes two bits of op_sel.
BYTE_SELECTS = ("v_cvt_sr_fp8", "v_cvt_sr_bf8", "v_cvt_scalef32_sr_fp8", "v_cvt_scalef32_sr_bf8")
BYTE_SELECTS += ("v_cvt_scalef32_pk_fp4", "v_cvt_scalef32_sr_pk_fp4")

Fields = dict[str, Any]


def slots(row: OpcodeRow) -> list[tuple[str, str, bool]]:
    """(slot, type, optional) of the operands in assembler order; implied ones (c=d, x=vcc) are not written."""
    out = []
    for token in row.sig.split():
        if "=" in token:
            continue
        slot, _, kind = token.partition(":")
        out.append((slot.rstrip("?"), kind, slot.endswith("?")))
    return out


def _tuple(letter: str, first: int, count: int) -> str:
    return f"{letter}{first}" if count == 1 else f"{letter}[{first}:{first + count - 1}]"


def _scalar(reg: int, count: int) -> str:
    if reg in NAMED_SGPRS and count == 2:
        return NAMED_SGPRS[reg]
    if reg & ~1 in NAMED_SGPRS and count == 1:
        return f"{NAMED_SGPRS[reg & ~1]}_{'hi' if reg & 1 else 'lo'}"
    if 108 <= reg < 124:
        return _tuple("ttmp", reg - 108, count)
    return "m0" if reg == 124 else _tuple("s", reg, count)


def _constant(value: int, kind: str) -> str:
    signed = value - (1 << 64) if value >> 63 else value
    if -16 <= signed <= 64:
        return str(signed)
    if kind == "mix" and value in INLINE_F32:
        return INLINE_F32[value]
    if kind in ("b16", "u16", "i16", "h16", "pk_u16", "pk_i16") and value in INLINE_F16:  # LLVM prints the bits
        return INLINE_F16[value]
    if kind.startswith("f64"):
        return hex(value) if value in INLINE_F64 else hex(value >> 32)
    return hex(value if value in INLINE_F64 else value & 0xFFFFFFFF)


def operand(o: Fields, kind: str) -> str:
    if o["kind"] in ("vgpr", "agpr"):
        core = _tuple(o["kind"][0], o["reg"], o["dwords"])
    elif o["kind"] == "sgpr":
        core = _scalar(o["reg"], o["dwords"])
    elif o["kind"] == "special":
        core = SPECIALS[o["reg"]]
    elif o["kind"] == "off":
        core = "off" if kind in ("addr", "saddr") else "null"
    else:
        core = _constant(o["value"], kind)
    if o["abs"]:
        core = f"|{core}|"
    if o["sext"]:
        core = f"sext({core})"
    if o["neg"]:
        core = f"-{core}" if o["kind"] != "constant" or o["abs"] else f"neg({core})"
    return core


def _bits(value: int, count: int) -> str:
    return "[" + ",".join(str(value >> k & 1) for k in range(count)) + "]"


def dpp_control(ctrl: int) -> str:
    if ctrl <= 0xFF:
        return "quad_perm:[" + ",".join(str(ctrl >> 2 * k & 3) for k in range(4)) + "]"
    for base, name in ((0x100, "row_shl"), (0x110, "row_shr"), (0x120, "row_ror"), (0x150, "row_newbcast")):
        if base <= ctrl <= base + 15:
            return f"{name}:{ctrl & 15}"
    names = {0x130: "wave_shl:1", 0x134: "wave_rol:1", 0x138: "wave_shr:1", 0x13C: "wave_ror:1"}
    names |= {0x140: "row_mirror", 0x141: "row_half_mirror", 0x142: "row_bcast:15", 0x143: "row_bcast:31"}
    return names[ctrl]


def _selects(row: OpcodeRow, m: Fields, sources: int) -> list[str]:
    """op_sel and the packed signs."""
    kinds = [kind for _, kind, _ in slots(row)]
    if row.mfma is not None and row.mfma.scaled:
        return [f"op_sel:{_bits(m['op_sel'], 3)}", f"op_sel_hi:{_bits(m['op_sel_hi'], 3)}"]
    scaled = row.name.startswith("v_cvt_scalef32_")  # whose op_sel is not that of packed operands
    if (not scaled and any(k.startswith("pk_") for k in kinds)) or "mix" in kinds:
        ones = (1 << sources) - 1
        default_high = 0 if "mix" in kinds else ones
        out = [f"op_sel:{_bits(m['op_sel'], sources)}"] if m["op_sel"] else []
        out += [f"op_sel_hi:{_bits(m['op_sel_hi'], sources)}"] if (m["op_sel_hi"] & ones) != default_high else []
        out += [f"{name}:{_bits(m[name], sources)}" for name in ("neg_lo", "neg_hi") if m[name]]
        return out
    if not m["op_sel"]:
        low = "neg" if row.mfma is not None else "neg_lo"
        return [f"{name}:{_bits(m[of], sources)}" for name, of in ((low, "neg_lo"), ("neg_hi", "neg_hi")) if m[of]]
    if row.name.startswith(BYTE_SELECTS):
        return [f"op_sel:{_bits(m['op_sel'], 4)}"]
    low = m["op_sel"] & ((1 << sources) - 1)
    return [f"op_sel:{_bits(low | (m['op_sel'] >> 3) << sources, sources + 1)}"]


def _sdwa(row: OpcodeRow, fields: Fields) -> list[str]:
    m, places = fields["modifiers"], {slot for slot, _, _ in slots(row)}
    out = []
    if "d" in places:
        out += [f"dst_sel:{SELECTS[m['dst_sel']]}", f"dst_unused:{UNUSED[m['dst_unused']]}"]
    return out + [f"src{k}_sel:{SELECTS[fields['src'][k]['sel']]}" for k in range(2) if SOURCES[k] in places]


def modifiers(row: OpcodeRow, fields: Fields) -> list[str]:
    m = fields["modifiers"]
    places = [slot for slot, _, _ in slots(row)]
    out = [f"format:{m['format']}"] if row.mem.op == "format_named" else []
    out += _selects(row, m, sum(s in SOURCES for s in places))
    out += ["clamp"] * m["clamp"] + [("", "mul:2", "mul:4", "div:2")[m["omod"]]] * (m["omod"] != 0)
    out += _sdwa(row, fields) if m["sdwa"] else []
    if row.name.startswith("v_permlane"):  # their bound_ctrl is not that of DPP
        return out + ["bound_ctrl:1"] * (m["dpp"] is not None) + ["fi:1"] * m["fi"]
    if m["dpp"] is not None:
        ctrl, rows, banks, bound = m["dpp"]
        out += [dpp_control(ctrl), f"row_mask:{rows:#x}", f"bank_mask:{banks:#x}"] + ["bound_ctrl:1"] * bound
    out += [f"{name}:{m[name]}" for name in ("cbsz", "abid", "blgp") if m[name]]
    out += [f"bitop3:{m['bitop3']:#x}"] if m["bitop3"] else []
    out += [f"dmask:{m['dmask']:#x}"] if m["dmask"] else []
    flags = set(m["flags"])
    out += [f for f in ("idxen", "offen") if f in flags]
    order = ("unorm", "glc", "slc", "scc", "sc0", "sc1", "nt", "a16", "da", "tfe", "lwe", "lds", "d16")
    if row.unit == "lds":
        out += [f"{k}:{fields[k]}" for k in ("offset0", "offset1") if row.mem.two_addr and fields[k]]
        out += [f"offset:{fields['offset0']}"] if not row.mem.two_addr and fields["offset0"] else []
    elif fields["imm"] and (row.unit == "vmem" or (row.unit == "smem" and fields["src"][1]["kind"] != "none")):
        out.append(f"offset:{fields['imm']}")
    return out + [f for f in (*order, "gds") if f in flags]


def text(row: OpcodeRow, fields: Fields) -> str:
    """One assembler line of a decoded instruction; the mnemonic keeps its encoding suffix."""
    mnemonic = re.split(r"\s", fields["text"], maxsplit=1)[0]
    by_place = {"dst": fields["dst"], "sdst": fields["sdst"]} | {f"src{i}": o for i, o in enumerate(fields["src"])}
    parts = []
    for slot, kind, optional in slots(row):
        if slot in PLACES:
            o = by_place[PLACES[slot]]
            if o["kind"] != "none" and not (optional and o["kind"] == "none"):
                parts.append(operand(o, kind))
        elif slot == "soff":
            second = by_place["src1"]
            parts.append(operand(second, "b32") if second["kind"] != "none" else hex(fields["imm"]))
        elif slot in ("k", "waitcnt", "hwreg", "sendmsg", "gpridx"):
            parts.append(str(fields["imm"] & 0xFFFF if fields["imm"] < 0 else fields["imm"]))
        else:
            raise ValueError(f"{row.name}: no syntax for operand '{slot}'")
    return " ".join([f"{mnemonic} {', '.join(parts)}", *modifiers(row, fields)]).strip()
