"""Several work-items in one lane with their statements alternating (unroll and jam), so that what they share is
computed once and their loads overlap. Along two axes, they are a tile: a register tile of a product of matrices."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from hipsynth.source.parse import Token
from hipsynth.source.tokens import Span, split_at
from hipsynth.tuning.optimize.analysis.called_text import list_called, list_words
from hipsynth.tuning.optimize.analysis.effects import has_effect
from hipsynth.tuning.optimize.analysis.kernel_body import ASSIGN, STEP, Body
from hipsynth.tuning.optimize.analysis.program_model import KernelDefinition, ParsedProgram
from hipsynth.tuning.optimize.analysis.statements import NotUnderstood, Statement, parse_statements
from hipsynth.tuning.optimize.transformation_plan import AXES


@dataclass(frozen=True)
class JammedBody:
    """The text of a jammed body. It begins with what must hold for every work-item: where it does not, the text runs
    `FALLBACK`, which runs them one after the other."""

    text: str
    guarded: bool


FALLBACK = "return false;"
ENDED = "return true;"  # all work-items return here
Axes = frozenset[int]
Place = Mapping[int, int]  # the number of a work-item along each axis
NONE: Axes = frozenset()


def jammed(program: ParsedProgram, kernel: KernelDefinition, copies: Mapping[int, int], unroll: int = 0) -> JammedBody:
    """The body for so many work-items along each axis, whose coordinates are thread_xK and block_xK (K from 0) along x.

    `unroll`: factor of its innermost loops that have no pragma. Raises NotUnderstood for bodies that this cannot do
    safely.
    """
    return _Jam(program, kernel, copies, unroll).body()


@dataclass
class _Jam:
    program: ParsedProgram
    kernel: KernelDefinition
    copies: Mapping[int, int]
    unroll: int = 0
    varying: dict[int, Axes] = field(default_factory=dict)  # local variables, by declaration: along what they differ

    def body(self) -> JammedBody:
        self.tokens: Sequence[Token] = self.program.tokens
        self.code = Body(self.program, self.kernel)
        tree = parse_statements(self.tokens, self.kernel.first, self.kernel.last)
        self.code.check_plain()
        if self.code.changes_parameter():
            raise NotUnderstood("a parameter that the body changes, once for all work-items")
        before = None
        while before != self.varying:
            before = dict(self.varying)
            for number, statement in enumerate(tree):
                if self._is_guard(tree, number):  # what is inside happens for all work-items or not at all
                    self._spread_variation(statement.parts[0], NONE)
                else:
                    self._spread_variation(statement, NONE)
        lines, guarded = [], False
        for number, statement in enumerate(tree):
            guard = self._is_guard(tree, number) and self._varying_axes(statement.head)
            guarded = guarded or bool(guard)
            if guard and self._is_exit(statement):
                lines.append(f"if ({self._any_condition(statement.head)}) {FALLBACK}")
            elif guard:
                lines.append(f"if (!({self._all_conditions(statement.head)})) {FALLBACK}")
                lines.append(self._emit_statement(statement.parts[0]))
            else:
                lines.append(self._emit_statement(statement))
        return JammedBody("\n  ".join(lines), guarded)

    def _is_guard(self, tree: Sequence[Statement], number: int) -> bool:
        """Whether a statement only decides whether a work-item takes part: `if (...) return;` or an `if` around the
        rest, with nothing but declarations before it."""
        statement = tree[number]
        if (
            statement.kind != "if"
            or len(statement.parts) != 1
            or not (self._is_exit(statement) or number == len(tree) - 1)
        ):
            return False
        return all(self._is_declaration(other) for other in tree[:number] if not self._is_exit(other))

    # --- what differs between the work-items -------------------------------------------------------------------------

    @property
    def _all_axes(self) -> Axes:
        return frozenset(self.copies)

    def _varying_axes(self, span: tuple[int, int]) -> Axes:
        """The axes along which a piece of code differs between work-items."""
        varying_axes: set[int] = set()
        for i in range(*span):
            varying_axes |= self.varying.get(self.code.local(self.tokens[i]), NONE)
            if (axis := self._coordinate_axis(i)) in self.copies:
                varying_axes.add(axis)
        return frozenset(varying_axes)

    def _coordinate_axis(self, at: int) -> int:
        """The axis of `threadIdx.x` and the like, -1 for other tokens; uses of them as a whole are refused."""
        token = self.tokens[at]
        if token.text not in ("threadIdx", "blockIdx"):
            return -1
        member = self.tokens[at + 2].text
        if self.tokens[at + 1].text != "." or member not in AXES:
            raise NotUnderstood(f"{token.text} as a whole")
        return AXES.index(member)

    def _spread_variation(self, statement: Statement, inside: Axes) -> None:
        """Adds the variables that a statement changes from work-item to work-item to `varying`.

        What is done once for each work-item must change variables of its own: those that differ along all axes."""
        if statement.kind in ("if", "for", "while"):
            if inside or self._varying_axes(statement.head):
                self._mark_varying((statement.start, statement.end), self._all_axes)
            for part in statement.parts:
                self._spread_variation(part, inside or (self._all_axes if self._varying_axes(statement.head) else NONE))
        elif statement.kind == "block":
            for part in statement.parts:
                self._spread_variation(part, inside)
        elif not self._only_locals(statement):
            self._mark_varying((statement.start, statement.end), self._all_axes)
        else:
            for span in self._split_declarators(statement) or [(statement.start, statement.end)]:
                self._mark_varying(span, inside | self._varying_axes(span))

    def _mark_varying(self, span: tuple[int, int], axes: Axes) -> None:
        if axes:
            for place in self.code.changed(span):
                self.varying[place] = self.varying.get(place, NONE) | axes

    # --- the text ----------------------------------------------------------------------------------------------------

    def _emit_statement(self, statement: Statement) -> str:
        if statement.kind == "block":
            return f"{{\n{self._emit_inside(statement)}\n}}"
        if statement.kind in ("if", "for", "while") and not self._varying_axes(statement.head):
            head = self._source_text((statement.start, statement.head[1] + 1), {})
            inside = [self._emit_inside(part) for part in statement.parts]
            other = f" else {{\n{inside[1]}\n}}" if inside[1:] else ""
            return f"{self._keep_pragma(statement)}{head} {{\n{inside[0]}\n}}{other}"
        span = (statement.start, statement.end)
        if statement.kind == "jump":
            return ENDED if self.tokens[statement.start].text == "return" else self._source_text(span, {})
        if any(inner.kind == "jump" and not self._stays_inside(statement, inner) for inner in statement.inner()):
            raise NotUnderstood("a jump under a condition that differs between work-items")
        if not self._only_locals(statement):
            return "\n".join(self._source_text(span, place) for place in self._list_places(self._all_axes))
        if not (parts := self._split_declarators(statement)):
            return "\n".join(self._source_text(span, place) for place in self._list_places(self._varying_axes(span)))
        kind = self._source_slice(self.tokens[statement.start].start, self.tokens[parts[0][0]].start)
        places = ((part, place) for part in parts for place in self._list_places(self._varying_axes(part)))
        return "\n".join(f"{kind}{self._source_text(part, place)};" for part, place in places)

    def _emit_inside(self, statement: Statement) -> str:
        """A statement between braces that stand there anyway."""
        parts = statement.parts if statement.kind == "block" else (statement,)
        return "\n".join(self._emit_statement(part) for part in parts)

    def _split_declarators(self, statement: Statement) -> list[tuple[int, int]]:
        """The declarators of `int x = ..., y = ...;`, which may differ along other axes each; [] for other code."""
        first = next(
            (i for i in range(statement.start, statement.end) if self.tokens[i].start in self.code.locals),
            statement.start,
        )
        pointers = any(self.tokens[i].text in ("*", "&") for i in range(statement.start, first))
        if not self._is_declaration(statement) or first == statement.start or pointers:
            return []  # in `float *p, *q`, the stars belong to the declarators
        parts = split_at(self.tokens, first, statement.end - 1, ",")
        return parts if all(self.tokens[a].start in self.code.locals for a, _ in parts) else []

    def _list_places(self, axes: Axes) -> Iterator[Place]:
        """The work-items that differ along these axes."""
        order = sorted(axes)
        for numbers in itertools.product(*(range(self.copies[axis]) for axis in order)):
            yield dict(zip(order, numbers, strict=True))

    def _stays_inside(self, statement: Statement, jump: Statement) -> bool:
        """Whether a break or continue stays within the statement: it is in a loop inside it, or of it."""
        if self.tokens[jump.start].text == "return":
            return False
        return any(loop.kind in ("for", "while") and loop.start <= jump.start < loop.end for loop in statement.inner())

    def _only_locals(self, statement: Statement) -> bool:
        """Whether a simple statement only declares or assigns local variables, so that work-items that do not differ
        can share it."""
        span = (statement.start, statement.end)
        words = [t.text for t in self.tokens[statement.start : statement.end]]
        calls = "(" in words and not self._is_declaration(statement)
        return (
            statement.kind == "simple"
            and not calls
            and bool(self.code.changed(span))
            and not self._stores_to_memory(span)
        )

    def _stores_to_memory(self, span: tuple[int, int]) -> bool:
        """Whether a statement assigns something that is no local variable."""
        names = (i for i in range(*span) if self.tokens[i].identifier and self.tokens[i - 1].text not in (".", "->"))
        return any(self.code.local(self.tokens[i]) < 0 and self.code.assigns(i, span[1]) for i in names)

    def _is_declaration(self, statement: Statement) -> bool:
        if statement.kind != "simple":
            return False
        changed = self.code.changed((statement.start, statement.end))
        words = {t.text for t in self.tokens[statement.start : statement.end]}
        return (
            bool(changed)
            and not words & STEP
            and not any(map(_changes_memory, words))
            and self._functions_with_effects.isdisjoint(self.program.spread_words(words))
            and any(self.tokens[i].start in changed for i in range(statement.start, statement.end))
        )

    @functools.cached_property
    def _functions_with_effects(self) -> frozenset[str]:
        """The names of the device functions that, or whose callees, change more than their own variables."""
        return frozenset(
            function.name
            for function in self.program.functions
            for body in [(function.first, function.last)]
            if any(map(self._has_effects, [body, *list_called(self.program, body)]))
        )

    def _has_effects(self, body: Span) -> bool:
        """Whether the body of a function has atomics, prints, or stores to an element or where a pointer points."""
        stores = (i for i in range(*body) if self.tokens[i].text in ASSIGN | STEP)
        return any(map(_changes_memory, list_words(self.program, body))) or any(
            self.tokens[i - 1].text in ("]", ")") or self.tokens[i - 2].text == "*" for i in stores
        )

    def _is_exit(self, statement: Statement) -> bool:
        """`if (...) return;`"""
        if statement.kind != "if" or len(statement.parts) != 1:
            return False
        inner = statement.parts[0]
        inner = inner.parts[0] if inner.kind == "block" and len(inner.parts) == 1 else inner
        return inner.kind == "jump" and [t.text for t in self.tokens[inner.start : inner.end]] == ["return", ";"]

    def _any_condition(self, span: tuple[int, int]) -> str:
        return " || ".join(
            f"({self._source_text(span, place)})" for place in self._list_places(self._varying_axes(span))
        )

    def _all_conditions(self, span: tuple[int, int]) -> str:
        return " && ".join(
            f"({self._source_text(span, place)})" for place in self._list_places(self._varying_axes(span))
        )

    def _keep_pragma(self, statement: Statement) -> str:
        before = self.program.unit.text[: self.tokens[statement.start].start].rstrip().rsplit(b"\n", 1)[-1].strip()
        if before.startswith(b"#pragma unroll"):
            return before.decode() + "\n"
        innermost = statement.kind == "for" and all(
            inner.kind != "for" for part in statement.parts for inner in part.inner()
        )
        return f"#pragma unroll {self.unroll}\n" if self.unroll and innermost else ""

    def _source_text(self, span: tuple[int, int], place: Place) -> str:
        """The source of tokens, with the names of one work-item's variables; {}: of code that all share."""
        pieces, at = [], self.tokens[span[0]].start
        skip = -1
        for i in range(*span):
            token = self.tokens[i]
            if i <= skip:
                continue
            new = None
            axes = self.varying.get(self.code.local(token), NONE)
            if (axis := self._coordinate_axis(i)) in place:
                new, skip = f"{token.text.removesuffix('Idx')}_{AXES[axis]}{place[axis]}", i + 2
            elif axes:
                new = f"{token.text}_{''.join(f'{AXES[a]}{place[a]}' for a in sorted(axes))}"
            if new is not None:
                pieces += [self._source_slice(at, token.start), new]
                at = self.tokens[max(i, skip)].end
        return "".join(pieces) + self._source_slice(at, self.tokens[span[1] - 1].end)

    def _source_slice(self, start: int, end: int) -> str:
        text = self.program.unit.text[start:end].decode(errors="surrogateescape")
        return "\n".join(line for line in text.split("\n") if not line.lstrip().startswith("#pragma unroll"))


def _changes_memory(word: str) -> bool:
    """Whether a function of this name does more than to compute a value; builtins for arithmetic do not."""
    return has_effect(word) and not word.startswith("__builtin")
