"""Finds loops that run over the same elements one after another, where the later one needs what the earlier found."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from hipsynth.source.edits import Edit, edit_text
from hipsynth.source.layout import read_indent
from hipsynth.source.tokens import Span, find_closing, split_at, strip_parentheses, text_between
from hipsynth.tuning.optimize.analysis.effects import has_effect
from hipsynth.tuning.optimize.analysis.kernel_body import Body
from hipsynth.tuning.optimize.analysis.statements import NotUnderstood, Statement
from hipsynth.tuning.optimize.source_changes.device_functions import find_forwarded

_STARTS = frozenset({";", "{", "}", "else"})


@dataclass(frozen=True)
class RowLoop:
    """`for (T variable = ...; ...; ...)` among the statements of a block, of which `sibling` contains it, maybe in
    plain blocks; `values`: initial values of the constants that an iteration declares, `updates`: its other
    statements."""

    statement: Statement
    sibling: Statement
    variable: int  # the offset of its declaration
    values: dict[int, Span] = field(hash=False)
    updates: tuple[Statement, ...]


@dataclass(frozen=True)
class LoopSteps:
    """The parts of `for (type variable = init; variable < bound; variable += step)`."""

    type: str
    init: str
    bound: str
    step: str


@dataclass(frozen=True)
class RowReader:
    """Reads loops and expressions of a body."""

    body: Body

    def list_rows(self, siblings: Sequence[Statement]) -> Iterator[list[RowLoop]]:
        """The loops of each list of statements that follow each other."""
        loops = [
            loop
            for sibling in siblings
            for statement in open_blocks(sibling)
            if statement.kind == "for" and (loop := self._read_loop(statement, sibling))
        ]
        if len(loops) > 1:
            yield loops
        for sibling in siblings:
            for part in sibling.parts:
                yield from self.list_rows(part.parts if part.kind == "block" else (part,))

    def _read_loop(self, statement: Statement, sibling: Statement) -> RowLoop | None:
        tokens, body = self.body.tokens, self.body
        declared = [tokens[i].start for i in range(*statement.head) if tokens[i].start in body.locals]
        if len(declared) != 1 or body.program.has_barrier(statement.start, statement.end):
            return None
        (inside,) = statement.parts
        values: dict[int, Span] = {}
        updates: list[Statement] = []
        for part in inside.parts if inside.kind == "block" else (inside,):
            value = self._read_constant(part)
            if value is not None and not updates:
                values[value[0]] = value[1]
            else:
                updates.append(part)
        return RowLoop(statement, sibling, declared[0], values, tuple(updates))

    def _read_constant(self, statement: Statement) -> tuple[int, Span] | None:
        """The variable of `const T name = value;` and its value."""
        tokens = self.body.tokens
        if statement.kind != "simple" or len(split_at(tokens, statement.start, statement.end, ",")) > 1:
            return None
        names = [i for i in range(statement.start, statement.end - 1) if tokens[i].start in self.body.locals]
        words = {tokens[i].text for i in range(statement.start, names[0])} if names else set()
        if len(names) != 1 or tokens[names[0] + 1].text != "=" or words & {"*", "&", "static", "auto"}:
            return None
        return tokens[names[0]].start, (names[0] + 2, statement.end - 1)

    # --- expressions -------------------------------------------------------------------------------------------------

    def read_words(self, loop: RowLoop, span: Span) -> list[str]:
        """An expression of a loop by its words: its constants by their values, its variable as `@`."""
        start, end = strip_parentheses(self.body.tokens, span)
        words = []
        for i in range(start, end):
            place = self.body.local(self.body.tokens[i])
            if place in loop.values:
                inner = self.read_words(loop, loop.values[place])
                words += inner if end - start == 1 or len(inner) == 1 else ["(", *inner, ")"]
            else:
                words.append("@" if place == loop.variable else self.body.tokens[i].text)
        return words

    def write_text(self, loop: RowLoop, span: Span) -> str:
        """The text of an expression outside the statements that declare the loop's constants."""
        tokens = self.body.tokens
        start, end = strip_parentheses(self.body.tokens, span)
        pieces, at = [], start
        for i in range(start, end):
            if (place := self.body.local(tokens[i])) in loop.values:
                inner = self.write_text(loop, loop.values[place])
                plain = end - start == 1 or re.fullmatch(r"[\w.]+(\[[^\[\]]*\])?", inner)
                before = self._slice(tokens[at].start, tokens[i].start)
                pieces += [before, inner if plain else f"({inner})"]
                at = i + 1
        if at < end:
            first = tokens[at - 1].end if at > start else tokens[at].start
            pieces.append(self._slice(first, tokens[end - 1].end))
        return "".join(pieces)

    def _slice(self, start: int, end: int) -> str:
        return self.body.program.unit.text[start:end].decode(errors="surrogateescape")

    def resolve(self, loop: RowLoop, span: Span) -> Span:
        """The value of a constant of the loop, or the expression itself."""
        span = strip_parentheses(self.body.tokens, span)
        place = self.body.local(self.body.tokens[span[0]])
        if span[1] - span[0] == 1 and place in loop.values:
            return self.resolve(loop, loop.values[place])
        return span

    def list_names(self, loop: RowLoop, span: Span) -> Iterator[int]:
        """The tokens of the names in an expression, also in the values of the loop's constants."""
        for i in range(*span):
            place = self.body.local(self.body.tokens[i])
            if place in loop.values:
                yield from self.list_names(loop, loop.values[place])
            elif self.body.tokens[i].identifier:
                yield i

    def read_head(self, loop: RowLoop) -> list[str]:
        start, end = loop.statement.head
        place, tokens = loop.variable, self.body.tokens
        return ["@" if self.body.local(tokens[i]) == place else tokens[i].text for i in range(start, end)]

    def read_steps(self, loop: RowLoop, name: str) -> LoopSteps:
        """The head of a loop, whose variable is called `name` in its text. Raises NotUnderstood for other heads."""
        tokens, (start, end) = self.body.tokens, loop.statement.head
        parts = split_at(tokens, start, end, ";")
        at = next(i for i in range(start, end) if tokens[i].start == loop.variable)
        (c, d), variable = parts[-1], tokens[at].text
        words = [t.text for t in tokens[c:d]]
        by = "1" if words in (["++", variable], [variable, "++"]) else ""
        if words[:2] == [variable, "+="]:
            by = read_source(self.body, (c + 2, d))
            by = by if d - c == 3 and len(self.body.program.macros.get(by, "1")) == 1 else f"({by})"
        condition = parts[1]
        compared = [t.text for t in tokens[condition[0] : condition[0] + 2]] == [variable, "<"]
        again = sum(self.body.local(tokens[i]) == loop.variable for i in range(condition[0], d))
        plain = not any(tokens[i].text in ("&&", "||", ",", "<") for i in range(condition[0] + 2, condition[1]))
        if len(parts) != 3 or not by or not compared or again != 2 or not plain or tokens[at + 1].text != "=":
            raise NotUnderstood("a loop of another form")
        init = [(tokens[i].start, tokens[i].end) for i in range(at + 2, parts[0][1])
                if self.body.local(tokens[i]) == loop.variable]  # fmt: skip
        first, last = tokens[at + 2].start, tokens[parts[0][1] - 1].end
        text = edit_text(self.body.program.unit.text[first:last], [Edit(a - first, b - first, name) for a, b in init])
        bound = read_source(self.body, (condition[0] + 2, condition[1]))
        return LoopSteps(read_source(self.body, (start, at)), text, bound, by)

    def list_constants(self, loop: RowLoop) -> Iterator[Span]:
        """The statements that declare the constants of an iteration."""
        (inside,) = loop.statement.parts
        for part in inside.parts if inside.kind == "block" else ():
            if part not in loop.updates:
                yield part.start, part.end

    def check_new(self, name: str) -> None:
        """Raises NotUnderstood for a name that the function, or a macro, has."""
        kernel, tokens = self.body.kernel, self.body.tokens
        names = {token.text for token in tokens[kernel.first : kernel.last]}
        if name in names | self.body.program.macros.keys() | {parameter.name for parameter in kernel.parameters}:
            raise NotUnderstood("a name that the new code uses")

    def read_type(self, place: int) -> str:
        """The type of the declaration of a local variable of one word, such as float; "" for others."""
        tokens = self.body.tokens
        at = first = self.body.find_declaration(place)
        while tokens[first - 1].text not in (";", "{", "}", ")", "("):
            first -= 1
        declared = split_at(tokens, first, next(j for j in range(at, len(tokens)) if tokens[j].text == ";"), ",")
        plain = any(tokens[b - 1].start == place or at in range(a, b) for a, b in declared)
        second = tokens[first + 1]
        return tokens[first].text if plain and second.identifier and second.start in self.body.locals else ""

    def read_indent(self, statement: Statement) -> str:
        """The white space before the line that a statement begins in."""
        return read_indent(self.body.program.unit.text, self.body.tokens[statement.start].start)

    def find_begin(self, statement: Statement) -> int:
        """Where a statement begins, with a pragma before it."""
        text, start = self.body.program.unit.text, self.body.tokens[statement.start].start
        before = text[:start].rstrip()
        line = before.rfind(b"\n") + 1
        return line + len(before[line:]) - len(before[line:].lstrip()) if before[line:].lstrip()[:1] == b"#" else start

    # --- what may change between them --------------------------------------------------------------------------------

    def check_unchanged(self, span: Span, names: Sequence[int], own: Sequence[Span] = ()) -> None:
        """Raises NotUnderstood if the code may change what the names stand for, or what they point to. `own`: stores
        in it that are known not to."""
        tokens, body = self.body.tokens, self.body
        for i in range(*span):
            text = tokens[i].text
            if text == "->" or (text == "*" and self._begins_statement(i)):
                raise NotUnderstood("pointers that are followed")
            if not tokens[i].identifier or tokens[i - 1].text in (".", "::"):
                continue
            macro = body.program.macros.get(text, frozenset())
            if len(macro) > 3 or self._may_store(i, {body.local(tokens[name]) for name in names}):
                raise NotUnderstood(f"a call of {text}")
            is_own = any(a <= i < b for a, b in own)
            is_elsewhere = body.local(tokens[i]) < 0 or (self._is_pointer(i) and not self.points_to_lds(i))
            if body.assigns(i, span[1]) and not is_own and is_elsewhere:
                raise NotUnderstood(f"a store to {text}")
        changed = body.changed(span)
        for i in names:
            if body.local(tokens[i]) in changed:
                raise NotUnderstood(f"{tokens[i].text} changes")
            if self._is_user_function(i) or self._may_store(i, set()):
                raise NotUnderstood(f"a call of {tokens[i].text}")

    def _begins_statement(self, at: int) -> bool:
        """Whether a token is the first of a statement."""
        tokens, opening = self.body.tokens, at - 1
        if tokens[opening].text != ")":
            return tokens[opening].text in _STARTS
        depth = 0
        while depth or opening == at - 1:
            depth += (tokens[opening].text == ")") - (tokens[opening].text == "(")
            opening -= 1
        return tokens[opening].text in ("if", "for", "while")

    def _may_store(self, at: int, places: set[int]) -> bool:
        """Whether a call may change memory outside the LDS, or one of the local variables."""
        tokens, opening = self.body.tokens, self.find_arguments(at)
        if opening < 0:
            return False
        if has_effect(tokens[at].text):
            return True
        if find_forwarded(self.body.program, tokens[at].text):
            return False
        parameters = {parameter.name for parameter in self.body.kernel.parameters if "*" in parameter.text}
        return self._is_user_function(at) and any(
            tokens[i].text in parameters
            or (self._is_pointer(i) and tokens[i + 1].text != "[" and not self.points_to_lds(i))
            or (tokens[i].text == "&" and tokens[i - 1].text in ("(", ","))
            or (self.body.local(tokens[i]) in places - {-1} and tokens[i - 1].text in ("(", ","))
            for i in range(opening + 1, find_closing(tokens, opening))
        )

    def find_arguments(self, at: int) -> int:
        """The parenthesis of `name(` or `name<...>(`; -1 if that is no call."""
        tokens, end = self.body.tokens, at + 1
        if tokens[end].text == "<" and self._is_user_function(at):
            while tokens[end].text not in (">", ";", "{"):
                end += 1
            end += 1
        return end if tokens[end].text == "(" else -1

    def _is_user_function(self, at: int) -> bool:
        program, token = self.body.program, self.body.tokens[at]
        if any(e.user and e.category == "function" for e in program.entities(token)):
            return True
        return not program.entities(token) and any(function.name == token.text for function in program.functions)

    def points_to_lds(self, at: int) -> bool:
        """Whether a token names a local pointer that stays at a variable in the LDS."""
        body = self.body
        value = body.constants.get(body.local(body.tokens[at]))
        if value is None:
            return False
        places = [body.local(body.tokens[i]) for i in range(*value) if body.tokens[i].identifier]
        named = {body.tokens[i].text for i in range(*value)}
        is_other = any(parameter.base and parameter.name in named for parameter in body.kernel.parameters)
        return not is_other and any(place >= 0 and body.is_in_lds(place) for place in places)

    def _is_pointer(self, at: int) -> bool:
        """Whether a token names a local variable that is a pointer."""
        tokens, place = self.body.tokens, self.body.local(self.body.tokens[at])
        if place < 0:
            return False
        first = self.body.find_declaration(place)
        return any(tokens[i].text == "*" for i in range(max(0, first - 3), first))


def open_blocks(statement: Statement) -> Iterator[Statement]:
    """A statement, or those inside if it is a plain block."""
    if statement.kind == "block":
        for part in statement.parts:
            yield from open_blocks(part)
    else:
        yield statement


def read_source(body: Body, span: Span) -> str:
    """The source of tokens."""
    return text_between(body.program.unit, body.tokens, *span)
