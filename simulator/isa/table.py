"""The opcode table: the rows of *.toml, expanded to one `OpcodeRow` per base mnemonic.

Each TOML file names its sources.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from hipsynth.simulator.devices import list_architectures

ARCHS = tuple(list_architectures())
IMPLICIT = ("scc", "vcc", "exec", "m0", "mode")  # registers that instructions use without naming them
HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Mem:
    """The memory operation of a row; the fields of MemDesc in core/inst.h."""

    space: str = "none"
    kind: str = "none"
    elem_bytes: int = 4
    count: int = 1
    sign: bool = False
    d16: int = 0
    two_addr: int = 0
    to_lds: bool = False
    op: str = ""


@dataclass(frozen=True)
class Mfma:
    """What a matrix opcode multiplies, and how long it takes."""

    shape: tuple[int, int, int, int]  # M, N, K, blocks
    types: tuple[str, str, str]  # A, B, accumulator
    cycles: tuple[int, ...]  # by architecture; 0: it does not have the instruction
    sparse: bool = False  # A holds two of every four elements along K
    narrow_cycles: tuple[int, ...] = ()  # if modifiers name the formats of A and B: with none of 8 bits
    scaled: bool = False  # each block of 32 elements of A and B has an exponent

    @property
    def archs(self) -> tuple[str, ...]:
        return tuple(arch for arch, cycles in zip(ARCHS, self.cycles, strict=True) if cycles)


@dataclass(frozen=True)
class OpcodeRow:
    """One opcode. `sig` lists operands in assembler order; `sem` is the C++ statement of ALU rows."""

    name: str
    unit: str
    sig: str
    archs: tuple[str, ...] = ARCHS
    sem: str = ""
    sat: str | bool = ""  # `sem` with the clamp bit set; True: the result always fits, so the bit has no effect
    vec: str | bool = ""  # `sem` for whole vectors of lanes; True: same statement as `sem`
    handler: str = ""
    count: str = "other"
    rate: str = "none"
    refused: str = ""
    flops: int = 0  # floating-point operations per active lane; those of matrix instructions follow from the shape
    keep_high: bool = False
    whole: bool = False  # packed row whose statement handles both halves itself
    action: str = "refused"  # enum Action of core/action.h
    condition: str = "none"  # of a branch
    reads: frozenset[str] = frozenset()  # implicit registers, a subset of IMPLICIT
    writes: frozenset[str] = frozenset()
    narrows: str = "never"  # when the new EXEC is a subset of the old one: enum Narrows of core/inst.h
    partial: bool = False  # part of the destination's bits or lanes may keep their old value
    cross_lane: bool = False  # a lane's result depends on other lanes
    carries_up: bool = False  # the low dword of the result depends only on low dwords of the sources
    exchanges: bool = False  # the source is written too
    indexes: str = "none"  # registers are indexed by M0: "sgpr", or "vgpr" for all following instructions
    group: str = ""  # group of the static code features, if not implied by the other columns
    adds: int = 0  # the result is the first source plus (1) or minus (-1) the second, possibly with carry in SCC
    mem: Mem = field(default_factory=Mem)
    mfma: Mfma | None = None

    @property
    def executes(self) -> bool:
        return not self.refused


# Memory element forms: name -> (bytes, elements, sign, d16).
_DWORDS = {
    "dword": (4, 1, False, 0),
    "dwordx2": (4, 2, False, 0),
    "dwordx3": (4, 3, False, 0),
    "dwordx4": (4, 4, False, 0),
}
_LOADS = _DWORDS | {
    "ubyte": (1, 1, False, 0),
    "sbyte": (1, 1, True, 0),
    "ushort": (2, 1, False, 0),
    "sshort": (2, 1, True, 0),
    "ubyte_d16": (1, 1, False, 1),
    "ubyte_d16_hi": (1, 1, False, 2),
    "sbyte_d16": (1, 1, True, 1),
    "sbyte_d16_hi": (1, 1, True, 2),
    "short_d16": (2, 1, False, 1),
    "short_d16_hi": (2, 1, False, 2),
}
_STORES = _DWORDS | {
    "byte": (1, 1, False, 0),
    "byte_d16_hi": (1, 1, False, 2),
    "short": (2, 1, False, 0),
    "short_d16_hi": (2, 1, False, 2),
}
_LDS_LOADS = {
    k: v for k, v in _LOADS.items() if k in ("dword", "dwordx3", "dwordx4", "ubyte", "sbyte", "ushort", "sshort")
}
_DS_WORDS = {"b32": (4, 1, False, 0), "b64": (8, 1, False, 0), "b96": (4, 3, False, 0), "b128": (4, 4, False, 0)}
_DS_LOADS = _DS_WORDS | {
    "u8": (1, 1, False, 0),
    "i8": (1, 1, True, 0),
    "u16": (2, 1, False, 0),
    "i16": (2, 1, True, 0),
    "u8_d16": (1, 1, False, 1),
    "u8_d16_hi": (1, 1, False, 2),
    "i8_d16": (1, 1, True, 1),
    "i8_d16_hi": (1, 1, True, 2),
    "u16_d16": (2, 1, False, 1),
    "u16_d16_hi": (2, 1, False, 2),
}
_DS_STORES = _DS_WORDS | {
    "b8": (1, 1, False, 0),
    "b16": (2, 1, False, 0),
    "b8_d16_hi": (1, 1, False, 2),
    "b16_d16_hi": (2, 1, False, 2),
}
# Integer atomics of FLAT and MUBUF by base name; the x2 forms are the same on 8 bytes.
_ATOMIC_STEMS = {
    "swap": "swap_b",
    "cmpswap": "cmpswap_b",
    "add": "add_u",
    "sub": "sub_u",
    "smin": "min_i",
    "umin": "min_u",
    "smax": "max_i",
    "umax": "max_u",
    "and": "and_b",
    "or": "or_b",
    "xor": "xor_b",
    "inc": "inc_u",
    "dec": "dec_u",
}
_FLOAT_ATOMICS = {"add_f32": 4, "pk_add_f16": 4, "pk_add_bf16": 4, "add_f64": 8, "min_f64": 8, "max_f64": 8}
_DS_ATOMICS = {
    **{f"{op}_{t}32": 4 for op, t in (("add", "u"), ("sub", "u"), ("rsub", "u"), ("inc", "u"), ("dec", "u"))},
    **{f"{op}_{t}64": 8 for op, t in (("add", "u"), ("sub", "u"), ("rsub", "u"), ("inc", "u"), ("dec", "u"))},
    **{f"{op}_{t}{n}": n // 8 for op in ("min", "max") for t in "iu" for n in (32, 64)},
    **{f"{op}_b{n}": n // 8 for op in ("and", "or", "xor") for n in (32, 64)},
    **{f"{op}_f{n}": n // 8 for op in ("add", "min", "max") for n in (32, 64)},
    "pk_add_f16": 4,
    "pk_add_bf16": 4,
}


def _flat_atomics() -> dict[str, Mem]:
    table: dict[str, Mem] = {}
    for stem, op in _ATOMIC_STEMS.items():
        table[stem] = Mem(op=f"{op}32", elem_bytes=4)
        table[f"{stem}_x2"] = Mem(op=f"{op}64", elem_bytes=8)
    for name, size in _FLOAT_ATOMICS.items():
        table[name] = Mem(op=name, elem_bytes=size)
    return table


def _integer_atomics() -> dict[str, Mem]:
    return {name: form for name, form in _flat_atomics().items() if name not in _FLOAT_ATOMICS}


def _returning_name(name: str) -> str:
    stem, _, kind = name.rpartition("_")
    return f"{stem}_rtn_{kind}"


def _ds_atomics(returning: bool) -> dict[str, Mem]:
    table = {(_returning_name(n) if returning else n): Mem(op=n, elem_bytes=size) for n, size in _DS_ATOMICS.items()}
    if returning:
        table |= {f"wrxchg_rtn_b{n}": Mem(op=f"swap_b{n}", elem_bytes=n // 8) for n in (32, 64)}
    return table


def _ds_compare(returning: bool) -> dict[str, Mem]:
    table: dict[str, Mem] = {}
    for n in (32, 64):
        for stem, op in (("cmpst_b", "cmpswap_b"), ("mskor_b", "mskor_b"), ("cmpst_f", "cmpswap_f")):
            name = f"{stem}{n}"
            table[_returning_name(name) if returning else name] = Mem(op=f"{op}{n}", elem_bytes=n // 8)
    return table


def _element_forms(forms: Mapping[str, tuple[int, int, bool, int]]) -> dict[str, Mem]:
    return {k: Mem(elem_bytes=b, count=n, sign=s, d16=d) for k, (b, n, s, d) in forms.items()}


# Placeholders in family names -> memory forms.
_MEM_AXES: dict[str, dict[str, Mem]] = {
    "load": _element_forms(_LOADS),
    "store": _element_forms(_STORES),
    "ldsload": _element_forms(_LDS_LOADS),
    "atomic": _flat_atomics(),
    "satomic": _integer_atomics(),
    "iatomic": {name: form for name, form in _integer_atomics().items() if form.elem_bytes == 4},
    "dsload": _element_forms(_DS_LOADS),
    "dsstore": _element_forms(_DS_STORES),
    "dsatomic": _ds_atomics(False),
    "dsatomic_rtn": _ds_atomics(True),
    "dscmpst": _ds_compare(False),
    "dscmpst_rtn": _ds_compare(True),
}


def flops_of(count: str, sig: str) -> int:
    """Default FLOPs per lane of a row: those of its counter class, doubled for packed rows."""
    kind, _, width = count.partition("_")
    if width not in ("f16", "f32", "f64"):
        return 0
    return (2 if kind == "fma" else 1) * (2 if sig.startswith("d:pk_") else 1)


def rate_of(count: str, sig: str) -> str:
    """Default rate of a vector row: "trans" by its counter class, "f64" for operands of doubles, else "full"."""
    if count.startswith("trans_"):
        return "trans"
    return "f64" if re.search(r":f64(bits)?\b", sig) else "full"


def scalar_effects(sem: str) -> tuple[set[str], set[str]]:
    """Implicit registers that the statement of a scalar row reads and writes."""
    reads: set[str] = set()
    writes: set[str] = set()
    for statement in sem.split(";"):
        value = re.sub(r"^\s*scc = ", "", statement)
        if re.search(r"\bscc\b", value) and "scc" not in writes:
            reads.add("scc")
        if value != statement:
            writes.add("scc")
        if "w.exec()" in value and "exec" not in writes:
            reads.add("exec")
        if "w.set_exec(" in value:
            writes.add("exec")
    return reads, writes


def _scalar_effects(unit: str, entry: Mapping[str, Any]) -> tuple[frozenset[str], frozenset[str]]:
    reads, writes = scalar_effects(entry.get("sem", "")) if unit == "salu" else (set(), set())
    if "x=vcc" in entry["sig"].split():
        reads.add("vcc")
    condition = entry.get("condition", "")
    reads |= {register for register in IMPLICIT if condition.startswith(register)}
    reads |= set(entry.get("reads", ()))
    writes |= set(entry.get("writes", ()))
    if unknown := (reads | writes) - set(IMPLICIT):
        raise ValueError(f"opcode table: unknown implicit register {sorted(unknown)[0]}")
    return frozenset(reads), frozenset(writes)


def _opcode_action(unit: str, entry: Mapping[str, Any]) -> str:
    if "refused" in entry:
        return "refused"
    kind = entry.get("mem", {}).get("kind")
    if unit == "smem" and kind == "time":
        return "clock"
    default = {"valu": "alu", "salu": "alu", "flow": "skip", "smem": "scalar_memory", "vmem": "vector_memory"}
    return str(entry.get("action", default.get(unit, unit)))


def _memory_operation(entry: Mapping[str, Any], form: Mem | None = None) -> Mem:
    fields = dict(entry)
    if form is not None:
        fields = {k: getattr(form, k) for k in ("elem_bytes", "count", "sign", "d16", "op")} | fields
    return Mem(**fields)


# Columns copied from the TOML row unchanged; the others have computed defaults.
_PLAIN = frozenset(
    [
        "sem",
        "sat",
        "vec",
        "handler",
        "refused",
        "whole",
        "count",
        "condition",
        "narrows",
        "cross_lane",
        "carries_up",
        "exchanges",
        "indexes",
        "adds",
        "group",
    ]
)
# 16-bit results: op_sel and SDWA select the half of the register that is written.
_HALF_RESULTS = ("d:b16", "d:f16", "d:i16", "d:u16")


def _build_row(name: str, unit: str, entry: Mapping[str, Any], **extra: Any) -> OpcodeRow:
    sig = entry["sig"]
    fields: dict[str, Any] = {k: v for k, v in entry.items() if k in _PLAIN}
    fields["archs"] = tuple(entry.get("archs", ARCHS))
    fields["rate"] = entry.get("rate", rate_of(entry.get("count", "other"), sig) if unit == "valu" else "none")
    fields["flops"] = entry.get("flops", flops_of(entry.get("count", "other"), sig))
    fields["keep_high"] = entry.get("keep") == "high"
    fields["partial"] = entry.get("partial", fields["keep_high"] or sig.startswith(_HALF_RESULTS))
    fields["action"] = _opcode_action(unit, entry)
    fields["reads"], fields["writes"] = _scalar_effects(unit, entry)
    if "mem" in entry:
        fields["mem"] = _memory_operation(entry["mem"])
    fields |= extra
    return OpcodeRow(name=name, unit=unit, sig=sig, **fields)


def _expand_family(entry: Mapping[str, Any], unit: str) -> Iterator[OpcodeRow]:
    name, axis = entry["name"], re.search(r"\{(\w+)\}", entry["name"])
    assert axis is not None, name
    key = axis[1]
    if key == "rel":
        forms = [entry] + ([{**entry, **entry["also"]}] if "also" in entry else [])
        for form in forms:
            for rel, sem in entry["rel"].items():
                for t in entry["types"]:
                    full = form["name"].format(rel=rel, t=t)
                    count = entry.get("count", {}).get(t, "other")
                    yield _build_row(full, unit, {**form, "sig": entry["sig"].format(t=t), "sem": sem, "count": count})
        return
    if key == "size":
        for size, words in entry["size"].items():
            mem = Mem(**({"elem_bytes": 4} | entry["mem"]), count=words)
            yield _build_row(name.format(size=size), unit, entry, mem=mem)
        return
    only: Mapping[str, list[str]] = entry.get("only", {})  # forms that some architectures lack
    for form_name, form in _MEM_AXES[key].items():
        archs = tuple(only.get(form_name, entry.get("archs", ARCHS)))
        if archs:
            yield _build_row(
                name.format(**{key: form_name}), unit, entry, mem=_memory_operation(entry["mem"], form), archs=archs
            )


_ELEMENT_BITS = {"f32": 32, "xf32": 32, "i32": 32, "f16": 16, "bf16": 16, "i8": 8, "fp8": 8, "bf8": 8, "f64": 64}


def _mfma_signature(mfma: Mfma) -> str:
    """Operand list with the register tuple width of each operand, e.g. "d:acc16 a:mat2 b:mat2 c:acc16"."""
    m, n, k, blocks = mfma.shape
    acc = m * n * blocks * _ELEMENT_BITS[mfma.types[2]] // 2048
    a, b = (m * k * blocks * _ELEMENT_BITS[t] // 2048 for t in mfma.types[:2])
    kind = "wide" if mfma.types[2] == "f64" else "acc"
    return f"d:{kind}{acc} a:mat{a} b:mat{b} c:{kind}{acc}"


_MATRIX: dict[str, Any] = {"count": "mfma", "rate": "mfma", "action": "alu", "cross_lane": True}


def _smfmac_rows(entries: Mapping[str, Any], unit: str) -> Iterator[OpcodeRow]:
    for name, entry in entries.items():
        m, n, k, blocks = entry["shape"]
        mfma = Mfma((m, n, k, blocks), tuple(entry["types"]), tuple(entry["cycles"]), sparse=True)
        acc, a, b = (
            m * n // 64,
            m * k * _ELEMENT_BITS[mfma.types[0]] // 4096,
            n * k * _ELEMENT_BITS[mfma.types[1]] // 2048,
        )
        sig = f"d:acc{acc} a:mat{a} b:mat{b} c:quad1"
        yield OpcodeRow(name, unit, sig, mfma.archs, mfma=mfma, partial=True, **_MATRIX)


def _mx_rows(entries: Mapping[str, Any], unit: str) -> Iterator[OpcodeRow]:
    """Matrix instructions with the formats of A and B as modifiers, and the same with scales of blocks of elements."""
    for name, entry in entries.items():
        m, n, k, blocks = entry["shape"]
        acc = m * n // 64
        for scaled in (False, True):
            types = ("mx", "mx", "f32")
            narrow_cycles = tuple(entry["narrow_cycles"])
            mfma = Mfma((m, n, k, blocks), types, tuple(entry["cycles"]), False, narrow_cycles, scaled)
            sig = f"d:acc{acc} a:mx8 b:mx8 c:acc{acc}" + (" x:b32 y:b32" if scaled else "")
            full = name.replace("v_mfma_", "v_mfma_scale_") if scaled else name
            yield OpcodeRow(full, unit, sig, mfma.archs, mfma=mfma, **_MATRIX)


def _mfma_rows(entries: Mapping[str, Any], unit: str) -> Iterator[OpcodeRow]:
    for name, entry in entries.items():
        mfma = Mfma(tuple(entry["shape"]), tuple(entry["types"]), tuple(entry["cycles"]))
        archs = mfma.archs
        later = tuple(arch for arch in archs if arch != "gfx90a")
        sig = _mfma_signature(mfma)
        names = [name]
        plain = mfma.types[0] == mfma.types[1] and mfma.types[0] not in ("fp8", "bf8")
        if later and plain:  # LLVM writes the forms since gfx942 with separators and the number of blocks
            m, n, k, blocks = mfma.shape
            block = f"_{blocks}b" if blocks > 1 else ""
            names.append(f"v_mfma_{mfma.types[2]}_{m}x{n}x{k}{block}_{mfma.types[0]}")
        for n_, alias in enumerate(dict.fromkeys(names)):
            if n_ and alias in entries:
                continue
            yield OpcodeRow(alias, unit, sig, archs if n_ == 0 else later, mfma=mfma, **_MATRIX)


@cache
def _by_name() -> dict[str, OpcodeRow]:
    return {row.name: row for row in load_rows()}


def find_row(mnemonic: str) -> OpcodeRow | None:
    """The row of a disassembler's mnemonic, which may have an encoding suffix; None if it is not an opcode."""
    return _by_name().get(without_encoding(mnemonic))


def without_encoding(mnemonic: str) -> str:
    """The mnemonic of an opcode, without the suffix that a disassembler adds for its encoding."""
    return _ENCODING.sub("", mnemonic)


_ENCODING = re.compile(r"_(?:e32|e64|sdwa|dpp)(?:_dpp)?$")


def load_rows(folder: Path = HERE) -> list[OpcodeRow]:
    """All rows of the table in a fixed order. Raises ValueError for a duplicate mnemonic."""
    rows: list[OpcodeRow] = []
    for path in sorted(folder.glob("*.toml")):
        data = tomllib.loads(path.read_text())
        unit = data["unit"]
        common = {"count": data.get("count", "other")}
        rows += [_build_row(name, unit, {**common, **entry}) for name, entry in data.get("op", {}).items()]
        for entry in data.get("family", []):
            rows += list(_expand_family(entry, unit))
        rows += list(_mfma_rows(data.get("mfma", {}), unit))
        rows += list(_smfmac_rows(data.get("smfmac", {}), unit))
        rows += list(_mx_rows(data.get("mx", {}), unit))
    mnemonics: set[str] = set()
    for row in rows:
        if row.name in mnemonics:
            raise ValueError(f"opcode table: {row.name} stands twice")
        mnemonics.add(row.name)
    return rows
