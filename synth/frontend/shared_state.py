"""What each file of a program has for itself, and would share with the others in one text of all files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from hipsynth.core.reasons import Reason
from hipsynth.source.entities import Entity
from hipsynth.source.parse import Diagnostic, ParseConfig, ParsedUnit, Token, parse_source

_MAY_HOLD_STATE = re.compile(rb"\bstatic\b|\bnamespace\s*\{")
_ARGUMENTS = re.compile(r"<[^<>]*>")


def find_shared_variable(text: bytes, headers: Iterable[bytes], config: ParseConfig) -> Diagnostic | None:
    """A variable in the text of all files of which each file has its own, because it is one of `headers`, the texts of
    those that are read once here, though several files include them."""
    lines = {line.strip() for header in headers if _MAY_HOLD_STATE.search(header) for line in header.splitlines()}
    unit = parse_source(text, config)[0] if lines else None
    if unit is None:
        return None
    numbers = {token.start: number for number, token in enumerate(unit.tokens)}
    variables = {e for es in unit.referents for e in es if e.user and e.category == "variable" and not e.external}
    for variable in sorted(variables, key=lambda e: e.place[1]):
        at = variable.place[1]
        line = text[text.rfind(b"\n", 0, at) + 1 :].partition(b"\n")[0].strip()
        if line in lines and at in numbers and _holds_state(unit, numbers[at], variable):
            problem = f"{variable.name}: a header declares it, and each file that includes that has its own"
            return Diagnostic(Reason.NAME_COLLISION, problem)
    return None


def _holds_state(unit: ParsedUnit, number: int, variable: Entity) -> bool:
    """Whether a variable without external linkage, declared at a token, can change, and lives as long as its file."""
    words = _words_before(unit.tokens, number)
    if "constexpr" in words or "const" in _ARGUMENTS.sub("", " ".join(words)).rpartition("*")[2].split():
        return False
    if not variable.local:
        return not (variable.member or variable.shared)
    return "static" in words and not variable.shared and _is_in_own_function(unit, variable.place[1])


def _words_before(tokens: Sequence[Token], number: int) -> list[str]:
    """The tokens of a declaration in front of the name."""
    start = number
    while start > 0 and tokens[start - 1].text not in (";", "{", "}"):
        start -= 1
    return [token.text for token in tokens[start:number]]


def _is_in_own_function(unit: ParsedUnit, offset: int) -> bool:
    """Whether a place is in a function that is static or in an unnamed namespace: each file has its own."""
    start = min((first for first, last in unit.functions if first <= offset < last), default=offset)
    for token, entities in zip(unit.tokens, unit.referents, strict=True):
        if token.start >= start and token.text == "{":
            return False
        if token.start >= start and any(e.user and e.category == "function" and not e.external for e in entities):
            return True
    return False
