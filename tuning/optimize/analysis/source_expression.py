"""The structure of an expression, from its tokens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hipsynth.source.parse import Token
from hipsynth.source.tokens import Span, find_closing, split_at
from hipsynth.tuning.optimize.analysis.statements import NotUnderstood

_PRECEDENCE = {
    **dict.fromkeys(("*", "/", "%"), 10),
    **dict.fromkeys(("+", "-"), 9),
    **dict.fromkeys(("<<", ">>"), 8),
    **dict.fromkeys(("<", ">", "<=", ">="), 7),
    **dict.fromkeys(("==", "!="), 6),
    **{"&": 5, "^": 4, "|": 3, "&&": 2, "||": 1},
}
_PREFIXES = frozenset("-+!~")
_TYPES = frozenset(("float", "double", "int", "unsigned", "long", "short", "char", "signed", "size_t"))
_CAST_WORD = "static_cast"


@dataclass(frozen=True)
class ExpressionNode:
    """Tokens [start, end). `kind`: name, number, element, member, call, cast, group, prefix, binary or choice; `parts`:
    the expressions inside, of an element the subscripts; `text`: the operator, the name, or the type of a cast."""

    kind: str
    start: int
    end: int
    text: str
    parts: tuple[ExpressionNode, ...] = ()

    @property
    def span(self) -> Span:
        """Its first token, and the one behind its last."""
        return self.start, self.end

    def list_values(self) -> Iterator[ExpressionNode]:
        """This node and all inside it, but for subscripts."""
        yield self
        for part in () if self.kind == "element" else self.parts:
            yield from part.list_values()


def read_expression(tokens: Sequence[Token], start: int, end: int) -> ExpressionNode:
    """The expression of the tokens [start, end). Raises NotUnderstood for others, and for assignments."""
    node = _ExpressionParser(tokens, end).parse(start)
    if node.end != end:
        raise NotUnderstood("an expression of another kind")
    return node


@dataclass(frozen=True)
class _ExpressionParser:
    tokens: Sequence[Token]
    end: int

    def parse(self, at: int, least: int = 0) -> ExpressionNode:
        """The longest expression from a token on, of operators that bind at least so tightly."""
        node = self._parse_operand(at)
        while node.end < self.end:
            sign = self.tokens[node.end].text
            if sign == "?" and least == 0:
                first = self.parse(node.end + 1)
                if first.end >= self.end or self.tokens[first.end].text != ":":
                    raise NotUnderstood("a choice of another kind")
                second = self.parse(first.end + 1)
                return ExpressionNode("choice", node.start, second.end, sign, (node, first, second))
            if _PRECEDENCE.get(sign, 0) <= least:
                break
            right = self.parse(node.end + 1, _PRECEDENCE[sign])
            node = ExpressionNode("binary", node.start, right.end, sign, (node, right))
        return node

    def _parse_operand(self, at: int) -> ExpressionNode:
        if at >= self.end:
            raise NotUnderstood("an expression that ends too early")
        text = self.tokens[at].text
        if text in _PREFIXES:
            operand = self._parse_operand(at + 1)
            return ExpressionNode("prefix", at, operand.end, text, (operand,))
        if text == "(":
            close = self._find_close(at)
            words = [token.text for token in self.tokens[at + 1 : close]]
            if words and set(words) <= _TYPES:
                operand = self._parse_operand(close + 1)
                return ExpressionNode("cast", at, operand.end, " ".join(words), (operand,))
            return self._parse_suffixes(ExpressionNode("group", at, close + 1, text, self._parse_list(at, close)))
        if text == _CAST_WORD:
            return self._parse_suffixes(self._parse_static_cast(at))
        is_name = self.tokens[at].identifier or text in _TYPES
        if not (is_name or text[0].isdigit() or text[0] == "."):
            raise NotUnderstood("an expression of another kind")
        kind = "name" if is_name else "number"
        return self._parse_suffixes(ExpressionNode(kind, at, at + 1, text))

    def _parse_static_cast(self, at: int) -> ExpressionNode:
        opening = next((i for i in range(at, self.end) if self.tokens[i].text == "("), self.end)
        words = [token.text for token in self.tokens[at + 1 : opening]]
        if opening == self.end or words[:1] != ["<"] or words[-1:] != [">"]:
            raise NotUnderstood("a cast of another kind")
        close = self._find_close(opening)
        return ExpressionNode("cast", at, close + 1, " ".join(words[1:-1]), self._parse_list(opening, close))

    def _parse_suffixes(self, node: ExpressionNode) -> ExpressionNode:
        while node.end < self.end:
            sign = self.tokens[node.end].text
            if sign == "." and node.end + 1 < self.end:
                node = ExpressionNode("member", node.start, node.end + 2, self.tokens[node.end + 1].text, (node,))
            elif sign in ("[", "("):
                close = self._find_close(node.end)
                parts = self._parse_list(node.end, close)
                kind = "element" if sign == "[" else "cast" if node.text in _TYPES and node.kind == "name" else "call"
                parts = (*node.parts, *parts) if node.kind == "element" else parts
                node = ExpressionNode(kind, node.start, close + 1, node.text, parts)
            else:
                break
        return node

    def _parse_list(self, opening: int, close: int) -> tuple[ExpressionNode, ...]:
        """The expressions between brackets."""
        spans = split_at(self.tokens, opening + 1, close, ",") if close > opening + 1 else []
        return tuple(read_expression(self.tokens, a, b) for a, b in spans)

    def _find_close(self, opening: int) -> int:
        close = find_closing(self.tokens, opening)
        if not opening < close < self.end:
            raise NotUnderstood("unbalanced brackets")
        return close
