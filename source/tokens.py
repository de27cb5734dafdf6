"""Tokens of a parsed file outside comments and directives, and the brackets among them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hipsynth.source.clang import TOKEN_COMMENT
from hipsynth.source.parse import ParsedUnit, Token

_DIRECTIVE = re.compile(rb"^[ \t]*#(?:[^\n\\]|\\\r?\n|\\.)*", re.M)
OPENING, CLOSING = "([{", ")]}"
Span = tuple[int, int]  # the indices of tokens: from the first, to the one behind the last


def code_tokens(unit: ParsedUnit) -> list[Token]:
    """The tokens outside comments and preprocessor directives."""
    ranges = [match.span() for match in _DIRECTIVE.finditer(unit.text)]
    tokens: list[Token] = []
    at = 0
    for token in unit.tokens:
        while at < len(ranges) and ranges[at][1] <= token.start:
            at += 1
        if token.kind != TOKEN_COMMENT and not (at < len(ranges) and ranges[at][0] <= token.start):
            tokens.append(token)
    return tokens


def compiled_tokens(unit: ParsedUnit) -> list[Token]:
    """The tokens of `code_tokens` without those of branches of #if that no compilation of the unit takes."""
    skipped = {unit.tokens[i].start for i in unit.skipped}
    return [token for token in code_tokens(unit) if token.start not in skipped]


def find_closing(tokens: Sequence[Token], at: int) -> int:
    """The index of the bracket that closes the one at index `at`; -1 if there is none."""
    depth = 0
    for i in range(at, len(tokens)):
        depth += (tokens[i].text in OPENING) - (tokens[i].text in CLOSING)
        if depth == 0:
            return i
    return -1


def find_opening(tokens: Sequence[Token], at: int) -> int:
    """The index of the bracket that the one at index `at` closes; -1 if there is none."""
    depth = 0
    for i in range(at, -1, -1):
        depth += (tokens[i].text in CLOSING) - (tokens[i].text in OPENING)
        if depth == 0:
            return i
    return -1


def split_at(tokens: Sequence[Token], start: int, end: int, separator: str) -> list[Span]:
    """The tokens between separators that stand in no inner brackets."""
    parts, depth, first = [], 0, start
    for i in range(start, end):
        depth += (tokens[i].text in OPENING) - (tokens[i].text in CLOSING)
        if depth == 0 and tokens[i].text == separator:
            parts.append((first, i))
            first = i + 1
    return [*parts, (first, end)]


def strip_parentheses(tokens: Sequence[Token], span: Span) -> Span:
    """The tokens [start, end) of an expression without the parentheses around all of it."""
    start, end = span
    while tokens[start].text == "(" and find_closing(tokens, start) == end - 1:
        start, end = start + 1, end - 1
    return start, end


def text_between(unit: ParsedUnit, tokens: Sequence[Token], start: int, end: int) -> str:
    """The source text of the tokens [start, end), with what stands between them."""
    if start >= end:
        return ""
    return unit.text[tokens[start].start : tokens[end - 1].end].decode(errors="surrogateescape")
