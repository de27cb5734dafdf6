"""What each file of a program has for itself, and would share with the others in one text of all files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from hipsynth.core.reasons import Reason
from hipsynth.source.encoding import split_pieces
from hipsynth.source.entities import Entity
from hipsynth.source.parse import Diagnostic, ParseConfig, ParsedUnit, Token, parse_source

_MAY_HOLD_STATE = re.compile(rb"\bstatic\b|\bnamespace\s*\{")
_PRAGMA = re.compile(rb'^[ \t]*(?:#[ \t]*pragma[ \t]+|_Pragma[ \t]*\([ \t]*")((?:\\\r?\n|[^\n"])*)[^\n]*', re.M)
_SCOPE = re.compile(rb'(?:\bnamespace\b[^;{}()]*|\bextern\s*"C(?:\+\+)?"\s*)\{$')  # which is no block
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


def find_lasting_pragma(source: bytes) -> str:
    """The pragma by which a file says how what follows it is compiled, to the end of all files in one text; or ""."""
    bare = bytearray(source)
    for kind, start, end in split_pieces(source):
        if kind == "comment":
            bare[start:end] = re.sub(rb"[^\n]", b" ", source[start:end])
    lasting: dict[str, list[str]] = {}  # of each setting, what has been set and not yet taken back
    for match in _PRAGMA.finditer(bare):
        words = match[1].replace(b"\\", b" ").decode(errors="replace").split()
        text = " ".join(words)
        if text.startswith(("clang fp", "STDC", "float_control")):
            before = _PRAGMA.sub(b"", bare[: match.start()]).rstrip()
            if not before.endswith(b"{") or _SCOPE.search(before):  # else it holds to the end of a block
                return text
        elif text.startswith(("pack", "clang optimize")):
            _set_or_reset(lasting.setdefault(words[0].partition("(")[0], []), text)
    return next((settings[-1] for settings in lasting.values() if settings), "")


def _set_or_reset(settings: list[str], text: str) -> None:
    """Notes a pragma, or forgets the ones that it takes back."""
    argument = text.replace(" ", "").partition("(")[2]
    if argument.startswith("pop"):
        del settings[-1:]
    elif argument.startswith(")") or text == "clang optimize on":
        settings.clear()
    else:
        settings.append(text)
