"""A small evaluator of AMD's instruction pseudo-code, an oracle independent of the C++ handlers.

Values are bit patterns with a kind (u, i, f, b) and a width. Only what scalar and vector ALU opcodes use is covered;
anything else raises `Unsupported`.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np


class Unsupported(Exception):
    """The pseudo-code uses something that this evaluator does not know."""


class _Break(Exception):
    pass


def float_of(bits: int, width: int) -> float:
    fmt = {16: ("<H", "<e"), 32: ("<I", "<f"), 64: ("<Q", "<d")}[width]
    return float(struct.unpack(fmt[1], struct.pack(fmt[0], bits & ((1 << width) - 1)))[0])


_NUMPY = {16: (np.float16, np.uint16), 32: (np.float32, np.uint32), 64: (np.float64, np.uint64)}


def bits_of(value: float, width: int) -> int:
    """Bits of a double rounded to nearest even to `width`."""
    if math.isnan(value):
        return {16: 0x7E00, 32: 0x7FC00000, 64: 0x7FF8000000000000}[width]
    f, u = _NUMPY[width]
    with np.errstate(all="ignore"):
        return int(np.array(value, np.float64).astype(f).view(u))


def round_fraction(x: Fraction, width: int, zero_sign: bool = False) -> int:
    """Bits of the exact number `x` rounded to nearest even."""
    p, low, bias = {16: (11, -24, 15), 32: (24, -149, 127), 64: (53, -1074, 1023)}[width]
    sign = (1 << (width - 1)) if x < 0 or (x == 0 and zero_sign) else 0
    a = abs(x)
    if a == 0:
        return sign
    e = a.numerator.bit_length() - a.denominator.bit_length()
    if Fraction(2) ** e > a:
        e -= 1
    q = max(e - p + 1, low)
    scaled = a / Fraction(2) ** q
    n = scaled.numerator // scaled.denominator
    rest = scaled - n
    if rest > Fraction(1, 2) or (rest == Fraction(1, 2) and n & 1):
        n += 1
    if n >= 1 << p:
        n >>= 1
        q += 1
    if n < 1 << (p - 1):
        return sign | n
    biased = q + p - 1 + bias
    if biased >= 2 * bias + 1:
        return sign | ((2 * bias + 1) << (p - 1))
    return sign | biased << (p - 1) | (n - (1 << (p - 1)))


def fma_bits(a: float, b: float, c: float, width: int) -> int:
    if not (math.isfinite(a) and math.isfinite(b) and math.isfinite(c)):
        with np.errstate(all="ignore"):
            return bits_of(float(np.float64(a) * np.float64(b) + np.float64(c)), width)
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    product_negative = (math.copysign(1, a) < 0) != (math.copysign(1, b) < 0)
    both_negative = product_negative and math.copysign(1, c) < 0
    return round_fraction(exact, width, zero_sign=both_negative)


@dataclass(frozen=True)
class V:
    """A typed value: kind u, i, f or b (raw bits)."""

    bits: int
    kind: str
    width: int

    @property
    def number(self) -> Any:
        if self.kind == "f":
            return float_of(self.bits, self.width)
        if self.kind == "i" and self.bits >> (self.width - 1):
            return self.bits - (1 << self.width)
        return self.bits


def make(value: Any, kind: str, width: int) -> V:
    if kind == "f":
        return V(bits_of(float(value), width), "f", width)
    return V(int(value) & ((1 << width) - 1), kind, width)


def widen(v: V, width: int) -> V:
    """Float to float; a signalling NaN stays signalling, so that isSignalNAN(64'F(x)) means what it says."""
    if not math.isnan(v.number):
        return make(v.number, "f", width)
    quiet = make(math.nan, "f", width).bits
    mantissa_top = 1 << {16: 9, 32: 22, 64: 51}[width]
    return V(quiet if v.bits & _quiet_bit(v) else quiet ^ mantissa_top | 1, "f", width)


_TOKEN = re.compile(
    r"""\s*(?:(?P<num>\d+'[UIFB](?=\s*\()|\d+'(?:0x[0-9a-fA-F]+|\d+\.\d+|\d+)[UI]?|0x[0-9a-fA-F]+(?:ULL|LL|U)?|\d+\.\d+F?|\d+(?:ULL|LL|U|F)?)
    |(?P<name>[A-Za-z_]\w*)|(?P<op>\*\*|<<|>>|<=|>=|==|!=|<>|\+=|-=|&&|\|\||[-+*/%&|^~!<>=?:;,.(){}\[\]]))""",
    re.X,
)


def tokenize(text: str) -> list[str]:
    text = re.sub(r"//[^\n]*", "", text)
    text = re.sub(r"declare \w+ : \d+'[UIBF](\[\d+\])?;?", "", text)
    text = text.replace("EXEC.u64[laneId] = D0.u64[laneId] =", "D0.u64[laneId] =")
    text = text.replace("WAVE_MODE.IEEE", "1'1U")  # compute kernels run in IEEE mode
    out: list[str] = []
    at = 0
    text = text.rstrip()
    while at < len(text):
        m = _TOKEN.match(text, at)
        if m is None:
            raise Unsupported(f"token at {text[at : at + 20]!r}")
        out.append(m.group().strip())
        at = m.end()
    return out


Node = tuple[Any, ...]
_TYPE = re.compile(r"^(u|i|f|b|fp|bf)(\d+)$")
_BINARY = [
    ["||"],
    ["&&"],
    ["|"],
    ["^"],
    ["&"],
    ["==", "!=", "<>"],
    ["<", ">", "<=", ">="],
    ["<<", ">>"],
    ["+", "-"],
    ["*", "/"],
    ["**"],
]


class Parser:
    """Recursive descent; expressions become tuples, statements tuples headed by their kind."""

    def __init__(self, text: str) -> None:
        self.tokens = tokenize(text)
        self.at = 0

    def peek(self, k: int = 0) -> str:
        return self.tokens[self.at + k] if self.at + k < len(self.tokens) else ""

    def next(self) -> str:
        self.at += 1
        return self.tokens[self.at - 1]

    def expect(self, token: str) -> None:
        if self.next() != token:
            raise Unsupported(f"expected {token}, got {self.tokens[self.at - 1]}")

    def block(self, *ends: str) -> list[Node]:
        out: list[Node] = []
        while self.peek() not in ends:
            if self.peek() == "":
                if "" in ends:
                    break
                raise Unsupported("unterminated block")
            if self.peek() == ";":
                self.next()
                continue
            out.append(self.statement())
        return out

    def statement(self) -> Node:
        word = self.peek()
        if word == "if":
            return self.conditional()
        if word == "for":
            return self.loop()
        if word == "break":
            self.next()
            return ("break",)
        target = self.postfix()
        op = self.next()
        if op not in ("=", "+=", "-="):
            raise Unsupported(f"statement at {op}")
        value = self.expression()
        if op != "=":
            value = ("bin", op[0], target, value)
        return ("set", target, value)

    def conditional(self) -> Node:
        arms = []
        other: list[Node] = []
        self.next()
        while True:
            condition = self.expression()
            self.expect("then")
            arms.append((condition, self.block("elsif", "else", "endif")))
            end = self.next()
            if end == "elsif":
                continue
            if end == "else":
                other = self.block("endif")
                self.next()
            return ("if", arms, other)

    def loop(self) -> Node:
        self.next()
        name = self.next()
        self.expect("in")
        low = self.expression()
        self.expect(":")
        high = self.expression()
        self.expect("do")
        body = self.block("endfor")
        self.next()
        return ("for", name, low, high, body)

    def expression(self) -> Node:
        condition = self.binary(0)
        if self.peek() == "?":
            self.next()
            a = self.expression()
            self.expect(":")
            return ("cond", condition, a, self.expression())
        return condition

    def binary(self, level: int) -> Node:
        if level == len(_BINARY):
            return self.unary()
        left = self.binary(level + 1)
        while self.peek() in _BINARY[level]:
            op = self.next()
            left = ("bin", op, left, self.binary(level + 1))
        return left

    def unary(self) -> Node:
        if self.peek() in ("-", "!", "~", "+"):
            return ("un", self.next(), self.unary())
        return self.postfix()

    def postfix(self) -> Node:
        node = self.primary()
        while True:
            if self.peek() == "." and _TYPE.match(self.peek(1)):
                self.next()
                node = ("type", node, self.next())
            elif self.peek() == "[":
                self.next()
                high = self.expression()
                low = None
                if self.peek() == ":":
                    self.next()
                    low = self.expression()
                self.expect("]")
                node = ("bits", node, high, low)
            else:
                return node

    def primary(self) -> Node:
        token = self.next()
        if token == "(":
            inner = self.expression()
            self.expect(")")
            return inner
        if token == "{":
            parts = [self.expression()]
            while self.peek() == ",":
                self.next()
                parts.append(self.expression())
            self.expect("}")
            return ("cat", parts)
        if re.match(r"\d+'[UIFB]$", token):
            width, kind = token.split("'")
            self.expect("(")
            inner = self.expression()
            self.expect(")")
            return ("cast", kind.lower(), int(width), inner)
        if token[0].isdigit():
            return ("num", parse_number(token))
        if self.peek() == "(":
            self.next()
            args = []
            while self.peek() != ")":
                args.append(self.expression())
                if self.peek() == ",":
                    self.next()
            self.next()
            return ("call", token, args)
        return ("name", token)


def parse_number(token: str) -> V:
    if "'" in token:
        width, rest = token.split("'")
        if "." in rest:
            return make(float(rest), "f", int(width))
        return make(int(rest.rstrip("UI"), 0), "u", int(width))
    if "." in token:
        return make(float(token.rstrip("F")), "f", 32 if token.endswith("F") else 64)
    if not token.startswith("0x") and token.endswith("F"):
        return make(float(token[:-1]), "f", 32)
    digits = token.rstrip("UL")
    width = 64 if "LL" in token else 32
    return make(int(digits, 0), "u" if "U" in token else "i", width)


def _common(a: V, b: V) -> tuple[str, int]:
    if a.kind == "f" or b.kind == "f":
        floats = [v for v in (a, b) if v.kind == "f"]
        return "f", max(v.width for v in floats)
    width = max(a.width, b.width)
    kind = "i" if a.kind == "i" and b.kind == "i" else "u"
    return kind, width


def _arith(op: str, a: V, b: V) -> V:
    kind, width = _common(a, b)
    x, y = a.number, b.number
    if kind == "f":
        f, u = _NUMPY[width]
        with np.errstate(all="ignore"):
            p, q = f(x), f(y)
            r = {"+": lambda: p + q, "-": lambda: p - q, "*": lambda: p * q, "/": lambda: p / q, "**": lambda: p**q}[op]()
        r = f(r)
        return make(math.nan, "f", width) if np.isnan(r) else V(int(np.array(r).view(u)), "f", width)
    if op == "**":
        return make(x**y, kind, width)
    return make({"+": x + y, "-": x - y, "*": x * y, "/": x // y if y else 0}[op], kind, width)


_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "==": lambda x, y: x == y,
    "!=": lambda x, y: x != y,
    "<>": lambda x, y: x < y or x > y if isinstance(x, float) else x != y,
    "<": lambda x, y: x < y,
    ">": lambda x, y: x > y,
    "<=": lambda x, y: x <= y,
    ">=": lambda x, y: x >= y,
}


def exponent(v: V) -> int:
    p = {16: 10, 32: 23, 64: 52}[v.width]
    return (v.bits >> p) & ((1 << (v.width - p - 1)) - 1)


def is_denormal(v: V) -> bool:
    return exponent(v) == 0 and v.number != 0


def saturate(x: float | int, low: int, high: int) -> int:
    if math.isnan(x):
        return 0
    return low if x <= low else high if x >= high else math.trunc(x)


def _quiet_bit(v: V) -> int:
    return 1 << {16: 9, 32: 22, 64: 51}[v.width]


def _ldexp(v: V, e: int) -> V:
    x = v.number
    if not math.isfinite(x) or x == 0:
        return v
    return V(round_fraction(Fraction(x) * Fraction(2) ** max(-5000, min(5000, e)), v.width), "f", v.width)


def _unary_float(fn: Callable[[float], float]) -> Callable[[V], V]:
    def run(v: V) -> V:
        x = v.number
        return make(fn(x) if math.isfinite(x) else x, "f", v.width)

    return run


def _keep_zero(fn: Callable[[float], float]) -> Callable[[float], float]:
    return lambda x: math.copysign(fn(x), x)


def _sqrt(x: float) -> float:
    return math.nan if x < 0 else math.sqrt(x)


def _log2(x: float) -> float:
    return -math.inf if x == 0 else math.nan if x < 0 else math.inf if math.isinf(x) else math.log2(x)


def _narrow(match: re.Match[str]) -> Callable[[V], V]:
    """Conversions named like f32_to_i32."""
    src, dst = match[1], match[2]
    kind, width = dst[0], int(re.sub(r"\D", "", dst))

    def run(v: V) -> V:
        sk, sw = src[0], int(re.sub(r"\D", "", src))
        x = V(v.bits & ((1 << sw) - 1), sk, sw).number
        if kind == "f":
            return make(x, "f", width)
        if sk == "f" or width < sw:  # narrowing saturates
            low, high = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if kind == "i" else (0, (1 << width) - 1)
            return make(saturate(x, low, high), kind, width)
        return make(x, kind, width)

    return run


class Evaluator:
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
                width = int(_TYPE.match(part[2])[2]) if part[0] == "type" else 32  # type: ignore[index]
                self.assign(part, make(v.bits >> shift, "u", width))
                shift += width
            return
        kind, width = v.kind, v.width
        node = target
        while node[0] == "type":
            m = _TYPE.match(node[2])
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
            return make(math.nan if node[1] == "NAN" else math.inf, "f", width) if node[1] != "DENORM" else V(-1, "f", width)
        m = _TYPE.match(name)
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
            return make((a and bool(self.value(right).number)) if op == "&&" else (a or bool(self.value(right).number)), "u", 1)
        a, b = self.value(left), self.value(right)
        if op in _COMPARE:
            if b.bits == -1:
                return make(is_denormal(a), "u", 1)
            return make(_COMPARE[op](a.number, b.number), "u", 1)
        if op in ("<<", ">>"):
            n = b.number
            return make(a.number << n if op == "<<" else a.number >> n, a.kind, a.width)
        if op in "&|^":
            width = max(a.width, b.width)
            kind, _ = _common(a, b)
            return V({"&": a.bits & b.bits, "|": a.bits | b.bits, "^": a.bits ^ b.bits}[op], kind, width)
        return _arith(op, a, b)

    def eval_call(self, name: str, args: list[Node]) -> V:
        v = [self.value(a) for a in args]
        if name in _FUNCTIONS:
            return _FUNCTIONS[name](*v)
        if m := re.match(r"^([uif]\d+)_to_([uif]\d+)$", name):
            return _narrow(m)(v[0])
        if name.startswith("v_"):
            return self.call_opcode(name, v)
        raise Unsupported(f"function {name}")

    def call_opcode(self, name: str, v: list[V]) -> V:
        inner = Evaluator(Parser(self.lookup(name)).block(""), self.lookup)
        state = {f"S{i}": x.bits for i, x in enumerate(v)} | {"D0": 0}
        return V(inner.run(state)["D0"] & ((1 << v[0].width) - 1), v[0].kind, v[0].width)


def _fp8(v: V, mantissa: int, bias: int) -> V:
    b = v.bits & 0xFF
    if b == 0x80:
        return make(math.nan, "f", 32)
    e, m = (b & 0x7F) >> mantissa, b & ((1 << mantissa) - 1)
    x = m * 2.0 ** (1 - bias - mantissa) if e == 0 else (1 + m / (1 << mantissa)) * 2.0 ** (e - bias)
    return make(-x if b & 0x80 else x, "f", 32)


def _to_fp8(v: V, mantissa: int, bias: int) -> V:
    """Nearest representable value by search over the 128 magnitudes, ties to the even code; finite values saturate."""
    x = v.number
    if not math.isfinite(x):
        return V(0x80, "b", 8)
    codes = [(abs(_fp8(V(c, "b", 8), mantissa, bias).number - abs(x)), c & 1, c) for c in range(128)]
    code = min(codes)[2]
    return V(code | (0x80 if x < 0 and code else 0), "b", 8)


def _signext(v: V) -> V:
    return make(V(v.bits, "i", v.width).number, "i", 64)


def _signext_from_bit(v: V, width: V) -> V:
    n = width.number
    if n == 0:
        return make(0, "i", v.width)
    x = v.bits & ((1 << n) - 1)
    return make(x - (1 << n) if x >> (n - 1) else x, "i", v.width)


def _mantissa(v: V) -> V:
    x = v.number
    return v if x == 0 else make(math.frexp(x)[0], "f", v.width)


def _exponent(v: V) -> V:
    """The pseudo-code's exponent(): denormals count on below 1."""
    return make(exponent(v), "i", 32)


_FUNCTIONS: dict[str, Callable[..., V]] = {
    "fma": lambda a, b, c: V(fma_bits(a.number, b.number, c.number, a.width), "f", a.width),
    "abs": lambda v: V(v.bits & ~(1 << (v.width - 1)), v.kind, v.width),
    "sign": lambda v: V(v.bits >> (v.width - 1), "u", 1),
    "exponent": _exponent,
    "mantissa": _mantissa,
    "isNAN": lambda v: make(math.isnan(v.number), "u", 1),
    "isSignalNAN": lambda v: make(math.isnan(v.number) and not v.bits & _quiet_bit(v), "u", 1),
    "isQuietNAN": lambda v: make(math.isnan(v.number) and bool(v.bits & _quiet_bit(v)), "u", 1),
    "cvtToQuietNAN": lambda v: V(v.bits | _quiet_bit(v), "f", v.width),
    "ldexp": lambda v, e: _ldexp(v, e.number),
    "floor": _unary_float(_keep_zero(lambda x: float(math.floor(x)))),
    "trunc": _unary_float(_keep_zero(lambda x: float(math.trunc(x)))),
    "fract": _unary_float(lambda x: x - math.floor(x)),
    "isEven": lambda v: make(math.isfinite(v.number) and v.number % 2 == 0, "u", 1),
    "sqrt": lambda v: make(_sqrt(v.number) if not math.isinf(v.number) else (v.number if v.number > 0 else math.nan), "f", 64),
    "log2": lambda v: make(_log2(v.number), "f", v.width),
    "pow": lambda a, b: make(a.number**b.number if b.number < 1100 else math.inf, "f", a.width),
    "sin": lambda v: make(math.sin(v.number) if math.isfinite(v.number) else math.nan, "f", v.width),
    "cos": lambda v: make(math.cos(v.number) if math.isfinite(v.number) else math.nan, "f", v.width),
    "signext": _signext,
    "signext_from_bit": _signext_from_bit,
    "fp8_to_f32": lambda v: _fp8(v, 3, 8),
    "bf8_to_f32": lambda v: _fp8(v, 2, 16),
    "f32_to_fp8": lambda v: _to_fp8(v, 3, 8),
    "f32_to_bf8": lambda v: _to_fp8(v, 2, 16),
    "ABSDIFF": lambda a, b: make(abs(a.number - b.number), "u", 32),
    "bitCount": lambda v: make(v.bits.bit_count(), "u", 32),
}


def opcode_texts() -> Iterator[tuple[str, str]]:
    """(mnemonic in lower case, pseudo-code) of every CDNA opcode; ImportError when tinygrad is not installed."""
    from tinygrad.runtime.autogen.amd.cdna.str_pcode import PCODE  # type: ignore[import-not-found,unused-ignore]

    for op, text in PCODE.items():
        yield op.name.lower(), text
