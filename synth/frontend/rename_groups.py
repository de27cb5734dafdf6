"""Decides which names of a file may be renamed, and which occurrences must be renamed together.

Each spelling is classified as a whole. Occurrences that resolve to the file's own declarations may change, those that
resolve to a library's must not; unresolved ones (members of template arguments, bodies of unused macros) may change
only if no occurrence of the spelling is a library's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from hipsynth.source.clang import TOKEN_LITERAL
from hipsynth.source.coordinates import COORDINATES
from hipsynth.source.cursor_kinds import Kind
from hipsynth.source.declarations import DEVICE_CODE
from hipsynth.source.entities import Entity
from hipsynth.source.macros import (
    Directive,
    Macro,
    argument_ranges,
    find_directives,
    find_macro_calls,
    pasted_words,
    read_macros,
)
from hipsynth.source.parse import ParsedUnit, Token
from hipsynth.synth.frontend.plausible_names import RESERVED, word_list

_DIRECTIVE_WORDS = {"defined", "__has_include", "__VA_ARGS__", "__VA_OPT__"}
_PRAGMA_WORDS = {"once", "unroll", "nounroll", "clang", "loop", "GCC", "omp", "pragma", "push", "pop", "pack"} | {
    "unroll_count", "vectorize", "enable", "disable", "diagnostic", "ignored", "optimize", "parallel", "simd",
}  # fmt: skip
_NAMES_FUNCTION = {"__func__", "__FUNCTION__", "__builtin_FUNCTION"}
_NAMES_SIGNATURE = {"__PRETTY_FUNCTION__", "__builtin_FUNCSIG", "source_location"}
_WORD = re.compile(r"[A-Za-z_]\w*")
_TAKES_SYMBOL = {"asm", "alias", "weakref", "ifunc"}  # between __ or not
_FINDS_BY_STRING = re.compile(rb"hipModuleGet(?:Function|Global|TexRef)|hipGetSymbol|dlsym|hiprtc")
# Members that library templates look up in a user's class, and whose absence changes behaviour without an error.
_PROTOCOL = frozenset(
    word_list("""
    begin end cbegin cend rbegin rend iterator const_iterator iterator_category iterator_concept value_type pointer
    reference difference_type size_type const_reference element_type result_type argument_type first_argument_type
    second_argument_type is_transparent key_type mapped_type allocator_type rebind allocate deallocate construct
    destroy swap get tuple_size hash promise_type
    """)
)
_GENERIC_LIBRARIES = {"std", "thrust", "hipcub", "rocprim", "cub"}
_DETECTION = {"decltype", "requires", "enable_if", "enable_if_t", "void_t", "declval", "is_invocable"}

# Why a name is kept, for the user.
REASONS = {
    "defined_elsewhere": "another file or a library defines it",
    "reserved": "the language or the headers give it a meaning",
    "library_overload": "the same name also means a library's entity, by overloading or argument-dependent lookup",
    "inactive_branch": "a branch that is not compiled uses the name, perhaps for a library's entity",
    "tested_by_header": "a header included later may test the macro",
    "macro_text": "a macro makes text or another name of it",
    "made_by_macro": "it is not spelled in the file",
    "printed": "the program can print it: __func__, typeid, an assertion in device code",
    "looked_up": "a string spells it where names are looked up: at run time, in assembly, by an alias",
    "assembly": "it names an operand of inline assembly",
    "pragma": "a pragma spells it, perhaps as a keyword",
    "protocol": "library templates look for a member of this name",
    "lds_order": "the order of such names decides the layout of LDS, and one of them is kept",
    "usual": "argc, argv, or a name of one or two letters, which such a variable has in most programs",
    "unsafe": "with another name, something would no longer mean the same",
}

_AFTER_DECLARED = {"=", ";", ",", ")", "(", "[", "{", ":"}
_CALLED = {"function", "method", "macro", "type"}
_NO_TYPE = {"return", "else", "case", "goto", "throw", "new", "delete", "sizeof", "do", "namespace", "and", "or"} | {
    "co_return", "define", "ifdef", "ifndef", "if", "elif", "undef", "defined", "operator", "include", "pragma", "not",
}  # fmt: skip


@dataclass
class Spelling:
    """All occurrences of one spelling, as token numbers."""

    text: str
    user: dict[int, frozenset[Entity]] = field(default_factory=dict)
    system: list[int] = field(default_factory=list)
    unresolved: list[int] = field(default_factory=list)
    in_macro: bool = False  # some occurrence is in a macro's body
    joined: bool = False  # all occurrences must get the same new name


@dataclass
class SpellingTable:
    """The renaming facts of a unit: its spellings, and which spellings and entities must keep their names."""

    unit: ParsedUnit
    lines: list[Directive]
    macros: list[Macro]
    spellings: dict[str, Spelling]
    macro_params: list[tuple[Macro, int, list[int]]]  # macro, parameter number, token numbers
    kept_spellings: dict[str, str] = field(default_factory=dict)  # each with the reason, one of REASONS
    kept_entities: dict[Entity, str] = field(default_factory=dict)
    inactive: dict[str, list[int]] = field(default_factory=dict)  # names declared in skipped branches only

    def keep(self, names: Iterable[str], reason: str) -> None:
        """Keeps spellings; the first reason counts."""
        for name in names:
            self.kept_spellings.setdefault(name, reason)

    def kept_names(self) -> dict[str, str]:
        """The file's own names that keep their spelling in some place, each with the reason."""
        kept_texts = {
            text for text, entry in self.spellings.items() if entry.user and not text.startswith("__builtin_")
        }
        entities = {e.name: reason for e, reason in self.kept_entities.items() if e.name in kept_texts}
        spellings = {
            name: reason for name, reason in self.kept_spellings.items() if name in kept_texts and name != "main"
        }
        return entities | spellings


def collect_spellings(unit: ParsedUnit) -> SpellingTable:
    """Classifies every identifier of a unit and marks the names that must be kept."""
    lines = find_directives(unit.tokens, unit.text)
    macros = read_macros(unit.tokens, lines)
    params = list(_param_tokens(unit, macros))
    result = SpellingTable(unit, lines, macros, {}, params)
    _sort_tokens(result)
    user_entities = {e for s in result.spellings.values() for es in s.user.values() for e in es}
    _keep_unspelled(result, user_entities)
    for rule in _RULES:
        rule(result, user_entities)
    result.inactive = dict(_inactive_names(result))
    return result


def _param_tokens(unit: ParsedUnit, macros: Iterable[Macro]) -> Iterator[tuple[Macro, int, list[int]]]:
    for macro in macros:
        for number, name in enumerate(macro.params):
            if name in ("...", "__VA_ARGS__"):
                continue
            definition = range(macro.name_index + 1, macro.body.stop)
            yield macro, number, [i for i in definition if unit.tokens[i].text == name]


# --- classification of tokens ---------------------------------------------------------------------------------------


def _sort_tokens(s: SpellingTable) -> None:
    unit = s.unit
    params = {i for _, _, occurrences in s.macro_params for i in occurrences}
    ignored = _ignored_tokens(s)
    bodies = {i for m in s.macros for i in m.body}
    macro_names = {m.name for m in s.macros}
    conditions = {i for d in s.lines if d.word not in ("define", "include", "pragma") for i in range(d.start, d.end)}
    for i, token in enumerate(unit.tokens):
        if not token.identifier or i in params or i in ignored:
            continue
        entry = s.spellings.setdefault(token.text, Spelling(token.text))
        entities = unit.referents[i]
        if i in conditions:
            if token.text in macro_names:
                entry.unresolved.append(i)
                entry.in_macro = True
            continue
        entry.in_macro |= i in bodies
        user = frozenset(e for e in entities if e.user)
        if user:
            entry.user[i] = user
        if len(user) < len(entities) or (not entities and _is_coordinate(unit, i)):
            entry.system.append(i)
        elif not entities:
            entry.unresolved.append(i)
    for entry in s.spellings.values():
        _sort_members(unit, entry)
        _sort_qualified(unit, entry)
        several = any(len(es) > 1 for es in entry.user.values())
        is_macro = entry.text in macro_names
        entry.joined = several or entry.in_macro or is_macro or bool(entry.unresolved)


def _sort_members(unit: ParsedUnit, entry: Spelling) -> None:
    """Marks unresolved member accesses as the library's if no class of the file has a member of that name."""
    if any(e.member for es in entry.user.values() for e in es):
        return
    members = [i for i in entry.unresolved if i > 0 and unit.tokens[i - 1].text in (".", "->")]
    outside = {i for i in members if not entry.in_macro}
    entry.unresolved = [i for i in entry.unresolved if i not in outside]
    entry.system = sorted([*entry.system, *outside])


def _sort_qualified(unit: ParsedUnit, entry: Spelling) -> None:
    """Marks unresolved names in a library's scope as the library's: `value` in std::is_integral<T>::value."""
    outside = {i for i in entry.unresolved if _in_library_scope(unit, i)}
    entry.unresolved = [i for i in entry.unresolved if i not in outside]
    entry.system = sorted([*entry.system, *outside])


def _in_library_scope(unit: ParsedUnit, i: int) -> bool:
    at = i
    while at >= 2 and unit.tokens[at - 1].text == "::":
        at -= 2
        if unit.tokens[at].text in (">", ">>"):
            at = _opening_bracket(unit, at) - 1
    entities = unit.referents[at] if 0 <= at < i else frozenset()
    return bool(entities) and not any(e.user for e in entities)


def _opening_bracket(unit: ParsedUnit, closing: int) -> int:
    """The token < that the > or >> at `closing` ends; -1 if a statement ends before."""
    depth = 0
    for at in range(closing, -1, -1):
        text = unit.tokens[at].text
        depth += {">": 1, ">>": 2, "<": -1}.get(text, 0)
        if depth == 0:
            return at
        if text in (";", "{", "}"):
            break
    return -1


def _is_coordinate(unit: ParsedUnit, i: int) -> bool:
    return i >= 2 and unit.tokens[i - 1].text == "." and unit.tokens[i - 2].text in COORDINATES


def _ignored_tokens(s: SpellingTable) -> set[int]:
    """Tokens that are not names of the program: directive names, header names, pragma words, attributes."""
    tokens = s.unit.tokens
    ignored: set[int] = set()
    for line in s.lines:
        if line.word == "include":
            ignored.update(range(line.start, line.end))
        elif line.word == "pragma":
            ignored.update(i for i in range(line.start, line.end) if tokens[i].text in _PRAGMA_WORDS)
        ignored.add(line.start + 1)
    ignored.update(i for i, t in enumerate(tokens) if t.text in _DIRECTIVE_WORDS)
    for i, token in enumerate(tokens):
        if token.text == "__attribute__" and i + 1 < len(tokens):
            for argument in argument_ranges(tokens, i + 2, len(tokens)) or []:
                ignored.update(list(argument)[:1])
        elif token.text == "[" and i + 1 < len(tokens) and tokens[i + 1].text == "[":
            ignored.update(_standard_attribute(s, i + 2))
    return ignored


def _standard_attribute(s: SpellingTable, i: int) -> Iterator[int]:
    """Tokens between [[ and ]], except those inside an attribute's parentheses."""
    depth, tokens = 0, s.unit.tokens
    while i < len(tokens) and not (depth == 0 and tokens[i].text == "]"):
        depth += {"(": 1, ")": -1}.get(tokens[i].text, 0)
        if depth == 0:
            yield i
        i += 1


def _inactive_names(s: SpellingTable) -> Iterator[tuple[str, list[int]]]:
    """Names that occur only in branches that are not compiled, and seem to be declared there: as in `int name =`."""
    for entry in s.spellings.values():
        unresolved = entry.unresolved
        if entry.user or entry.system or entry.in_macro or not unresolved or not s.unit.skipped.issuperset(unresolved):
            continue
        is_kept = entry.text in s.unit.header_words or entry.text in RESERVED or entry.text in s.kept_spellings
        if not is_kept and any(_seems_declared(s.unit, i) for i in unresolved):
            yield entry.text, unresolved


def _seems_declared(unit: ParsedUnit, i: int) -> bool:
    """Whether token i follows a type (an identifier or keyword, perhaps with * & or > after it) in a declaration."""
    if i < 1 or i + 1 >= len(unit.tokens) or unit.tokens[i + 1].text not in _AFTER_DECLARED:
        return False
    before = i - 1
    while before > 0 and unit.tokens[before].text in ("*", "&", ">", "__restrict__", "const"):
        before -= 1
    word = unit.tokens[before].text
    return (word.isidentifier() or word in "<*") and word not in _NO_TYPE


# --- names that must be kept: each rule adds to kept_spellings or kept_entities --------------------------------------


def _keep_unspelled(s: SpellingTable, user_entities: set[Entity]) -> None:
    """Names that do not occur in the file's text: made by ## or declared by a library's macro."""
    by_start = {t.start: t.text for t in s.unit.tokens}
    for entity in user_entities:
        if by_start.get(entity.place[1]) != entity.name:
            s.keep([entity.name], "made_by_macro")


def _keep_contracts(s: SpellingTable, user_entities: set[Entity]) -> None:
    """Pinned entities, `main`, and reserved names."""
    s.keep(RESERVED, "reserved")
    s.keep(("argc", "argv"), "usual")
    s.keep((e.name for e in user_entities if e.pinned), "defined_elsewhere")


def _keep_ambiguous(s: SpellingTable, user_entities: set[Entity]) -> None:
    """Spellings whose own and library occurrences cannot be told apart."""
    for entry in s.spellings.values():
        if not entry.user:
            continue
        both = entry.user.keys() & set(entry.system)
        if _may_call_library(s, entry):
            s.keep([entry.text], "inactive_branch")
        elif both or (entry.system and entry.unresolved) or _may_be_detected(s, entry):
            skipped = not both and entry.unresolved and s.unit.skipped.issuperset(entry.unresolved)
            s.keep([entry.text], "inactive_branch" if skipped else "library_overload")


def _may_call_library(s: SpellingTable, entry: Spelling) -> bool:
    """Whether a branch that is not compiled calls a library's function of this name, where none is the program's."""
    is_called = any(entity.category in _CALLED for entities in entry.user.values() for entity in entities)
    if is_called or entry.text not in s.unit.header_words:
        return False
    return any(i in s.unit.skipped and s.unit.tokens[i + 1].text in ("(", "<") for i in entry.unresolved)


def _may_be_detected(s: SpellingTable, entry: Spelling) -> bool:
    """Whether a template may test for a library member of this name (SFINAE), so that its absence gives no error."""
    if entry.text not in s.unit.header_words or all(e.local for es in entry.user.values() for e in es):
        return False
    return any(_DETECTION & set(_surrounding_statement(s.unit, i)) for i in entry.unresolved)


def _surrounding_statement(unit: ParsedUnit, i: int) -> Iterator[str]:
    """The token texts around token i, up to the next ; { or } on both sides."""
    for step in (-1, 1):
        j = i
        while 0 <= j < len(unit.tokens) and unit.tokens[j].text not in (";", "{", "}"):
            yield unit.tokens[j].text
            j += step


def _keep_configuration(s: SpellingTable, user_entities: set[Entity]) -> None:
    """Macros that headers included later may test."""
    last = max((d.start for d in s.lines if d.word == "include"), default=-1)
    for macro in s.macros:
        if macro.name_index < last and macro.name in s.unit.header_words:
            s.keep([macro.name], "tested_by_header")
    defined = {m.name for m in s.macros}
    for entity in user_entities:
        if entity.category == "macro" and entity.name not in defined:
            s.keep([entity.name], "made_by_macro")


def _keep_shown(s: SpellingTable, user_entities: set[Entity]) -> None:
    """Macro arguments that # turns into a string or ## pastes, except # in error checks of HIP or CUDA calls, which
    print them only on failure."""
    tokens = s.unit.tokens
    s.keep(pasted_words(tokens, s.macros), "macro_text")
    names = {m.name for m in s.macros}
    for macro, args in find_macro_calls(tokens, s.macros, range(len(tokens))):
        for number, arg in enumerate(args):
            number = min(number, len(macro.params) - 1)
            checked = any(tokens[i].text.startswith(("hip", "cuda")) for i in arg)
            if number in macro.pasted or (number in macro.shown and not checked):
                expanded = number not in macro.pasted and number not in macro.direct
                _keep_tokens(s, [i for i in arg if not (expanded and tokens[i].text in names)], "macro_text")


def _keep_tokens(s: SpellingTable, indices: Iterable[int], reason: str) -> None:
    for i in indices:
        token = s.unit.tokens[i]
        entry = s.spellings.get(token.text)
        if not token.identifier or entry is None:
            continue
        if entry.joined or i not in entry.user:
            s.keep([token.text], reason)
        else:
            s.kept_entities |= dict.fromkeys(entry.user[i], reason)


def _keep_revealed(s: SpellingTable, user_entities: set[Entity]) -> None:
    """Names that the program can print through __func__, __PRETTY_FUNCTION__, typeid, or assertions in device code."""
    tokens = s.unit.tokens
    revealing = _revealing_macros(s)
    signatures = False
    for i, token in enumerate(tokens):
        shows = revealing.get(token.text, set()) | {token.text}
        if token.text == "assert":
            signatures |= _keep_assertion(s, i)
        elif shows & (_NAMES_SIGNATURE | _NAMES_FUNCTION):
            _keep_function(s, token.start)
            if _is_in_head(s, i):  # as a default argument it names the caller
                s.keep((e.name for e in user_entities if e.category in ("function", "method")), "printed")
            signatures |= bool(shows & _NAMES_SIGNATURE)
        elif token.text == "typeid":
            signatures = True
    if signatures:
        kinds = {"type", "namespace", "type parameter", "value parameter", "constant", "function", "method"}
        printed = (e for e in user_entities if e.category in kinds or (e.category == "variable" and not e.local))
        s.keep((e.name for e in printed), "printed")  # all but locals can be template arguments


def _revealing_macros(s: SpellingTable) -> dict[str, set[str]]:
    """Macro -> the identifiers such as __func__ in its body or, through macros it uses, in theirs."""
    tokens = s.unit.tokens
    shows = {m.name: {tokens[i].text for i in m.body} for m in s.macros}
    for _ in shows:
        for body in shows.values():
            body |= {w for inner in body & shows.keys() for w in shows[inner]}
    return {name: body & (_NAMES_FUNCTION | _NAMES_SIGNATURE) for name, body in shows.items()}


def _enclosing_functions(s: SpellingTable, offset: int) -> list[tuple[int, int]]:
    return [(a, b) for a, b in s.unit.functions if a <= offset < b]


def _is_in_head(s: SpellingTable, i: int) -> bool:
    """Whether a token is in no function's body: in a declaration, or before a function's first brace."""
    offset = s.unit.tokens[i].start
    start = max((first for first, _ in _enclosing_functions(s, offset)), default=offset)
    return not any(token.text == "{" for token in s.unit.tokens[:i] if token.start >= start)


def _keep_function(s: SpellingTable, offset: int) -> None:
    """Keeps the names of the functions whose range contains the offset."""
    around = _enclosing_functions(s, offset)
    for entry in s.spellings.values():
        for i, entities in entry.user.items():
            start = s.unit.tokens[i].start
            if any(e.category in ("function", "method") for e in entities) and any(a <= start < b for a, b in around):
                s.keep([entry.text], "printed")


def _keep_assertion(s: SpellingTable, i: int) -> bool:
    """Keeps the names in an assertion of device code, whose text is data in the code object; returns whether it did.

    A host assertion prints its text only when the program fails.
    """
    tokens = s.unit.tokens
    around = _enclosing_functions(s, tokens[i].start)
    start = min((a for a, _ in around), default=0)
    head = s.unit.text[max(0, start - 200) : tokens[i].start]
    if not around or not DEVICE_CODE.search(head):
        return False
    for argument in argument_ranges(tokens, i + 1, len(tokens)) or []:
        _keep_tokens(s, argument, "printed")
    _keep_function(s, tokens[i].start)
    return True


def _keep_strings(s: SpellingTable, user_entities: set[Entity]) -> None:
    """Names that strings spell where the program, the compiler or the assembler looks them up, and operands of inline
    assembly."""
    tokens = s.unit.tokens
    texts = [t.text for t in tokens if t.kind == TOKEN_LITERAL and '"' in t.text]
    if _FINDS_BY_STRING.search(s.unit.text):
        s.keep((w for text in texts for w in _WORD.findall(text)), "looked_up")
    else:
        texts = list(_symbol_texts(tokens))
    words = {word for text in texts for word in _WORD.findall(text)}
    mangled = " ".join(word for word in words if word.startswith("_Z"))
    for entity in user_entities:
        is_symbol = entity.category in ("function", "variable") and entity.name in words
        if not entity.local and (is_symbol or f"{len(entity.name)}{entity.name}" in mangled):
            s.keep([entity.name], "looked_up")
    for token, kind in zip(tokens, s.unit.cursor_kinds, strict=True):
        if kind == Kind.ASM_STMT.value and token.kind == TOKEN_LITERAL:
            s.keep(re.findall(r"%\w?\[([A-Za-z_]\w*)\]", token.text), "assembly")


def _symbol_texts(tokens: Sequence[Token]) -> Iterator[str]:
    """The literals of assembly, and those of attributes that name a symbol."""
    for i, token in enumerate(tokens):
        if token.text.strip("_") in _TAKES_SYMBOL:
            opening = next((j for j in range(i + 1, min(i + 4, len(tokens))) if tokens[j].text == "("), len(tokens))
            for argument in argument_ranges(tokens, opening, len(tokens)) or []:
                yield from (tokens[j].text for j in argument if tokens[j].kind == TOKEN_LITERAL)


def _keep_pragmas(s: SpellingTable, user_entities: set[Entity]) -> None:
    """Words of pragmas, where keywords and names look alike: `reduction(+ : reduction)`. Those that unroll take names
    of values only."""
    for line in s.lines:
        tokens = s.unit.tokens[line.start + 2 : line.end] if line.word == "pragma" else ()
        words = {token.text for token in tokens if token.identifier}
        if not any(word.startswith("unroll") for word in words):
            s.keep(words if "omp" in words else words - _PRAGMA_WORDS, "pragma")


def _keep_protocols(s: SpellingTable, user_entities: set[Entity]) -> None:
    """Members that library templates or a range-based for look up by name."""
    generic = any(t.text in _GENERIC_LIBRARIES for t in s.unit.tokens)
    ranged = Kind.CXX_FOR_RANGE_STMT.value in s.unit.cursor_kinds
    for entity in user_entities:
        if entity.local or entity.category == "macro":
            continue
        if entity.name in _PROTOCOL and (generic or (ranged and entity.name in ("begin", "end"))):
            s.keep([entity.name], "protocol")


_RULES = (
    _keep_contracts,
    _keep_ambiguous,
    _keep_configuration,
    _keep_shown,
    _keep_revealed,
    _keep_strings,
    _keep_pragmas,
    _keep_protocols,
)
