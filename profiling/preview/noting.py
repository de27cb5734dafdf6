"""Notes the loops and statements of host code that fill arrays, and what the names in them are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from hipsynth.profiling.preview.contents.fills import element_kind
from hipsynth.profiling.preview.contents.terms import INT, REAL, Array, Scalar, kind_of
from hipsynth.profiling.preview.expressions import ASSIGNS, Scope
from hipsynth.profiling.preview.launching import Launching
from hipsynth.profiling.preview.statements import GROWING
from hipsynth.profiling.preview.tokens import matching
from hipsynth.profiling.preview.values import Alias, HostAllocation, Object, Reference, Vector, known

DECLARED = " "  # after a name: the words of its type
CHANGING = {*GROWING, "resize", "assign", "insert", "back"}


class Noting(Launching):
    """Follows what arrays hold. `this`: the object whose method is followed."""

    def __init__(self, words: list[str]) -> None:
        super().__init__(words)
        self.kept: list[Scope] = []  # whose identities fills use
        self.this: Object | None = None

    def note_fill(self, start: int, stop: int) -> None:
        words = self.words[start:stop]
        if not self.fills.fill(words, self._outer, self._place):
            names = dict.fromkeys(name for name in filled(words))
            self.fills.unknown([held for held in map(self._array_of, names) if held is not None])

    def _place(self, name: str) -> tuple[int, str]:
        held = self.home(name).get(name)
        scope, name = (held.scope, held.name) if isinstance(held, Alias) else (self.home(name), name)
        self.kept.append(scope)
        return id(scope), name

    def _array_of(self, name: str) -> Vector | HostAllocation | None:
        name, *members = name.split(".")
        held = self.lookup(name)
        held = held.get() if isinstance(held, Reference) else held
        for member in members:
            held = held.fields.get(member) if isinstance(held, Object) else None
        return held if isinstance(held, Vector | HostAllocation) else None

    def _type_of(self, name: str) -> list[str]:
        """The words of the type that a name, or a member, was declared with."""
        name, *members = name.split(".")
        words: list[str] = self.home(name).get(name + DECLARED, [])
        owner = self.lookup(name) if members else self.this
        for member in members or [name] * (not words):
            kinds = {field: kind for field, kind, _ in owner.of.fields} if isinstance(owner, Object) else {}
            words = kinds.get(member, [])
            owner = owner.fields.get(member) if isinstance(owner, Object) else None
        return [part for word in words for part in self._meant(word)]

    def _outer(self, name: str) -> Scalar | Array | None:
        """What a name is for a loop that fills arrays."""
        words = self._type_of(name)
        array, value = self._array_of(name), self.lookup(name)
        if array is not None:
            kind = element_kind(words)
            fits = kind and (isinstance(array, HostAllocation) or array.element in (1, kind.bits // 8))
            return Array(kind, array) if kind and fits else None
        kind = kind_of(words) or (REAL if isinstance(value, float) else INT)
        later = self._place(name) in self.fills.written
        if known(value):
            return Scalar(kind, value, not later)
        return Scalar(kind, 0, sure=False) if later else None

    def _meant(self, word: str) -> list[str]:
        """The words of a template parameter or alias, or the word itself."""
        held = self.lookup(word)
        return held if isinstance(held, list) and all(isinstance(one, str) for one in held) else [word]

    def assign(self, target: Sequence[str], value: Any) -> None:
        super().assign(target, value)
        if not self.quiet and self.fills.written:
            self.fills.forget(self._place(target[0]))


def filled(words: Sequence[str]) -> Iterator[str]:
    """The names of arrays that a loop may write."""
    partner = matching(list(words))
    for i, word in enumerate(words[:-1]):
        follows = {*words[partner.get(i + 1, i + 1) + 1 :][:1]}
        indexed = words[i + 1] == "[" and follows & {*ASSIGNS, "++", "--", "."}
        if indexed or (words[i + 1] == "." and {*words[i + 2 : i + 3]} & CHANGING):
            yield word
        elif word == ":" and words[i + 2 : i + 3] == [")"]:
            yield words[i + 1]
