"""Static features of a build, from its source and its disassembly; nothing is executed to get them."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from functools import cache

from hipsynth.simulator.devices import list_architectures, load_device
from hipsynth.simulator.isa.table import Mem, OpcodeRow
from hipsynth.simulator.isa.table import find_row as opcode
from hipsynth.source.arithmetic import evaluate_integer, parse_arithmetic, read_integer
from hipsynth.source.names import base_name
from hipsynth.source.outline import (
    find_closing_bracket,
    kernel_names,
    outline_launches,
    outline_macros,
    split_commas,
)
from hipsynth.source.program_inputs import argument_inputs
from hipsynth.source.type_sizes import type_bytes

# Instruction classes: feature names, in the order of the feature vector.
CLASSES = [
    "mfma",
    "trans",
    "fma_f64",
    "alu_f64",
    "fma_f32",
    "alu_f32",
    "fma_f16",
    "alu_f16",
    "cvt",
    "cmp",
    "int_mul",
    "valu_other",
    "load4",
    "load3",
    "load2",
    "load1",
    "load_small",
    "store4",
    "store2",
    "store1",
    "store_small",
    "atomic",
    "scratch",
    "lds_atomic",
    "lds_read",
    "lds_write",
    "lds_other",
    "smem",
    "barrier",
    "waitcnt",
    "branch",
    "salu",
]
_LOADS = {16: "load4", 12: "load3", 8: "load2", 4: "load1"}
_STORES = {16: "store4", 12: "store1", 8: "store2", 4: "store1"}
_FLOW = {"barrier": "barrier", "waitcnt": "waitcnt", "branch": "branch", "branch_if": "branch"}
_LDS = {"load": "lds_read", "store": "lds_write"}
_LDS_ATOMICS = frozenset(["add", "sub", "min", "max", "and", "or", "xor", "cmpswap", "inc", "dec"])
DEVICE_FACTS = ("topology.cus", "clock.core_mhz", "hbm.gbps")  # in which devices of an architecture differ
FLAG_WORDS = ("-ffast-math", "-munsafe-fp-atomics")
UNKNOWN_BYTES = 4  # of a type that the program defines
LOOP_WEIGHT = 8.0  # how often a loop body is taken to run per level when its trip count is unknown

_SYMBOL = re.compile(r"^[0-9a-f]+ <([^>]+)>:")
_INSTRUCTION = re.compile(
    r"^\s+([a-z]\w*)(.*?)//\s*([0-9A-Fa-f]+):(?:[ 0-9A-Fa-f]*)(?:<([^>+]+)(?:\+0x([0-9a-f]+))?>)?"
)
_REGISTER = re.compile(r"\b([va])(?:(\d+)|\[\d+:(\d+)\])")


@cache
def instruction_class(mnemonic: str) -> str:
    """The class of an instruction by the columns of its row in the opcode table, one of CLASSES or "other"."""
    row = opcode(mnemonic)
    if row is None:
        return "other"
    if row.group:
        return row.group
    if row.unit == "valu":
        return _vector_class(row)
    if row.unit == "vmem":
        return _memory_class(row.mem)
    if row.unit == "lds":
        counted = row.mem.kind == "atomic" and row.mem.op.partition("_")[0] in _LDS_ATOMICS
        return "lds_atomic" if counted else _LDS.get(row.mem.kind, "lds_other")
    if row.unit == "smem" and row.mem.kind in ("load", "store"):
        return "smem"
    return _FLOW.get(row.action, "salu")


def _vector_class(row: OpcodeRow) -> str:
    kind, _, element = row.count.partition("_")
    if kind in ("mfma", "trans", "cvt"):
        return kind
    if kind == "fma":
        return row.count
    if kind in ("add", "mul"):
        return f"alu_{element}"
    if row.sig.startswith("e:mask"):
        return "cmp"
    return "int_mul" if row.rate == "int64_mul" else "valu_other"


def _memory_class(mem: Mem) -> str:
    if mem.space == "scratch":
        return "scratch"
    if mem.space not in ("global", "flat", "buffer"):
        return "other"
    size = mem.elem_bytes * mem.count
    if mem.kind == "load":
        return "load_small" if mem.to_lds else _LOADS.get(size, "load_small")
    return _STORES.get(size, "store_small") if mem.kind == "store" else mem.kind


def split_functions(disassembly: str) -> dict[str, list[re.Match[str]]]:
    """The instructions of each symbol of an llvm-objdump listing, padding after the last s_endpgm left out."""
    functions: dict[str, list[re.Match[str]]] = {}
    current: list[re.Match[str]] = []
    for line in disassembly.splitlines():
        symbol = _SYMBOL.match(line)
        if symbol:
            current = functions.setdefault(symbol.group(1), [])
            continue
        instruction = _INSTRUCTION.match(line)
        if instruction:
            current.append(instruction)
    for name, listing in functions.items():
        ends = [i for i, m in enumerate(listing) if m.group(1) in ("s_endpgm", "s_setpc_b64")]
        functions[name] = listing[: ends[-1] + 1] if ends else listing
    return functions


def code_features(disassembly: str, source: str = "", kernel: str = "") -> dict[str, float]:
    """Features of a kernel in a code object, plus how many functions there are.

    Without `kernel`, or if there is none of this name, the largest kernel that `source` defines is taken (headers may
    bring kernels of their own).
    """
    listings = split_functions(disassembly)
    if not listings:
        return {}
    word = base_name(kernel)
    bodies = {name: body for name, body in listings.items() if word and base_name(name) == word}
    if not bodies:
        bodies = {name: body for name, body in listings.items() if any(k in name for k in kernel_names(source))}
    name, body = max((bodies or listings).items(), key=lambda item: (len(item[1]), item[0]))
    depth = _loop_depths(name, body)
    counts: Counter[str] = Counter()
    weighted: dict[str, float] = defaultdict(float)
    for match, level in zip(body, depth, strict=True):
        kind = instruction_class(match.group(1))
        counts[kind] += 1
        weighted[kind] += LOOP_WEIGHT ** min(level, 4)
    values = {f"n_{label}": float(counts[label]) for label in CLASSES}
    values |= {f"w_{label}": math.log1p(weighted[label]) for label in CLASSES}
    values["instructions"] = float(len(body))
    values["functions"] = float(len(listings))
    values["loop_depth"] = float(max(depth, default=0))
    values["loops"] = float(_back_edges(name, body))
    values |= _estimate_intensity(weighted)
    for bank, label in (("v", "vgprs"), ("a", "agprs")):
        values[label] = float(_highest_register(body, bank))
    return values


def _instruction_address(match: re.Match[str]) -> int:
    return int(match.group(3), 16)


def _backward_branches(name: str, body: list[re.Match[str]]) -> list[tuple[int, int]]:
    """(index of the target, index of the branch) of every backward branch inside the function."""
    at = {_instruction_address(m): i for i, m in enumerate(body)}
    start = _instruction_address(body[0]) if body else 0
    edges = []
    for index, match in enumerate(body):
        if match.group(4) == name and match.group(1).startswith(("s_branch", "s_cbranch")):
            target = at.get(start + int(match.group(5) or "0", 16))
            if target is not None and target <= index:
                edges.append((target, index))
    return edges


def _back_edges(name: str, body: list[re.Match[str]]) -> int:
    return len({target for target, _ in _backward_branches(name, body)})


def _loop_depths(name: str, body: list[re.Match[str]]) -> list[int]:
    """How many loops (distinct targets of backward branches) each instruction lies in."""
    loops: dict[int, int] = {}
    for target, branch in _backward_branches(name, body):
        loops[target] = max(branch, loops.get(target, branch))
    return [sum(first <= i <= last for first, last in loops.items()) for i in range(len(body))]


def _estimate_intensity(weighted: Mapping[str, float]) -> dict[str, float]:
    """Estimates of FLOPs and bytes per work-item and their ratio, from loop-weighted counts."""
    flops = sum(2 * weighted[k] for k in ("fma_f64", "fma_f32", "fma_f16"))
    flops += sum(weighted[k] for k in ("alu_f64", "alu_f32", "alu_f16", "trans"))
    sizes = {"load4": 16, "load3": 12, "load2": 8, "load1": 4, "load_small": 2}
    sizes |= {"store4": 16, "store2": 8, "store1": 4, "store_small": 2, "atomic": 4}
    moved = sum(size * weighted[k] for k, size in sizes.items())
    return {"flops": math.log1p(flops), "bytes": math.log1p(moved), "intensity": math.log1p(flops / max(moved, 1.0))}


def _highest_register(body: Iterable[re.Match[str]], bank: str) -> int:
    best = 0
    for match in body:
        for register in _REGISTER.finditer(match.group(2)):
            if register.group(1) == bank:
                best = max(best, int(register.group(2) or register.group(3)) + 1)
    return best


# --- source -------------------------------------------------------------------------------------------------------

_DEFINITION = re.compile(
    r"\bdim3\s+(?P<shape>\w+)\s*(?:=\s*dim3\s*)?[({](?P<dims>[^;]*)[)}]\s*;"
    r"|\b(?P<name>\w+)\s*=\s*(?P<value>[^=;,{}][^;,{}]*)(?=[,;])"
    r"|\b(?P<braced>\w+)\s*\{(?P<inside>[^{};,]*)\}(?=\s*[;,])"
)
_LITERAL = re.compile(r"(?<![\w.])\d[\d']*[uUlL]*(?![\w.])")
_SHAPE = re.compile(r"\s*dim3\s*\((.*)\)\s*", re.S)


def evaluate_constant(expression: str, constants: Mapping[str, int]) -> int | None:
    """The value of an integer expression of literals and known names, of `dim3(...)` the product; or None."""
    if shape := _SHAPE.fullmatch(expression):
        sides = [evaluate_constant(side, constants) for side in split_commas(shape[1])]
        return None if None in sides else math.prod(side for side in sides if side is not None)
    text = re.sub(r"\bsizeof\s*\(([^()]*)\)", lambda match: str(type_bytes(match[1]) or UNKNOWN_BYTES), expression)
    return evaluate_integer(parse_arithmetic(text), constants.get)


def integer_constants(source: str) -> dict[str, int]:
    """Names with an integer value when the program runs without arguments: `const int n = 1 << 20;`, `#define N 64`,
    `int n = argc > 1 ? atoi(argv[1]) : 1024;`."""
    constants = {read.name: read.value for read in argument_inputs(source) if read.name and read.value}
    for macro in outline_macros(source):
        value = evaluate_constant(macro.text, constants) if macro.parameters is None else None
        if value is not None:
            constants[macro.name] = value
    for match in _DEFINITION.finditer(source):
        name, text = (group for group in match.groups() if group is not None)
        value = evaluate_constant(f"dim3({text})" if match["shape"] else text, constants)
        if value is not None:
            constants.setdefault(name, value)
    return constants


def source_features(source: str) -> dict[str, float]:
    """Sizes that can be read off the source: launch shape, constants, allocations, loops, keywords."""
    constants = integer_constants(source)
    grids, blocks = [], []
    for launch in outline_launches(source):
        values = [evaluate_constant(part, constants) for part in launch.shape[:2]]
        if len(values) == 2:
            grids.append(values[0] or 0)
            blocks.append(values[1] or 0)
    numbers = [read_integer(literal) or 0 for literal in _LITERAL.findall(source)]
    grid, block = max(grids, default=0), max(blocks, default=0)
    allocated = 0
    for call in re.finditer(r"\bhipMalloc\w*\s*\(", source):
        parts = split_commas(source[call.end() : find_closing_bracket(source, call.end() - 1)])
        allocated += (evaluate_constant(parts[1], constants) or 0) if len(parts) > 1 else 0
    return {
        "grid": _log2_or_zero(grid),
        "block": _log2_or_zero(block),
        "items": _log2_or_zero(grid * block),
        "allocated": _log2_or_zero(allocated),
        "largest_constant": _log2_or_zero(max([*constants.values(), *numbers], default=0)),
        "constants": float(len(constants)),
        "launches": float(len(grids)),
        "for_loops": float(len(re.findall(r"\bfor\s*\(", source))),
        "branches": float(len(re.findall(r"\bif\s*\(", source))),
        "shared": float(source.count("__shared__")),
        "double": float(len(re.findall(r"\bdouble\b", source))),
        "half": float(len(re.findall(r"\b(?:__half2?|half2?|_Float16)\b", source))),
        "atomics": float(len(re.findall(r"\batomic\w+", source))),
        "characters": float(len(source)),
    }


def _log2_or_zero(value: int) -> float:
    return math.log2(value + 1) if value > 0 else 0.0


def build_features(source: str, flags: str, disassembly: str | None, device: str, kernel: str = "") -> dict[str, float]:
    """All static features of a kernel (without one, the largest) of one build for a device; without a disassembly (it
    does not compile) the code features are absent."""
    table = load_device(device)
    spec = table.spec()
    values = {f"src_{k}": v for k, v in source_features(source).items()}
    values |= {f"device_{key}": spec.get(key, 0.0) for key in DEVICE_FACTS}
    values |= {f"arch_{other}": float(table.arch == other) for other in list_architectures()[1:]}  # the first: zeros
    values |= {f"flag_{word.lstrip('-')}": float(word in flags.split()) for word in FLAG_WORDS}
    if disassembly:
        values |= {f"code_{k}": v for k, v in code_features(disassembly, source, kernel).items()}
    return values
