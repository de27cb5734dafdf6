"""Which names the files of a program declare and use, and whether each still means the same in one text of all files.

A function that one file has for itself is visible to the files behind it in that text, where a call may prefer it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from hipsynth.source.entities import Entity
from hipsynth.source.macros import find_directives
from hipsynth.source.parse import ParsedUnit
from hipsynth.synth.frontend.inlined_text import Chain, InlinedText

_SCOPED = re.compile(rb"enum\s+(?:class|struct)\b")
_SCOPELESS = {"namespace", "macro", "field", "method"}
_TYPE_KEYWORDS = ("struct", "class", "union")


@dataclass(frozen=True)
class ProgramUnit:
    """A translation unit: its file alone, and the text of that with its headers inlined."""

    path: Path
    alone: ParsedUnit
    inlined: InlinedText
    full: ParsedUnit

    @property
    def files(self) -> frozenset[str]:
        """The unit's file and its headers."""
        return frozenset(piece.place.file for piece in self.inlined.pieces)

    def file_of(self, entity: Entity) -> str:
        """The file of the program that declares an entity of the text; "" for a library's."""
        return self.inlined.find_place(entity.place[1]).file if entity.user else ""


@dataclass(frozen=True)
class ClaimedNames:
    """The names that a unit shares with others or takes from elsewhere: of each that it declares, the files with such
    a declaration; and those of a library or of unknown meaning that it uses."""

    declared: dict[str, frozenset[str]]
    used: frozenset[str]


def list_entities(unit: ParsedUnit) -> set[Entity]:
    """What a file declares and other files may see."""
    entities = {e for es in unit.referents for e in es if e.user}
    return {
        e
        for e in entities
        if not (e.local or e.category == "namespace" or (e.member and not _is_enumerator(e, unit.text)))
    }


def _is_enumerator(entity: Entity, text: bytes) -> bool:
    """Whether an entity is a constant of an enumeration that has no scope of its own."""
    return entity.category == "constant" and not _SCOPED.match(text, text.rfind(b"enum", 0, entity.place[1]))


def find_claims(unit: ProgramUnit) -> ClaimedNames:
    """The names of a unit that must not be those of entities which another file has for itself."""
    file = os.path.normpath(unit.path)
    visible = list_entities(unit.full)
    declared: dict[str, set[str]] = {}
    used: set[str] = set()
    for number in _plain_names(unit.full):
        for entity in unit.full.referents[number]:
            if entity.category in _SCOPELESS or (entity.user and entity not in visible):
                continue
            declares = unit.file_of(entity)
            if not entity.user:
                used.add(entity.name)
            elif entity.external or declares != file:
                declared.setdefault(entity.name, set()).add(declares)
        if not unit.full.referents[number] and _is_call(unit.full, number):
            used.add(unit.full.tokens[number].text)
    return ClaimedNames({name: frozenset(files) for name, files in declared.items()}, frozenset(used))


def _plain_names(unit: ParsedUnit) -> Iterator[int]:
    """The tokens outside directives that are names without a scope or an object in front of them."""
    ignored = _directive_tokens(unit)
    for number, token in enumerate(unit.tokens):
        if token.identifier and number not in ignored:
            before = unit.tokens[number - 1].text if number else ""
            scoped = before == "::" and number > 1 and unit.tokens[number - 2]
            if before not in (".", "->") and not (scoped and (scoped.identifier or scoped.text == ">")):
                yield number


def _directive_tokens(unit: ParsedUnit) -> set[int]:
    return {i for line in find_directives(unit.tokens, unit.text) for i in range(line.start, line.end)}


def _is_call(unit: ParsedUnit, number: int) -> bool:
    follows = unit.tokens[number + 1].text if number + 1 < len(unit.tokens) else ""
    return follows == "(" and number not in unit.skipped


def list_claimed(claims: Sequence[ClaimedNames], number: int, files: frozenset[str]) -> tuple[set[str], set[str]]:
    """The names that the unit of a number, made of `files`, must not have for itself: those that others declare, and
    those that later ones use. What is behind a unit, or in its own headers, does not change what it means."""
    declared = {
        name
        for place, other in enumerate(claims)
        for name, places in other.declared.items()
        if place > number or (place < number and not places <= files)
    }
    return declared, {name for other in claims[number + 1 :] for name in other.used}


def is_incomplete(unit: ParsedUnit, name: str) -> bool:
    """Whether a name is that of a class that the file declares and another one defines."""
    places = [i for i, token in enumerate(unit.tokens[:-1]) if token.text == name and i > 0]
    follows = {unit.tokens[i + 1].text for i in places if unit.tokens[i - 1].text in _TYPE_KEYWORDS}
    return ";" in follows and not follows & {"{", ":", "final"}


def list_lasting_macros(units: Sequence[ProgramUnit], number: int) -> list[str]:
    """The macros of a unit's headers that later units mention and get from no header."""
    unit, later = units[number], units[number + 1 :]
    files = {file for other in later for file in other.files} | {os.path.normpath(unit.path)}
    words = {token.text for other in later for token in other.full.tokens if token.identifier}
    macros = {e for es in unit.full.referents for e in es if e.user and e.category == "macro" and e.name in words}
    places: dict[str, set[str]] = {}
    for macro in macros:
        places.setdefault(macro.name, set()).add(unit.file_of(macro))
    return sorted(name for name, declares in places.items() if not declares & files)


# --- comparison of each unit with the text of all --------------------------------------------------------------------


class _Merged:
    """The text of all units, with its tokens by the place from which they come."""

    def __init__(self, inlined: InlinedText, parsed: ParsedUnit) -> None:
        self.inlined, self.parsed = inlined, parsed
        self.exact: dict[tuple[Chain, str, int], int] = {}
        self.first: dict[tuple[str, int], int] = {}
        for number, token in enumerate(parsed.tokens):
            place = inlined.find_place(token.start)
            self.exact[place.chain[1:], place.file, place.offset] = number
            self.first.setdefault((place.file, place.offset), number)

    def find_token(self, unit: ProgramUnit, offset: int) -> int | None:
        """The token for one of a unit's text; of a header that is there once, that of the unit which entered it."""
        place = unit.inlined.find_place(offset)
        exact = self.exact.get((place.chain, place.file, place.offset))
        return self.first.get((place.file, place.offset)) if exact is None else exact


def find_changed_names(units: Iterable[ProgramUnit], inlined: InlinedText, parsed: ParsedUnit) -> list[str]:
    """The names that mean something else in the text of all units than in their unit alone, in order."""
    merged = _Merged(inlined, parsed)
    return sorted({name for unit in units for name in _changed_in_unit(unit, merged)})


def _changed_in_unit(unit: ProgramUnit, merged: _Merged) -> Iterator[str]:
    ignored = _directive_tokens(unit.full)
    numbers = {token.start: number for number, token in enumerate(unit.full.tokens)}
    for i, token in enumerate(unit.full.tokens):
        if not token.identifier or i in ignored:
            continue
        j = merged.find_token(unit, token.start)
        if j is not None and _is_changed(unit, i, merged, j, numbers):
            yield token.text


def _is_changed(unit: ProgramUnit, i: int, merged: _Merged, j: int, numbers: dict[int, int]) -> bool:
    """Whether token i of a unit and token j of the text of all, the same in the files, refer to different entities: to
    others than the tokens that declare what the unit's refers to."""
    before, after = unit.full.referents[i], merged.parsed.referents[j]
    if not before:
        return any(e.user and merged.inlined.find_place(e.place[1]).file not in unit.files for e in after)
    if not after:
        return True
    expected: set[Entity] = set()
    for entity in before:
        number = numbers.get(entity.place[1]) if entity.user else None
        if number is not None and unit.full.tokens[number].text == entity.name:
            target = merged.find_token(unit, entity.place[1])
            expected |= merged.parsed.referents[target] if target is not None else frozenset()
        elif entity.user:  # a macro makes the name
            return False
    return {e for e in after if e.user} != expected
