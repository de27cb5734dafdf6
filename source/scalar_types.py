"""What the scalar types of kernel parameters are, by their words and by the definitions of a text."""

from __future__ import annotations

import re
from collections.abc import Mapping

from hipsynth.source.outline import blank_opaque

INTEGER = re.compile(
    r"\b(?:int|unsigned|long|short|uint|ushort|ulong|s?size_t|ptrdiff_t|u?int(?:_fast|_least)?(?:8|16|32|64)_t|"
    r"u?int(?:ptr|max)_t)\b"
)
PLAIN_INTEGER = re.compile(rf"(?:(?:{INTEGER.pattern}|\bsigned\b|\bu?char\b|std::)\s*)+")
_PLAIN_NUMBER = re.compile(
    r"(?:long\s+)?double|float|bool|half|__half|_Float16|__fp16|__bf16|hip_bfloat16|__hip_bfloat16|std::float\d+_t"
)
_FILLED_WITH_ZEROS = re.compile(r"(?:u?(?:char|short|int|long|longlong)|float|double)[1-4]|dim3")
_NARROW = re.compile(r"char|8|\bbool\b")
_QUALIFIERS = re.compile(r"\b(?:const|volatile)\b")
_DEFINITION = re.compile(
    r"\btypedef\s+(?P<old>[\w:\s]{1,80}?)\s+(?P<name>\w+)\s*;|\busing\s+(?P<alias>\w+)\s*=(?P<type>[\w:\s]{1,80});"
    r"|^[ \t]*#[ \t]*define[ \t]+(?P<macro>\w+)[ \t]+(?P<text>[A-Za-z_][\w: \t]{0,80}?)[ \t]*\r?$",
    re.MULTILINE,
)
_MOST_DEPTH = 8  # of names that stand for names


def find_type_definitions(text: str) -> dict[str, str]:
    """Name -> type of those that a text defines by a typedef, `using` or a macro without parameters, where a type is
    words alone. Names that stand for names are followed."""
    types = {}
    for match in _DEFINITION.finditer(blank_opaque(text)):
        name = match["name"] or match["alias"] or match["macro"]
        types[name] = write_plain_type(match["old"] or match["type"] or match["text"])
    return {name: _follow_names(definition, types) for name, definition in types.items()}


def _follow_names(name: str, types: Mapping[str, str]) -> str:
    for _ in range(_MOST_DEPTH):
        if name not in types:
            break
        name = types[name]
    return name


def write_plain_type(words: str) -> str:
    """A type without const and volatile, with single blanks."""
    return " ".join(_QUALIFIERS.sub(" ", words).split())


def is_size_type(words: str, types: Mapping[str, str]) -> bool:
    """Whether a type is an integer that may be a size. `types`: of find_type_definitions."""
    if INTEGER.search(words):
        return True
    definition = types.get(write_plain_type(words).rpartition("::")[2], "")
    return bool(INTEGER.search(definition) and PLAIN_INTEGER.fullmatch(definition) and not _NARROW.search(definition))


def describe_guess(words: str, types: Mapping[str, str], value: float) -> str:
    """What a value that nobody chose becomes in a type: `1`, `float4{}`, `1.5 or real_t{}`; "" for floating-point types
    and bool, which any value fits."""
    plain = write_plain_type(words)
    definition = types.get(plain.rpartition("::")[2], plain)
    if _PLAIN_NUMBER.fullmatch(definition):
        return ""
    if PLAIN_INTEGER.fullmatch(definition):
        return str(int(value))
    return f"{plain}{{}}" if _FILLED_WITH_ZEROS.fullmatch(definition) else f"{value:.15g} or {plain}{{}}"
