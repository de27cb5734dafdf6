"""Names in a body whose variables may be changed under another name: a reference is bound to them, or a function takes
one."""

from __future__ import annotations

from collections.abc import Iterator, Set

from hipsynth.source.declarations import FunctionDeclaration
from hipsynth.source.tokens import CLOSING, OPENING, Span, find_closing, split_at
from hipsynth.tuning.optimize.analysis.program_model import ParsedProgram

_REFERENCES = frozenset({"&", "&&"})
_EXCHANGE = frozenset({"swap", "exchange", "iter_swap"})
_HEADS = frozenset({"if", "while", "for", "switch", "constexpr"})
_STEPS = frozenset({"++", "--"})
_CHANGES = _STEPS | {"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="}
_ENDS = frozenset({",", ";", *CLOSING})


def find_lent(program: ParsedProgram, span: Span, places: Set[int]) -> frozenset[int]:
    """The tokens of a body that name what may be changed elsewhere; `places`: offsets of the declarations of its
    variables."""
    methods = {function.name for function in program.declared if _changes_object(program, function)}
    lent = set[int]()
    for i in range(*span):
        parts = [*_list_bound(program, i, span, places), *_list_passed(program, i, span, places)]
        lent.update(at for part in parts for at in _list_named(program, part))
        lent.update(at for part in _list_grouped(program, i, span[1]) for at in _list_named(program, part))
        if program.tokens[i].identifier and _takes_object(program, i, span[1], methods):
            lent.add(i)
    return frozenset(lent)


def _list_named(program: ParsedProgram, span: Span) -> Iterator[int]:
    """The names in an expression outside of subscripts."""
    at = span[0]
    while at < span[1]:
        if program.tokens[at].identifier:
            yield at
        at = _skip_bracket(program, at) if program.tokens[at].text == "[" else at + 1


def _list_grouped(program: ParsedProgram, opening: int, last: int) -> Iterator[Span]:
    """What brackets enclose that is assigned as a whole: `(name) = value`, `(a ? b : c) += value`; not `*(name + i)`,
    which assigns an element, nor the head of a statement."""
    tokens = program.tokens
    before = tokens[opening - 1].text
    if tokens[opening].text != "(" or before == "*" or before in _HEADS or tokens[opening + 1].text == "*":
        return
    end = _skip_bracket(program, opening)
    inside = opening + 1, end - 1
    while end < last and tokens[end].text in (".", "["):
        end = _skip_bracket(program, end) if tokens[end].text == "[" else end + 2
    if before in _STEPS or (end < last and tokens[end].text in _CHANGES):
        yield inside


def _list_bound(program: ParsedProgram, at: int, span: Span, places: Set[int]) -> Iterator[Span]:
    """What a reference that is declared at a token is bound to: `T& name = value`, `auto& [a, b] = value`."""
    tokens = program.tokens
    if tokens[at].text not in _REFERENCES:
        return
    is_list = tokens[at + 1].text == "["
    equals = find_closing(tokens, at + 1) + 1 if is_list else at + 2
    if not is_list and tokens[at + 1].start not in places:
        return
    first = at
    while first > span[0] and tokens[first - 1].text not in (";", "{", "}"):
        first -= 1
    if "const" in {token.text for token in tokens[first:at]}:
        return
    if tokens[equals].text in ("=", ":"):
        yield equals + 1, _find_end(program, equals + 1, span[1])
    elif tokens[equals].text in ("(", "{"):
        yield equals + 1, find_closing(tokens, equals)


def _find_end(program: ParsedProgram, start: int, last: int) -> int:
    """The token that ends an expression: a comma, a semicolon or a bracket."""
    tokens, at = program.tokens, start
    while at < last and tokens[at].text not in _ENDS:
        at = _skip_bracket(program, at) if tokens[at].text in OPENING else at + 1
    return at


def _skip_bracket(program: ParsedProgram, at: int) -> int:
    """The token behind what a bracket encloses."""
    return max(at, find_closing(program.tokens, at)) + 1


def _list_passed(program: ParsedProgram, at: int, span: Span, places: Set[int]) -> Iterator[Span]:
    """The arguments of a call that begins at a token which what it calls may take as references."""
    tokens = program.tokens
    opening = _find_opening(program, at, span[1]) if tokens[at].identifier else -1
    if opening < 0:
        return
    arguments = split_at(tokens, opening + 1, find_closing(tokens, opening), ",")
    named = {entity.place[1] for entity in program.entities(tokens[at]) if entity.category == "variable"} & places
    if tokens[at].text in _EXCHANGE or (named and _takes_references(program, at, named.pop())):
        yield from arguments
    called = tokens[at - 1].text if named else tokens[at].text  # a declared variable is built
    for function in program.declared:
        if function.name == called:
            for parameter, argument in zip(function.parameters, arguments, strict=False):
                if _is_reference(parameter.text):
                    yield argument


def _is_reference(parameter: str) -> bool:
    return "&" in parameter and "const" not in parameter.split()


def _takes_references(program: ParsedProgram, at: int, place: int) -> bool:
    """Whether a local variable that is called or built at a token may take references: a lambda says so, other objects
    that are called may, and those of templates."""
    tokens = program.tokens
    if tokens[at].start == place:
        return tokens[at - 1].text == ">"
    declared = next(i for i, token in enumerate(tokens) if token.start == place)
    if tokens[declared + 1].text != "=" or tokens[declared + 2].text != "[":
        return True
    opening = find_closing(tokens, declared + 2) + 1
    taken = split_at(tokens, opening + 1, find_closing(tokens, opening), ",") if tokens[opening].text == "(" else []
    return any(_is_reference(" ".join(token.text for token in tokens[slice(*part)])) for part in taken)


def _find_opening(program: ParsedProgram, at: int, last: int) -> int:
    """The bracket of the arguments of what a token calls, also behind arguments of a template; -1 for no call."""
    tokens, opening = program.tokens, at + 1
    if tokens[opening].text == "<":
        words = [token.text for token in tokens[opening:last]]
        closing = next((k for k, word in enumerate(words) if word in (">", ">>", ";")), 0)
        opening += closing + 1
    return opening if opening < last and tokens[opening].text in ("(", "{") else -1


def _takes_object(program: ParsedProgram, at: int, last: int, methods: Set[str]) -> bool:
    """Whether a method that may change its object is called for `name`, `name.member` or `name[...]`."""
    tokens, end = program.tokens, at + 1
    while end < last and tokens[end].text in (".", "["):
        if tokens[end].text == "." and tokens[end + 2].text in ("(", "<"):
            return tokens[end + 1].text in methods
        end = _skip_bracket(program, end) if tokens[end].text == "[" else end + 2
    return end < last and end > at + 1 and tokens[end].text == "("


def _changes_object(program: ParsedProgram, function: FunctionDeclaration) -> bool:
    """Whether a function would change its object if it is a method: it is not declared `const`."""
    close = find_closing(program.tokens, function.named + 1)
    return "const" not in {token.text for token in program.tokens[close + 1 : function.first]}
