"""A kernel's body as tokens: its local variables, and which variables a range of tokens assigns."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from functools import cached_property

from hipsynth.source.coordinates import COORDINATES
from hipsynth.source.parse import Token
from hipsynth.source.tokens import OPENING, Span, find_closing
from hipsynth.tuning.optimize.analysis.called_text import list_called
from hipsynth.tuning.optimize.analysis.program_model import (
    STATEMENT_STARTS,
    KernelDefinition,
    ParsedProgram,
)
from hipsynth.tuning.optimize.analysis.references import find_lent
from hipsynth.tuning.optimize.analysis.statements import NotUnderstood, Statement

ASSIGN = frozenset({"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="})
STEP = frozenset({"++", "--"})


class Body:
    """The tokens of a kernel's body within its program; `locals`: offsets of the declarations of its variables."""

    def __init__(self, program: ParsedProgram, kernel: KernelDefinition) -> None:
        self.program, self.kernel, self.tokens = program, kernel, program.tokens
        self.locals = self._find_locals()

    @cached_property
    def lent(self) -> frozenset[int]:
        """The tokens that name what may be changed under another name: by a reference, a function or a method."""
        return find_lent(self.program, (self.kernel.first, self.kernel.last), self.locals)

    def check_plain(self, lambdas: bool = False) -> None:
        """Raises NotUnderstood for code that text cannot be moved out of safely; `lambdas`: these may stay."""
        body = self.tokens[self.kernel.first : self.kernel.last]
        words = self.program.spread_words(t.text for t in body)
        for name in words & self.program.macros.keys():
            if COORDINATES & self.program.macros[name] or len(self.program.macros[name]) > 3:
                raise NotUnderstood(f"the macro {name}")
        text = self.program.unit.text[body[0].start : body[-1].end]
        if b"#" in text.replace(b"#pragma unroll", b""):
            raise NotUnderstood("a preprocessor directive in the body")
        for a, b in itertools.pairwise(body):
            if b.text == "[" and not lambdas and not (a.identifier or a.text in ("]", ")", ">")):
                raise NotUnderstood("a lambda expression")
        if {"static", "goto"} & words or any(re.fullmatch(r"\w+_([xyz]\d+)+", word) for word in words):
            raise NotUnderstood("static, goto, or a name that the new code uses")

    def _find_locals(self) -> set[int]:
        """Offsets of the declarations of variables in the body."""
        first, last = self.tokens[self.kernel.first].start, self.tokens[self.kernel.last].start
        names = set()
        for token in self.tokens[self.kernel.first : self.kernel.last]:
            for entity in self.program.entities(token):
                if entity.user and entity.category == "variable" and first <= entity.place[1] < last:
                    names.add(entity.place[1])
        return names

    def local(self, token: Token) -> int:
        """The offset of the declaration of the local variable that a token names; -1 if it names none."""
        places = {e.place[1] for e in self.program.entities(token) if e.user and e.category == "variable"}
        return next(iter(places & self.locals), -1) if len(places) == 1 else -1

    def find_declaration(self, place: int) -> int:
        """The token that declares a local variable, by the offset of its declaration."""
        return next(i for i in range(self.kernel.first, self.kernel.last) if self.tokens[i].start == place)

    def resolve_type(self, kind: str) -> str:
        """The type that a word stands for in `using kind = type;`, or as a parameter of the template; any other type as
        it is."""
        for i in range(self.kernel.first, self.kernel.last - 4):
            words = [token.text for token in self.tokens[i : i + 5]]
            if words[:3] == ["using", kind, "="] and words[4] == ";":
                kind = words[3]
        return self.kernel.resolve_type(kind)

    def is_in_lds(self, place: int) -> bool:
        """Whether a local variable is declared `__shared__`."""
        return "__shared__" in [self.tokens[i].text for i in range(*self.find_declared_type(place))]

    @cached_property
    def constants(self) -> dict[int, tuple[int, int]]:
        """The tokens of the values of variables that are declared with one and not changed later, by the offsets of
        their declarations; the elements that a pointer points to may change."""
        changed = set()
        for i in range(self.kernel.first, self.kernel.last):
            place, before = self.local(self.tokens[i]), self.tokens[i - 2]
            if place < 0 or place == self.tokens[i].start:
                continue
            is_address = self.tokens[i - 1].text == "&" and not (before.identifier or before.text in (")", "]"))
            is_element = self.tokens[i + 1].text == "[" and self.is_pointer(place)
            if is_address or (not is_element and self.assigns(i, self.kernel.last)):
                changed.add(place)
        return dict(self._find_values(self.locals - changed))

    def _find_values(self, places: set[int]) -> Iterator[tuple[int, tuple[int, int]]]:
        for i in range(self.kernel.first, self.kernel.last):
            if self.tokens[i].start in places and self.tokens[i + 1].text == "=":
                end = i + 2
                while self.tokens[end].text not in (",", ";", ")"):
                    end = find_closing(self.tokens, end) + 1 if self.tokens[end].text in OPENING else end + 1
                yield self.tokens[i].start, (i + 2, end)

    def is_pointer(self, place: int) -> bool:
        """Whether a local variable, by the offset of its declaration, is a pointer."""
        return place in self.locals and self.tokens[self.find_declaration(place) - 1].text in ("*", "__restrict__")

    def find_declared_type(self, place: int) -> tuple[int, int]:
        """The tokens of a statement that declares a local variable, up to its name."""
        at = first = self.find_declaration(place)
        while self.tokens[first - 1].text not in (";", "{", "}"):
            first -= 1
        return first, at

    def may_return(self, statement: Statement) -> bool:
        """Whether a statement contains a return."""
        return any(part.kind == "jump" and self.tokens[part.start].text == "return" for part in statement.inner())

    def only_returns(self, statement: Statement) -> bool:
        """Whether a statement is a return without a value, perhaps in braces."""
        words = [token.text for token in self.tokens[slice(*statement.span)]]
        return words in (["return", ";"], ["{", "return", ";", "}"])

    def changed(self, span: Span) -> set[int]:
        """The local variables that a piece of code declares, assigns or takes the address of."""
        names = set()
        for i in range(*span):
            place = self.local(self.tokens[i])
            if place < 0:
                continue
            stepped = self.tokens[i - 1].text in (*STEP, "&") or i in self.lent
            if self.tokens[i].start == place or stepped or self.after_lvalue(i, span[1]) in (*ASSIGN, *STEP):
                names.add(place)
        return names

    def assigns(self, at: int, end: int) -> bool:
        """Whether the name at an index, or what it points to, is assigned, perhaps by a reference to it; the name of a
        type is not."""
        if self.tokens[at - 1].text == "using":
            return False
        return at in self.lent or self.tokens[at - 1].text in STEP or self.after_lvalue(at, end) in (*ASSIGN, *STEP)

    def changes_parameter(self) -> bool:
        """Whether the body assigns a parameter of the kernel itself, as `in += row * n` does; not what it points to."""
        names = {parameter.name for parameter in self.kernel.parameters}
        return any(
            self.tokens[i].text in names
            and self.local(self.tokens[i]) < 0
            and self.tokens[i + 1].text != "["
            and self.tokens[i - 1].text != "."
            and self._assigns_itself(i)
            for i in range(self.kernel.first, self.kernel.last)
        )

    def _assigns_itself(self, at: int) -> bool:
        """Whether the name at an index is assigned, not what it points to: by `*p++`, not by `*p = 0`."""
        if self.tokens[at - 1].text == "*":
            return self.after_lvalue(at, self.kernel.last) in STEP
        return self.assigns(at, self.kernel.last)

    def after_lvalue(self, at: int, end: int) -> str:
        """What follows `name`, `name.member` or `name[...]`."""
        i = at + 1
        while i < end:
            if self.tokens[i].text == "." and i + 1 < end:
                i += 2
            elif self.tokens[i].text == "[":
                depth = 0
                while i < end:
                    depth += (self.tokens[i].text == "[") - (self.tokens[i].text == "]")
                    i += 1
                    if depth == 0:
                        break
            else:
                return self.tokens[i].text
        return ""


def uses_atomic_results(program: ParsedProgram, kernel: KernelDefinition) -> bool:
    """Whether a kernel, or a function that it calls, uses what an atomic operation returns, so that its results depend
    on the order of work-items."""
    tokens, span = program.tokens, (kernel.first, kernel.last)
    return any(
        tokens[i + 1].text == "(" and tokens[i - 1].text not in STATEMENT_STARTS and _is_atomic(program, tokens[i].text)
        for first, last in (span, *list_called(program, span))
        for i in range(first, last)
    )


def _is_atomic(program: ParsedProgram, name: str) -> bool:
    """Whether a function is an atomic operation, or a macro that uses one."""
    words = program.spread_words({name}) if name in program.macros else {name}
    return any(word.startswith("atomic") for word in words)
