"""Whether values of a type may hold pointers, as a structure with such a member does."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hipsynth.source.tokens import Span, find_closing, find_opening, text_between
from hipsynth.source.type_sizes import type_bytes
from hipsynth.tuning.optimize.analysis.program_model import ParsedProgram

_MOST_DEPTH = 5  # of types in types
_CLASSES = frozenset({"struct", "class", "union"})
_NO_POINTERS = re.compile(  # of libraries, apart from what their arguments are
    r"void|complex|array|pair|tuple|hip\w*Complex|hiprand\w*|rocrand\w*|dim3|__hip_\w+|hip_\w+"
)
_QUALIFIERS = re.compile(
    r"\b(?:const|constexpr|volatile|mutable|static|inline|struct|class|union|typename|public|private|protected|"
    r"__device__|__constant__|__managed__|__host__|alignas\s*\([^()]*\)|__align__\s*\([^()]*\)|std\s*::|thrust\s*::)"
    r"(?:\s*:(?!:))?"
)
_ATTRIBUTES = re.compile(r"__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)")


def may_hold_pointers(program: ParsedProgram, kind: str, depth: int = 0) -> bool:
    """Whether a value of a type may hold a pointer, as far as the program says; types that are not known may."""
    kind = " ".join(_QUALIFIERS.sub(" ", kind).split())
    if re.search(r"[*&(\[]", kind) or depth > _MOST_DEPTH:
        return True
    if type_bytes(kind) is not None or re.search(rf"\benum\s+(?:class\s+)?{re.escape(kind)}\b", program.text):
        return False
    name, _, inside = kind.partition("<")
    arguments = [part for part in inside.rpartition(">")[0].split(",") if inside and not _is_number(program, part)]
    if any(may_hold_pointers(program, part, depth + 1) for part in arguments):
        return True
    name = name.strip()
    if not re.fullmatch(r"\w+", name):
        return True
    if bodies := list(_list_bodies(program, name)):
        return any(_has_pointers(program, body, depth) for body in bodies)
    text = _ATTRIBUTES.sub(" ", program.text)
    alias = re.search(rf"\busing\s+{name}\s*=([^;]+);|\btypedef\s+([^;{{}}]+?)\b{name}\s*;", text)
    if alias is not None:
        return may_hold_pointers(program, alias[1] or alias[2], depth + 1)
    return _NO_POINTERS.fullmatch(name) is None


def list_classes(program: ParsedProgram) -> list[str]:
    """The names of the classes and structures that a program defines, without those whose functions are all the
    host's."""
    tokens = program.tokens
    names = [tokens[i + 1].text for i in range(len(tokens) - 1)
             if tokens[i].text in _CLASSES and tokens[i + 1].identifier]  # fmt: skip
    device = {function.start for function in program.functions}
    functions_by_class = {name: _list_functions(program, name) for name in names}
    return [name for name, functions in functions_by_class.items() if not functions or functions & device]


def is_plain_structure(program: ParsedProgram, kind: str) -> bool:
    """Whether a type is a structure of the program without functions or bases, so that nothing but its users sets its
    members."""
    name = " ".join(_QUALIFIERS.sub(" ", kind).split())
    bodies = list(_list_bodies(program, name))
    is_derived = any(_has_base(program, first) for first, _ in bodies)
    return bool(bodies) and not is_derived and not _list_functions(program, name)


def _list_functions(program: ParsedProgram, name: str) -> set[int]:
    """The offsets of the functions that are defined in a class."""
    tokens = program.tokens
    spans = [(tokens[first - 1].start, tokens[last].end) for first, last in _list_bodies(program, name)]
    return {each.start for each in program.declared for start, end in spans if start <= each.start < end}


def _is_number(program: ParsedProgram, argument: str) -> bool:
    """Whether an argument of a template is a number, or a constant of the program."""
    word = argument.strip()
    return word.isdecimal() or bool(re.search(rf"\bconstexpr\b[^;=]*\b{re.escape(word)}\s*=", program.text))


def _list_bodies(program: ParsedProgram, name: str) -> Iterator[Span]:
    """The tokens between the braces of the definitions of a class, also of `typedef struct {...} name;`."""
    tokens = program.tokens
    for i in range(1, len(tokens)):
        if tokens[i].text != name:
            continue
        if tokens[i - 1].text == "}" and tokens[i + 1].text == ";":
            yield find_opening(tokens, i - 1) + 1, i - 1
        if _CLASSES & {tokens[i - 1].text, *_words_before(program, i)}:
            opening = next((k for k in range(i + 1, len(tokens)) if tokens[k].text in ("{", ";", "(", ")", ">")), i)
            if tokens[opening].text == "{":
                yield opening + 1, find_closing(tokens, opening)


def _words_before(program: ParsedProgram, at: int) -> Iterator[str]:
    """The words before attributes such as `alignas(16)` in front of a name."""
    tokens = program.tokens
    if tokens[at - 1].text == ")":
        opening = find_opening(tokens, at - 1)
        yield from (token.text for token in tokens[max(0, opening - 4) : opening])


def _has_base(program: ParsedProgram, first: int) -> bool:
    """Whether a class whose members begin at a token is derived from another one."""
    at = first - 1
    while at and program.tokens[at].text not in _CLASSES | {";", "}"}:
        at -= 1
    return ":" in {token.text for token in program.tokens[at : first - 1]}


def _has_pointers(program: ParsedProgram, body: Span, depth: int) -> bool:
    """Whether a class has a member that may hold a pointer, or bases, which may have one."""
    return _has_base(program, body[0]) or any(
        _is_pointer_member(program, i, depth)
        for i in range(*body)
        for entity in program.entities(program.tokens[i])
        if entity.category == "field" and entity.place == ("", program.tokens[i].start)
    )


def _is_pointer_member(program: ParsedProgram, at: int, depth: int) -> bool:
    """Whether a member that is declared at a token may hold a pointer."""
    tokens = program.tokens
    if {entity.shape for entity in program.entities(tokens[at])} <= {"integer", "real"}:
        return False
    first = at
    while tokens[first - 1].text not in (";", "{", "}"):
        first -= 1
    words = [tokens[i].text for i in range(first, at)]
    end = words.index(",") - 1 if "," in words and "<" not in words else at - first
    if end == 1 and any(entity.category == "type parameter" for entity in program.entities(tokens[first])):
        return "*" in words  # what the template is given for it is looked at, too
    kind = text_between(program.unit, tokens, first, first + end)
    return bool({"*", "&"} & set(words)) or may_hold_pointers(program, kind.partition("[")[0], depth + 1)
