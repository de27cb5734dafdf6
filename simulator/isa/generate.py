"""Writes the C++ opcode table and handlers from the TOML rows; run by the build.

Usage: python generate.py OUT_DIR
Output: ops_0.cpp .. ops_<CHUNKS-1>.cpp (handlers, compiled once per instruction set level), opcode_enums.h and
table.cpp.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # run as a script by the build

from hipsynth.core.files import write_if_changed
from hipsynth.simulator.isa.table import ARCHS, IMPLICIT, Mem, OpcodeRow, load_rows

CHUNKS = 6
TYPES = {
    "b16": "U16",
    "b32": "U32",
    "u32": "U32",
    "f32bits": "F32Bits",
    "f64bits": "F64Bits",
    "i32": "I32",
    "f32": "F32",
    "b64": "U64",
    "u64": "U64",
    "i64": "I64",
    "f64": "F64",
    "f16": "F16",
    "f16s": "F16S",
    "h16": "H16",
    "u16": "U16",
    "i16": "I16",
    "pk_f16": "PkF16",
    "pk_f16s": "PkF16S",
    "pk_u16": "PkU16",
    "pk_i16": "PkI16",
    "pk_bf16": "PkBf16",
    "pk_f32": "PkF32",
    "pk_b32": "PkU32",
    "mask": "Mask",
}
VECTOR_TYPES = {"b32", "u32", "f32bits", "i32", "f32", "b64", "u64", "i64", "f64", "pk_f32", "mask"}  # of vector.h
MATRIX_TYPES = {
    "f32": "MfF32",
    "xf32": "MfXf32",
    "f16": "MfF16",
    "bf16": "MfBf16",
    "i8": "MfI8",
    "fp8": "MfFp8",
    "bf8": "MfBf8",
    "f64": "MfF64",
    "i32": "MfI32",
}
MFMA_COUNTER = {
    "f32": "F32",
    "xf32": "XF32",
    "f16": "F16",
    "bf16": "BF16",
    "i8": "I8",
    "fp8": "F8",
    "bf8": "F8",
    "f64": "F64",
    "mx": "F8",
}
NARROW_COUNTER = "F6F4"  # of matrix instructions whose formats are modifiers, without an operand of 8 bits
FILE_HEAD = "// Generated from simulator/isa/*.toml by generate.py.\n"


def operand_slots(row: OpcodeRow) -> dict[str, str]:
    """Slot letter -> type name of each typed operand, with implied operands (c=d, x=vcc) resolved."""
    slots: dict[str, str] = {}
    for token in row.sig.split():
        if m := re.fullmatch(r"([deabcxy])\??:(\w+)", token):
            slots[m[1]] = m[2]
    for token in row.sig.split():
        if token == "c=d":
            slots["c"] = slots["d"]
        elif token == "x=vcc":
            slots["x"] = "mask"
    return slots


def _cpp_type(types: dict[str, str], slot: str) -> str:
    return TYPES[types[slot]] if slot in types else "None"


def _bool_literal(value: bool) -> str:
    return str(value).lower()


def _is_packed(name: str) -> bool:
    return name.startswith("pk_")


def _vector_statement(row: OpcodeRow) -> str:
    """The row's statement for vectors of lanes, "" if an operand's type has no vector form."""
    statement = row.sem if row.vec is True else str(row.vec or "")
    return statement if set(operand_slots(row).values()) <= VECTOR_TYPES else ""


def _struct_head(row: OpcodeRow) -> str:
    """Type aliases and flags of an opcode's struct."""
    types = operand_slots(row)
    aliases = "\n".join(f"  using {s.upper()} = {_cpp_type(types, s)};" for s in "deabcx")
    writes_exec = _bool_literal("exec" in row.writes)
    flags = f"kKeepsHigh = {_bool_literal(row.keep_high)}, kReadsDst = false, kWritesExec = {writes_exec}"
    return f"{aliases}\n  static constexpr bool {flags};\n"


def vector_struct(row: OpcodeRow, struct: str, statement: str) -> str:
    """C++ struct of an opcode that is one statement over whole vectors of 64 lanes."""
    params = [f"[[maybe_unused]] auto {s}" for s in "abc"] + [f"[[maybe_unused]] auto& {s}" for s in "de"]
    params.append("[[maybe_unused]] const FpMode& mode")
    return (
        f"struct {struct} {{\n{_struct_head(row)}"
        f"  [[gnu::always_inline]] static void vec({', '.join(params)}) {{\n    {statement};\n  }}\n}};\n"
    )


def valu_struct(row: OpcodeRow, struct: str, sem: str) -> str:
    """C++ struct of a vector opcode whose semantics `sem` are of one lane; of packed types, of each half."""
    types = operand_slots(row)
    body = f"{sem};"
    if _is_packed(types.get("d", "")) and not row.whole:
        ops = [s for s in "abcx" if s in types]
        params = ", ".join(f"auto {s}" for s in ops)
        halves = []
        for h in ("lo", "hi"):
            args = ", ".join(f"{s}.{h}" if _is_packed(types[s]) else s for s in ops)
            halves.append(f"half({args}, d.{h});")
        body = f"const auto half = [&]({params}, auto& d) {{ {sem}; }};\n    " + "\n    ".join(halves)
    params = ", ".join(f"[[maybe_unused]] {s.upper()}::T {s}" for s in "abcx")
    return (
        f"struct {struct} {{\n{_struct_head(row)}"
        f"  [[gnu::always_inline]] static void lane({params},\n"
        "      [[maybe_unused]] D::T& d, [[maybe_unused]] uint32_t& e, [[maybe_unused]] int lane,\n"
        f"      [[maybe_unused]] const FpMode& mode) {{\n    {body}\n  }}\n}};\n"
    )


def salu_struct(row: OpcodeRow, struct: str) -> str:
    """C++ struct of a scalar opcode."""
    types = operand_slots(row)
    aliases = "\n".join(f"  using {s.upper()} = {_cpp_type(types, s)};" for s in "dabc")
    params = ", ".join(f"[[maybe_unused]] {s.upper()}::T {s}" for s in "abc")
    return (
        f"struct {struct} {{\n{aliases}\n"
        f"  [[gnu::always_inline]] static void lane({params}, [[maybe_unused]] int32_t imm,\n"
        "      [[maybe_unused]] D::T& d, [[maybe_unused]] bool& scc, [[maybe_unused]] Wave& w) {\n"
        f"    {row.sem};\n  }}\n}};\n"
    )


def mfma_call(row: OpcodeRow) -> str:
    """The C++ template instance that executes a matrix opcode."""
    assert row.mfma is not None
    if row.mfma.narrow_cycles:
        m, _, k, _ = row.mfma.shape
        return f"mx_mfma<{m}, {k}, {_bool_literal(row.mfma.scaled)}>"
    types = ", ".join(MATRIX_TYPES[t] for t in row.mfma.types)
    m, n, k, blocks = row.mfma.shape
    return f"smfmac<{types}, {m}, {n}, {k}>" if row.mfma.sparse else f"mfma<{types}, {m}, {n}, {k}, {blocks}>"


def _handler_entry(
    handler: str, general: str = "nullptr", saturating: str = "nullptr", shape: str = "nullptr", selects: bool = False
) -> str:
    return f"{{{handler}, {general}, {saturating}, {shape}, {_bool_literal(selects)}}}"


def handler_entry(row: OpcodeRow, struct: str) -> tuple[str, str]:
    """(struct definitions, initialiser of Handlers) for one ALU row."""
    if row.mfma is not None:
        return "", _handler_entry(mfma_call(row))
    if row.handler:
        return "", _handler_entry(row.handler)
    if row.unit == "salu":
        return salu_struct(row, struct), _handler_entry(f"salu<{struct}>")
    statement = _vector_statement(row)
    code = vector_struct(row, struct, statement) if statement else valu_struct(row, struct, row.sem)
    saturating = "nullptr"
    engine = "valu_vector" if statement else "valu"
    if row.sat is True:
        saturating = f"{engine}<{struct}>"
    elif row.sat:
        code += valu_struct(row, f"{struct}_sat", str(row.sat))
        saturating = f"valu<{struct}_sat>"
    selects = bool(statement) and _is_packed(operand_slots(row).get("d", ""))
    return code, _handler_entry(f"{engine}<{struct}>", "general", saturating, f"&ShapeOf<{struct}>::kShape", selects)


def chunk_source(index: int, rows: list[OpcodeRow]) -> str:
    """A C++ file with the handlers of some opcodes: the table is split so that files compile side by side."""
    structs, entries = [], []
    for row in rows:
        code, entry = handler_entry(row, f"op_{row.name}")
        structs.append(code)
        entries.append(f"    {entry},  // {row.name}")
    return (
        FILE_HEAD
        + '#include "isa/handlers.h"\n\nnamespace HIPSYNTH_ISA {\nnamespace {\n\n'
        + "\n".join(s for s in structs if s)
        + f"\n}}  // namespace\n\nextern const Handlers kHandlers{index}[];\nconst Handlers kHandlers{index}[] = {{\n"
        + "\n".join(entries)
        + "\n};\n\n}  // namespace HIPSYNTH_ISA\n"
    )


def _mem_literal(mem: Mem) -> str:
    fields = {
        "space": f"MemSpace::{mem.space}",
        "kind": f"MemKind::{mem.kind}",
        "elem_bytes": str(mem.elem_bytes),
        "count": str(mem.count),
        "sign_extend": _bool_literal(mem.sign),
        "d16": str(mem.d16),
        "two_addr": str(mem.two_addr),
        "to_lds": _bool_literal(mem.to_lds),
        "op": f"MemOp::{mem.op or 'none'}",
    }
    return _aggregate_literal(fields, _NO_MEM) if mem != Mem() else "{}"


_NO_MEM = {
    "space": "MemSpace::none",
    "kind": "MemKind::none",
    "elem_bytes": "4",
    "count": "1",
    "d16": "0",
    "two_addr": "0",
    "op": "MemOp::none",
}


def _aggregate_literal(fields: dict[str, str], defaults: dict[str, str]) -> str:
    """A C++ designated initialiser that omits fields with their default value."""
    set_fields = {k: v for k, v in fields.items() if v not in (defaults.get(k), "false")}
    return "{" + ", ".join(f".{k} = {v}" for k, v in set_fields.items()) + "}"


_NO_OP = {
    "condition": "Condition::none",
    "narrows": "Narrows::never",
    "indexes": "Indexes::none",
    "mem": "{}",
    "refused": '""',
    "mfma_type": '""',
} | dict.fromkeys(("reads", "writes", "adds", "flops", "mfma_mops"), "0")


def _bit_mask(chosen: Iterable[str], names: Sequence[str]) -> str:
    return str(sum(1 << names.index(name) for name in chosen))


def op_info(row: OpcodeRow) -> str:
    """The row as an initialiser of struct OpInfo (core/inst.h), without handlers."""
    fields = {
        "name": f'"{row.name}"',
        "unit": f"Unit::{row.unit}",
        "rate": f"Rate::{row.rate}",
        "count": f"Count::{row.count}",
        "archs": _bit_mask(row.archs, ARCHS),
        "action": f"Action::{row.action}",
        "condition": f"Condition::{row.condition}",
        "reads": _bit_mask(row.reads, IMPLICIT),
        "writes": _bit_mask(row.writes, IMPLICIT),
        "narrows": f"Narrows::{row.narrows}",
        "indexes": f"Indexes::{row.indexes}",
        "adds": str(row.adds),
        "partial": _bool_literal(row.partial),
        "cross_lane": _bool_literal(row.cross_lane),
        "carries_up": _bool_literal(row.carries_up),
        "exchanges": _bool_literal(row.exchanges),
    }
    if row.mfma is not None:
        m, n, k, blocks = row.mfma.shape
        fields["mfma_cycles"] = "{" + ", ".join(map(str, row.mfma.cycles)) + "}"
        fields["mfma_mops"] = str(2 * m * n * k * blocks // 512)
        fields["mfma_type"] = f'"{MFMA_COUNTER[row.mfma.types[0]]}"'
        if row.mfma.narrow_cycles:
            fields["narrow_cycles"] = "{" + ", ".join(map(str, row.mfma.narrow_cycles)) + "}"
            fields["narrow_type"] = f'"{NARROW_COUNTER}"'
    fields |= {"flops": str(row.flops), "mem": _mem_literal(row.mem)}
    fields |= {"signature": f'"{row.sig}"', "refused": f'"{row.refused}"'}
    return _aggregate_literal(fields, _NO_OP)


def table_row(row: OpcodeRow, place: tuple[int, int]) -> str:
    """The opcode's row of the C++ table; `place` is (chunk, index) of its handler, (-1, 0) without one."""
    return f"    {{{op_info(row)}, {place[0]}, {place[1]}}},"


def enums_source(rows: list[OpcodeRow]) -> str:
    """The text of opcode_enums.h: enumerations whose members are defined by the table."""
    operations = sorted({row.mem.op for row in rows} - {""})
    members = "".join(f"  {name},\n" for name in operations)
    implied = "".join(f"constexpr uint8_t {name} = {1 << i};\n" for i, name in enumerate(IMPLICIT))
    return (
        FILE_HEAD + "#pragma once\n\n#include <cstdint>\n\nnamespace hipsynth {\n\n"
        "// What atomics, cross-lane moves, cache control and special forms of memory instructions do.\n"
        f"enum class MemOp : uint8_t {{\n  none,\n{members}}};\n"
        'const char* name_of(MemOp op);  // "" for none\n\n'
        "// Registers that instructions use without naming them: bits of OpInfo::reads and writes.\n"
        f"namespace implied {{\n{implied}}}  // namespace implied\n\n}}  // namespace hipsynth\n"
    )


def _mem_names(rows: list[OpcodeRow]) -> str:
    names = ["", *sorted({row.mem.op for row in rows} - {""})]
    listed = ", ".join(f'"{name}"' for name in names)
    return f"  static constexpr const char* kNames[] = {{{listed}}};\n  return kNames[static_cast<size_t>(op)];\n"


def table_source(rows: list[OpcodeRow], places: dict[str, tuple[int, int]]) -> str:
    """The C++ file of the table of all opcodes, for both levels of the instruction set."""
    lines = "\n".join(table_row(r, places.get(r.name, (-1, 0))) for r in rows)
    names = [f"kHandlers{i}" for i in range(CHUNKS)]
    externs, lists = [], []
    for ns in ("isa_v3", "isa_v4"):
        declared = f"namespace {ns} {{\nextern const Handlers {', '.join(n + '[]' for n in names)};\n}}"
        if ns == "isa_v4":  # sanitized builds have one level
            declared = f"#ifdef HIPSYNTH_ONE_LEVEL\nnamespace isa_v4 = isa_v3;\n#else\n{declared}\n#endif"
        externs.append(declared)
        lists.append("{" + ", ".join(f"{ns}::{n}" for n in names) + "}")
    return (
        FILE_HEAD
        + '#include "core/action.h"\n#include "isa/table.h"\n\n'
        + "\n".join(externs)
        + "\n\nnamespace hipsynth {\nnamespace {\n\nconst RowData kRows[] = {\n"
        + lines
        + "\n};\nconst Handlers* const kLevels[2]["
        + str(CHUNKS)
        + "] = {"
        + ", ".join(lists)
        + "};\n\n}  // namespace\n\nstd::vector<OpInfo> make_table(bool v4) {\n"
        "  return assemble_table(kRows, std::size(kRows), kLevels[v4 ? 1 : 0]);\n}\n\n"
        f"const char* name_of(MemOp op) {{\n{_mem_names(rows)}}}\n\n}}  // namespace hipsynth\n"
    )


def main(out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    rows = load_rows()
    alu = [r for r in rows if r.unit in ("valu", "salu") and not r.refused]
    places: dict[str, tuple[int, int]] = {}
    size = -(-len(alu) // CHUNKS)
    for index in range(CHUNKS):
        part = alu[index::CHUNKS] if size else []
        write_if_changed(out / f"ops_{index}.cpp", chunk_source(index, part))
        places |= {row.name: (index, i) for i, row in enumerate(part)}
    write_if_changed(out / "opcode_enums.h", enums_source(rows))
    write_if_changed(out / "table.cpp", table_source(rows, places))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
