"""The statements of a function body, from its tokens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hipsynth.source.parse import Token
from hipsynth.source.tokens import Span, find_closing

JUMPS = frozenset({"return", "break", "continue", "goto"})


class NotUnderstood(ValueError):
    """Code that this simple reader does not follow; no transformation that needs its statements applies."""


@dataclass(frozen=True)
class Statement:
    """Tokens [start, end) of a body. `kind`: block, if, for, while, do, jump or simple.

    `head`: the tokens within the parentheses of if, for and while; `parts`: the statements inside, of an `if` its
    branches.
    """

    kind: str
    start: int
    end: int
    head: Span = (0, 0)
    parts: tuple[Statement, ...] = ()

    @property
    def span(self) -> Span:
        """Its first token, and the one behind its last."""
        return self.start, self.end

    def inner(self) -> Iterator[Statement]:
        """This statement and all inside it."""
        yield self
        for part in self.parts:
            yield from part.inner()


def parse_statements(tokens: Sequence[Token], start: int, end: int) -> tuple[Statement, ...]:
    """The statements of the tokens [start, end), between the braces of a body; raises NotUnderstood."""
    statements = []
    while start < end:
        statement = _parse_statement(tokens, start, end)
        statements.append(statement)
        start = statement.end
    return tuple(statements)


def _parse_statement(tokens: Sequence[Token], at: int, end: int) -> Statement:
    text = tokens[at].text
    if text == "{":
        close = _closing_index(tokens, at)
        return Statement("block", at, close + 1, parts=parse_statements(tokens, at + 1, close))
    if text in ("if", "for", "while"):
        return _parse_controlled(tokens, at, end)
    if text in ("do", "switch", "try", "case", "default", "asm", "__asm__", "struct", "else"):
        raise NotUnderstood(f"a {text} statement")
    if text == "using" and tokens[at + 2].text != "=":
        raise NotUnderstood("using names of a namespace")
    stop = _after_semicolon(tokens, at, end)
    return Statement("jump" if text in JUMPS else "simple", at, stop)


def _parse_controlled(tokens: Sequence[Token], at: int, end: int) -> Statement:
    kind, opening = tokens[at].text, at + 1
    if kind == "if" and tokens[opening].text == "constexpr":
        opening += 1
    if tokens[opening].text != "(":
        raise NotUnderstood(f"{kind} {tokens[opening].text}")
    close = _closing_index(tokens, opening)
    head = (opening + 1, close)
    first = _parse_statement(tokens, close + 1, end)
    if kind != "if" or first.end >= end or tokens[first.end].text != "else":
        return Statement(kind, at, first.end, head, (first,))
    second = _parse_statement(tokens, first.end + 1, end)
    return Statement(kind, at, second.end, head, (first, second))


def _closing_index(tokens: Sequence[Token], at: int) -> int:
    close = find_closing(tokens, at)
    if close < 0:
        raise NotUnderstood("unbalanced brackets")
    return close


def _after_semicolon(tokens: Sequence[Token], at: int, end: int) -> int:
    """The index after the semicolon that ends a simple statement."""
    while at < end:
        if tokens[at].text in ("(", "[", "{"):
            at = _closing_index(tokens, at)
        elif tokens[at].text == ";":
            return at + 1
        at += 1
    raise NotUnderstood("a statement without an end, such as a macro's")
