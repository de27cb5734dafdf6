"""A small evaluator of AMD's instruction pseudo-code, an oracle independent of the C++ handlers.

Values are bit patterns with a kind (u, i, f, b) and a width. Only what scalar and vector ALU opcodes use is covered;
anything else raises `Unsupported`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator

from pcode_parser import TYPE, Node, Parser
from pcode_values import COMPARE, FUNCTIONS, Unsupported, V, arith, common, is_denormal, make, narrow, widen


class _Break(Exception):
    pass


class PcodeEvaluator:
    """Runs one opcode's pseudo-code on one lane. `state` maps S0, S1, S2, D0, VCC, EXEC, SCC ... to bit patterns."""

    def __init__(self, program: list[Node], lookup: Callable[[str], str]) -> None:
        self.program = program
        self.lookup = lookup
        self.state: dict[str, int] = {}
        self.types: dict[str, tuple[str, int]] = {}
        self.opsel = 0

    def run(self, state: dict[str, int]) -> dict[str, int]:
        self.state = dict(state)
        self.types = {}
        self.execute(self.program)
        return self.state

    def execute(self, block: list[Node]) -> None:
        for node in block:
            getattr(self, f"do_{node[0]}")(*node[1:])

    def do_break(self) -> None:
        raise _Break

    def do_if(self, arms: list[tuple[Node, list[Node]]], other: list[Node]) -> None:
        for condition, block in arms:
            if self.value(condition).number:
                return self.execute(block)
        self.execute(other)

    def do_for(self, name: str, low: Node, high: Node, body: list[Node]) -> None:
        for i in range(self.value(low).number, self.value(high).number + 1):
            self.state[name] = i
            self.types[name] = ("i", 32)
            try:
                self.execute(body)
            except _Break:
                return

    def do_set(self, target: Node, value: Node) -> None:
        self.assign(target, self.value(value))

    def assign(self, target: Node, v: V) -> None:
        if target[0] == "cat":
            shift = 0
            for part in reversed(target[1]):
                width = int(TYPE.match(part[2])[2]) if part[0] == "type" else 32  # type: ignore[index]
                self.assign(part, make(v.bits >> shift, "u", width))
                shift += width
            return
        kind, width = v.kind, v.width
        node = target
        while node[0] == "type":
            m = TYPE.match(node[2])
            assert m is not None
            if node is target:
                kind, width = m[1], int(m[2])
            node = node[1]
        if v.kind == "f" and kind == "f" and v.width != width:
            v = make(v.number, "f", width)
        elif v.kind == "f" and kind in "ui" and v.width != width:
            raise Unsupported("float to integer assignment")
        elif v.kind == "i" and width > v.width:
            v = make(v.number, kind, width)
        if node[0] == "bits":
            low = self.value(node[3] if node[3] is not None else node[2]).number
            high = self.value(node[2]).number
            return self.store(self.base(node[1]), low, abs(high - low) + 1, v.bits)
        name = node[1]
        bits = v.bits & ((1 << width) - 1)
        if name == "SCC":
            bits = int(bits != 0)
        self.types.setdefault(name, (kind, width))
        if width < 32 and name == "D0":  # narrow results clear the rest of the register
            self.state[name] = bits
        else:
            self.store(name, 0, max(width, 1), bits)

    def store(self, name: str, low: int, width: int, bits: int) -> None:
        mask = ((1 << width) - 1) << low
        self.state[name] = (self.state.get(name, 0) & ~mask) | ((bits << low) & mask)

    def base(self, node: Node) -> str:
        while node[0] in ("type", "bits"):
            node = node[1]
        return "D0" if node[1] == "VGPR" else str(node[1])  # VGPR[laneId][VDST] is this lane's destination

    def value(self, node: Node) -> V:
        return getattr(self, f"eval_{node[0]}")(*node[1:])  # type: ignore[no-any-return]

    def eval_num(self, v: V) -> V:
        return v

    def eval_name(self, name: str) -> V:
        constants = {
            "PI": make(math.pi, "f", 64),
            "INF": make(math.inf, "f", 64),
            "UNDERFLOW_F32": make(0.0, "f", 32),
            "UNDERFLOW_F64": make(0.0, "f", 64),
            "OVERFLOW_F32": make(math.inf, "f", 32),
            "OVERFLOW_F64": make(math.inf, "f", 64),
            "ROUND_MODE": make(0, "u", 32),
            "ROUND_NEAREST_EVEN": make(0, "u", 32),
            "SDWA_SRC0_SEL": make(0, "u", 3),
            **{f"BYTE{i}": make(i, "u", 3) for i in range(4)},
            **{f"WORD{i}": make(4 + i, "u", 3) for i in range(2)},
            "OPSEL": make(self.opsel, "u", 4),
        }
        if name in constants:
            return constants[name]
        if name in self.types and name not in ("S0", "S1", "S2", "D0"):
            kind, width = self.types[name]
            return V(self.state[name] & ((1 << width) - 1), kind, width)
        if name in self.state:
            return V(self.state[name], "u", 64 if self.state[name] >> 32 else 32)
        raise Unsupported(f"name {name}")

    def eval_type(self, node: Node, name: str) -> V:
        if node == ("name", "NAN") or node == ("name", "INF") or node == ("name", "DENORM"):
            width = int(name[1:])
            return (
                make(math.nan if node[1] == "NAN" else math.inf, "f", width)
                if node[1] != "DENORM"
                else V(-1, "f", width)
            )
        m = TYPE.match(name)
        assert m is not None
        v = self.value(node)
        width = int(m[2])
        bits = v.bits
        if v.kind == "i" and v.width < width:
            bits = v.number
        return V(bits & ((1 << width) - 1), m[1], width)

    def eval_bits(self, node: Node, high: Node, low: Node | None) -> V:
        h = self.value(high).number
        lo = h if low is None else self.value(low).number
        v = self.value(node)
        if h < lo:  # reversed range: bit reversal
            width = lo - h + 1
            return V(int(format((v.bits >> h) & ((1 << width) - 1), f"0{width}b")[::-1], 2), "u", width)
        return V((v.bits >> lo) & ((1 << (h - lo + 1)) - 1), "u", h - lo + 1)

    def eval_cat(self, parts: list[Node]) -> V:
        bits, width = 0, 0
        for part in parts:
            v = self.value(part)
            bits = bits << v.width | v.bits
            width += v.width
        return V(bits, "u", width)

    def eval_cast(self, kind: str, width: int, node: Node) -> V:
        v = self.value(node)
        if kind == "b":
            return V(v.number & ((1 << width) - 1) if v.kind != "f" else v.bits, "u", width)
        if kind == "f":
            return widen(v, width) if v.kind == "f" else V(v.bits & ((1 << width) - 1), "f", width)
        return make(v.number, kind, width)

    def eval_cond(self, c: Node, a: Node, b: Node) -> V:
        return self.value(a) if self.value(c).number else self.value(b)

    def eval_un(self, op: str, node: Node) -> V:
        v = self.value(node)
        if op == "+":
            return v
        if op == "!":
            return make(not v.number, "u", 1)
        if op == "~":
            return V(~v.bits & ((1 << v.width) - 1), v.kind, v.width)
        if v.kind == "f":
            return V(v.bits ^ 1 << (v.width - 1), "f", v.width)
        return make(-v.number, "i", v.width)

    def eval_bin(self, op: str, left: Node, right: Node) -> V:
        if op in ("&&", "||"):
            a = bool(self.value(left).number)
            return make(
                (a and bool(self.value(right).number)) if op == "&&" else (a or bool(self.value(right).number)), "u", 1
            )
        a, b = self.value(left), self.value(right)
        if (
            op == "==" and right[0] == "un" and right[2][0] == "num" and b.number == 0
        ):  # == +0.0, == -0.0 tell zeros apart
            return make(a.number == 0 and a.bits >> (a.width - 1) == b.bits >> (b.width - 1), "u", 1)
        if op in COMPARE:
            if b.bits == -1:
                return make(is_denormal(a), "u", 1)
            return make(COMPARE[op](a.number, b.number), "u", 1)
        if op in ("<<", ">>"):
            n = b.number
            return make(a.number << n if op == "<<" else a.number >> n, a.kind, a.width)
        if op in "&|^":
            width = max(a.width, b.width)
            kind, _ = common(a, b)
            return V({"&": a.bits & b.bits, "|": a.bits | b.bits, "^": a.bits ^ b.bits}[op], kind, width)
        return arith(op, a, b)

    def eval_call(self, name: str, args: list[Node]) -> V:
        v = [self.value(a) for a in args]
        if name in FUNCTIONS:
            return FUNCTIONS[name](*v)
        if m := re.match(r"^([uif]\d+)_to_([uif]\d+)$", name):
            return narrow(m)(v[0])
        if name.startswith("v_"):
            return self.call_opcode(name, v)
        raise Unsupported(f"function {name}")

    def call_opcode(self, name: str, v: list[V]) -> V:
        inner = PcodeEvaluator(Parser(self.lookup(name)).block(""), self.lookup)
        state = {f"S{i}": x.bits for i, x in enumerate(v)} | {"D0": 0}
        return V(inner.run(state)["D0"] & ((1 << v[0].width) - 1), v[0].kind, v[0].width)


def opcode_texts() -> Iterator[tuple[str, str]]:
    """(mnemonic in lower case, pseudo-code) of every CDNA opcode; ImportError when tinygrad is not installed."""
    from tinygrad.runtime.autogen.amd.cdna.str_pcode import PCODE  # type: ignore[import-not-found,unused-ignore]

    for op, text in PCODE.items():
        yield op.name.lower(), text
