"""Parser of AMD's instruction pseudo-code: expressions become tuples, statements tuples headed by their kind."""

from __future__ import annotations

import re
from typing import Any

from pcode_values import Unsupported, V, make

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
TYPE = re.compile(r"^(u|i|f|b|fp|bf)(\d+)$")
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
            if self.peek() == "." and TYPE.match(self.peek(1)):
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
