"""Skeletons of programs: the source without names and numbers, to find near-duplicates.

Two forms, both of the device code alone, so that another way to write the host code makes no new program:
`token_skeleton` is the token stream with numbers and names as numbered places; two programs with the same one are
near-duplicates. `control_skeleton` keeps only statements that are no declarations, and each run of equal ones once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from hipsynth.core.program import text_id
from hipsynth.source.declarations import DEVICE_MARKS

_TOKEN = re.compile(
    r"//[^\n]*|/\*|(?m:^[^\S\n]*\#(?:[^\n]*\\\n)*[^\n]*)|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'"
    r"|(?P<name>[A-Za-z_]\w*)|(?P<number>\.?\d(?:[\w.']|(?<=[eEpP])[+-])*)|[+\-*/%&|^=!<>]=?|\S",
    re.DOTALL,
)
# Names that say what happens; every other name is the author's choice.
_WORDS = frozenset(
    [
        "if",
        "else",
        "for",
        "while",
        "do",
        "switch",
        "case",
        "default",
        "break",
        "continue",
        "return",
        "goto",
        "struct",
        "template",
        "typename",
        "class",
        "using",
        "auto",
        "const",
        "static",
        "constexpr",
        "unsigned",
        "signed",
        "int",
        "long",
        "short",
        "char",
        "bool",
        "float",
        "double",
        "void",
        "half",
        "size_t",
        "sizeof",
        "static_cast",
        "reinterpret_cast",
        "volatile",
        "extern",
    ]
)
_KEPT = re.compile(
    r"__\w+|atomic\w+|hip\w+|(?:thread|block)Idx|(?:block|grid)Dim|u?int\d*(?:_t)?|(?:float|double|half)\d*"
    r"|f?(?:sqrt|exp|log|sin|cos|tan|pow|abs|min|max|fma|floor|ceil|tanh|rsqrt|erf|cbrt|mod)[dfl2]?f?"
)
# A statement that begins with a type and then names something; a function's head is none.
_DECLARES = re.compile(
    r"(?!.*__(?:global|device)__)(?:(?:__shared__|__constant__|extern|static|const|constexpr|volatile|auto|v|unsigned"
    r"|signed|int|long|short|char|bool|float|double|half|size_t|u?int\d*(?:_t)?|(?:float|double|half)\d|__half2?) )+"
    r"(?:< [^>]*> )?(?:(?:[*&]|const|__restrict__) )*v\b(?! \()"
)


def _split_tokens(text: str) -> Iterator[tuple[str, str]]:
    """(kind, token): kind is "name", "number" or ""; without comments, directives and white space."""
    last_close, position = text.rfind("*/"), 0
    while match := _TOKEN.search(text, position):
        token, position = match[0], match.end()
        if token == "/*" and position <= last_close:
            position = text.index("*/", position) + 2
            continue
        if token == "/*":  # a comment that is not closed is none: its words count
            token, position = "/", match.start() + 1
        if not token.startswith("//") and not token.lstrip().startswith("#"):
            yield match.lastgroup or "", token


def _split_parts(text: str) -> Iterator[list[tuple[str, str]]]:
    """The token lists of the declarations at file scope: each ends with its `;` or the `}` of its body."""
    part: list[tuple[str, str]] = []
    depth = 0
    for kind, token in _split_tokens(text):
        part.append((kind, token))
        depth += (token in "{(") - (token in "})")
        if depth <= 0 and token in (";", "}"):
            yield part
            part, depth = [], 0
    if part:
        yield part


def device_code(text: str) -> list[tuple[str, str]]:
    """(kind, token) of kernels, device functions and device variables; of everything if there are none."""
    parts = list(_split_parts(text))
    device = [part for part in parts if any(token in DEVICE_MARKS for _, token in part)]
    return [pair for part in device or parts for pair in part]


def _is_known(token: str) -> bool:
    return token in _WORDS or _KEPT.fullmatch(token) is not None


def token_skeleton(text: str) -> str:
    """The id (16 hex digits) of the device code's token stream: names numbered in order of appearance, numbers as 0."""
    places: dict[str, str] = {}
    shown_tokens = []
    for kind, token in device_code(text):
        if kind == "number":
            token = "0"
        elif kind == "name" and not _is_known(token):
            token = places.setdefault(token, f"v{len(places)}")
        shown_tokens.append(token)
    return text_id(" ".join(shown_tokens))


def control_skeleton(text: str) -> str:
    """The id (16 hex digits) of the device code's statements without declarations, names and numbers; runs of equal
    statements count once."""
    words: list[str] = []
    for statement in _split_statements(text):
        if not _DECLARES.match(statement) and (not words or words[-1] != statement):
            words.append(statement)
    return text_id(";".join(words))


def relatives_key(lineage: str, base_text: str | None) -> str:
    """What programs are split by: the control skeleton of their lineage's base program, so that programs drawn
    independently but alike are relatives, too; the lineage where the base is not at hand."""
    return control_skeleton(base_text) if base_text else lineage


def _split_statements(text: str) -> Iterator[str]:
    """The statements of the device code; a brace and the head of a block are statements of their own."""
    words: list[str] = []
    depth = 0
    for kind, token in device_code(text):
        depth += (token == "(") - (token == ")")
        if depth == 0 and token in ";{}":
            if words:
                yield " ".join(words)
            words = []
            if token != ";":
                yield token
        elif kind == "name":
            words.append(token if _is_known(token) else "v")
        elif kind != "number":
            words.append(token)
    if words:
        yield " ".join(words)
