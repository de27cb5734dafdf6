"""Generates kernels that call clang's AMDGPU builtins, from the table of their types in clang's library."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

# A builtin's entry there: its name, its type, its attributes and the feature that it wants, each ended by a zero byte.
ENTRY = re.compile(rb"(?<=\0)(__builtin_amdgcn_[a-z0-9_]+)\0([^\0]*)\0([^\0]*)\0([^\0]*)(?=\0)")
# One type in clang's notation: prefixes, a vector, a base type, pointers.
TYPE = re.compile(r"(?P<pre>[IUSWLZN]*)(?P<vec>(?:[VE]\d+)?[USWLZN]*)(?P<base>Q[a-z]|[a-z.])(?P<post>(?:\*\d*|[CD])*)")
BASE = {
    "v": "void", "b": "bool", "c": "char", "s": "short", "i": "int", "f": "float", "d": "double", "h": "__fp16",
    "x": "_Float16", "y": "__bf16", "Qb": "__amdgpu_buffer_rsrc_t", "Qt": "__amdgpu_texture_t",
}  # fmt: skip
SPACES = {"0": "", "1": "global", "3": "local", "4": "constant", "5": "private"}
CONSTANTS = (0, 1, 2, 4, 16, 32)  # tried for every parameter that must be one; clang says which it does not take

PRELUDE = """#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
template <class T, int N> struct vector_of { typedef T type __attribute__((ext_vector_type(N))); };
template <class T, int N> using vec = typename vector_of<T, N>::type;
"""
# Kernels that clang's front end takes and its back end cannot compile: other generations' functions, values without a
# meaning, and s_setreg with a value that differs between lanes.
NOT_COMPILED = re.compile(
    r"interp_|trig_preopf|log_clampf|s_setreg\(|"
    r"(buffer_wbinvl1|i32_(16x16x16|32x32x8)i8|f32_(32x32x2|16x16x2|4x4x2|32x32x4|16x16x8)bf16)\(.*gfx942|"
    r"(_xf32|_16x16x32_i8|_32x32x16_i8|buffer_wbinvl1_vol|smfmac_\w+)\(.*gfx90a|buffer_wbinvl1_vol\(.*gfx942|"
    r"fcmpf?\(.*, 0\)|cvt_(f32|sr)_[bf][fp]8(_f32)?\(.*, (4|16|32)\)"
)


@dataclass(frozen=True)
class Value:
    """One parameter or result: its C++ type ("pointer" for one), whether clang wants a constant, what it points to."""

    type: str
    constant: bool = False
    pointee: str = ""
    space: str = ""


def _value(found: re.Match[str]) -> Value:
    letters = found["pre"] + re.sub(r"[VE]\d+", "", found["vec"])
    base = BASE.get(found["base"], found["base"])
    if base == "int" and ("W" in letters or "L" in letters):
        base = "long"
    base = f"unsigned {base}" if "U" in letters else base
    if lanes := re.search(r"[VE](\d+)", found["vec"]):
        base = f"vec<{base}, {lanes[1]}>"
    if "*" in found["post"]:
        space = SPACES.get(re.sub(r"[*CD]", "", found["post"]), "")
        return Value("pointer", pointee="char" if base == "void" else base, space=space)
    return Value(base, "I" in letters)


def types(text: str) -> list[Value]:
    """The result and parameter types of one of clang's type strings."""
    return [_value(found) for found in TYPE.finditer(text)]


def entries(library: Path) -> dict[str, str]:
    """Type string of each builtin."""
    return {name.decode(): kind.decode() for name, kind, _, _ in ENTRY.findall(library.read_bytes())}


def _pointer(k: int, value: Value) -> tuple[str, str]:
    """(statements before the call, argument)."""
    if value.space == "local":
        load = f"__shared__ {value.pointee} s{k}[64]; s{k}[lane] = *({value.pointee}*)(in + 512 * {k});"
        return load, f"({value.pointee} __attribute__((address_space(3)))*)(s{k} + lane)"
    qualifier = " __attribute__((address_space(1)))" if value.space == "global" else ""
    return "", f"({value.pointee}{qualifier}*)(out + 16384 + 64 * lane)"


def _argument(name: str, k: int, kinds: list[Value], constant: int) -> tuple[str, str]:
    value = kinds[k + 1]
    if value.constant:
        return "", str(constant)
    if name.startswith("__builtin_amdgcn_atomic_") and k > 1:
        return "", ("__ATOMIC_SEQ_CST", '"workgroup"', "0")[k - 2]
    if name.startswith("__builtin_amdgcn_image_"):  # components and cache bits are constants without being typed so
        mask = 1 if "_store_" in name else 0
        if k == mask:
            return "", "15" if "v4" in name else "1"
        if k >= len(kinds) - 3 or value.type == "bool":
            return "", "0"
    if value.type == "pointer":
        return ("bool flag;", "&flag") if "div_scale" in name else _pointer(k, value)
    if value.type == "__amdgpu_buffer_rsrc_t":
        return "", "__builtin_amdgcn_make_buffer_rsrc(out, 0, 16384, 0x27000)"
    if value.type == "__amdgpu_texture_t":
        return "", "*(__amdgpu_texture_t*)in"
    return "", f"*({value.type}*)(in + 512 * {k} + 128 * (lane & 3))"


def kernel(symbol: str, name: str, kinds: list[Value], constant: int) -> str:
    """One line of HIP: each lane calls `name` with values from `in` and writes the result to `out`."""
    made = [_argument(name, k, kinds, constant) for k in range(len(kinds) - 1)]
    call = f"{name}({', '.join(argument for _, argument in made)})"
    if kinds[0].type == "pointer":
        call = f"*(const void**)(out + 128 * lane) = (const void*){call}"
    elif kinds[0].type != "void":
        call = f"*({kinds[0].type}*)(out + 128 * lane) = {call}"
    before = " ".join(text for text, _ in made if text)
    after = "out[lane] = flag;" if "div_scale" in name else ""
    lane = "int lane = __builtin_amdgcn_workitem_id_x();"
    return f'extern "C" __global__ void {symbol}(char* in, char* out) {{ {lane} {before} {call}; {after} }}'


def kernels(arch: str, names: Iterable[str], table: dict[str, str]) -> Iterator[tuple[str, str, int]]:
    """(name, line, constant) of every call worth trying on `arch`."""
    number = 0
    for name in names:
        kinds = types(table[name])
        several = any(k.constant for k in kinds[1:]) and "mfma" not in name
        for constant in CONSTANTS if several else (0,):
            line = kernel(f"k{number}", name, kinds, constant)
            number += 1
            if "." not in table[name] and not NOT_COMPILED.search(f"{line} {arch}"):
                yield name, line, constant
