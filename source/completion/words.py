"""Words of half-written statements, their brackets, and what may be dropped at their end."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_TOKEN = re.compile(
    r"[A-Za-z_]\w*|\.?\d(?:[\w.']|(?<=[eEpP])[+-])*|<<=|>>=|->|::|\+\+|--|<<|>>|&&|\|\||[-+*/%&|^=!<>]=|\S"
)

NAME = re.compile(r"[A-Za-z_]\w*")

TYPES = frozenset(
    re.findall(
        r"\w+",
        """auto bool char double float half int long short signed unsigned size_t uint int8_t int16_t int32_t int64_t
        uint8_t uint16_t uint32_t uint64_t float2 float4 double2 int2 int4 uint4 __half _Float16""",
    )
)

QUALIFIERS = frozenset(["const", "volatile", "static", "register", "__shared__", "constexpr"])

ASSIGNING = frozenset(["=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="])

_COMPARING = frozenset(["<", ">", "<=", ">=", "==", "!=", "&&", "||"])

UNFINISHED = ASSIGNING | _COMPARING | frozenset([*"+-*/%&|^!~.,?:", "<<", ">>", "->", "::"])

CASTS = frozenset(["static_cast", "reinterpret_cast"])

CONTROL = frozenset(["for", "while", "if", "switch"])

PAIRS = {"(": ")", "[": "]", "{": "}"}

CLOSING = frozenset(PAIRS.values())


@dataclass(frozen=True)
class WordToken:
    """A token of code without comments and literals: its text and [start, end) in characters."""

    text: str
    start: int
    end: int


def split_tokens(code: str, offset: int = 0) -> list[WordToken]:
    """The tokens of code whose comments and literals are blank; `offset` is added to their positions."""
    return [WordToken(match[0], offset + match.start(), offset + match.end()) for match in _TOKEN.finditer(code)]


@dataclass(frozen=True)
class StatementEnding:
    """A way to end a statement: `kept` of its tokens, then `added`."""

    kept: int
    added: str


MISSING_NAME = "hipsynth_missing"


def closes_parenthesis(words: Sequence[str]) -> bool:
    """Whether the parenthesis that the words begin with closes."""
    depth = 0
    for word in words:
        depth += (word == "(") - (word == ")")
        if depth == 0:
            return True
    return False


def count_to_assignment(words: Sequence[str]) -> int:
    """How many words there are up to the first assignment, itself included; 0 without one."""
    return next((i + 1 for i, word in enumerate(words) if word in ASSIGNING), 0)


def drop_unfinished(words: Sequence[str]) -> int:
    """How many words stay when operators, empty brackets and commas at the end go."""
    count = len(words)
    while count and (words[count - 1] in UNFINISHED or words[count - 1] in "(["):
        opening = words[count - 1] in "(["
        count -= 1
        if opening and count and NAME.fullmatch(words[count - 1]):
            count -= 1  # the name of a call or an array without its argument
    return count


def close_brackets(words: Sequence[str]) -> str:
    """The closing brackets that the words lack."""
    opened: list[str] = []
    for word in words:
        if word in PAIRS:
            opened.append(PAIRS[word])
        elif opened and word == opened[-1]:
            opened.pop()
    return "".join(reversed(opened))
