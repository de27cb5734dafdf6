"""Finds elements of memory that several loops over a row use, and that nothing else changes meanwhile."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from hipsynth.source.tokens import Span, find_closing
from hipsynth.source.type_sizes import type_bytes
from hipsynth.tuning.optimize.analysis.kernel_body import Body
from hipsynth.tuning.optimize.analysis.pointer_copies import is_passed_alone
from hipsynth.tuning.optimize.analysis.program_constants import find_constants, read_number
from hipsynth.tuning.optimize.analysis.statements import NotUnderstood, Statement
from hipsynth.tuning.optimize.source_changes.row_loops import RowLoop, RowReader
from hipsynth.tuning.optimize.transformations.split_loops.loop_source import LANE

Key = tuple[str, ...]
MOST_TOKENS = 150  # of a loop, which is written twice
MOST_NUMBER = 4096  # in the first place and the step of a loop: their multiples do not overflow
_COUNTERS = frozenset({"int", "unsigned", "unsigned int", "long", "size_t", "int32_t", "uint32_t"})
_SMALL = frozenset({"(", ")", "+", "*", "/", "%", ".", "<", ">", "x", "y", "z", "threadIdx", "blockDim", LANE,
                    "static_cast", "decltype", "int", "unsigned", "@"})  # fmt: skip
_TOGETHER = re.compile(
    r"__(?:shfl|ballot|any|all|match|reduce|activemask|builtin_amdgcn)\w*|asm|__asm__|sizeof|decltype"
)
_LOGIC = frozenset({"?", "&&", "||"})


@dataclass(frozen=True)
class RowElement:
    """`name[subscript]`, used at tokens by loop. `loaded`: the first of them needs it from memory; `stored`: a loop
    changes it; `bytes`: its size."""

    name: str
    type: str
    bytes: int
    uses: dict[RowLoop, list[Span]] = field(hash=False)
    loaded: bool
    stored: bool

    @property
    def first_loop(self) -> RowLoop:
        """The first loop that uses it."""
        return next(iter(self.uses))

    @property
    def last_loop(self) -> RowLoop:
        """The last loop that uses it."""
        return list(self.uses)[-1]

    def write(self, reader: RowReader, loop: RowLoop) -> str:
        """The element outside the statements that declare the loop's constants."""
        start, end = self.uses[loop][0]
        return f"{self.name}[{reader.write_text(loop, (start + 2, end - 1))}]"


def find_shared_rows(
    reader: RowReader, loops: Sequence[RowLoop]
) -> tuple[tuple[RowLoop, ...], tuple[RowElement, ...]] | None:
    """Loops that run over the same elements, and the elements that several of them use; None without any."""
    rows = _RowElements(reader)
    for number, first in enumerate(loops):
        later = [
            loop for loop in loops[number + 1 :] if rows.read_key(loop, loop.statement.head) == rows.read_head(first)
        ]
        try:
            elements = tuple(rows.find_elements([first, *later])) if later else ()
        except NotUnderstood:
            continue
        if elements:
            used = tuple(loop for loop in (first, *later) if any(loop in element.uses for element in elements))
            return used, elements
    return None


@dataclass(frozen=True)
class _RowElements:
    reader: RowReader

    @property
    def body(self) -> Body:
        return self.reader.body

    def read_head(self, loop: RowLoop) -> Key:
        return self.read_key(loop, loop.statement.head)

    def read_key(self, loop: RowLoop, span: Span) -> Key:
        """The words of an expression: constants of the loop by their values, its variable as `@`, other variables with
        the places of their declarations."""
        tokens, words = self.body.tokens, list[str]()
        for i in range(*span):
            place = self.body.local(tokens[i])
            if place in loop.values:
                inner = self.read_key(loop, loop.values[place])
                words += inner if span[1] - span[0] == 1 or len(inner) == 1 else ("(", *inner, ")")
            elif place == loop.variable:
                words.append("@")
            else:
                words.append(tokens[i].text + (f"#{place}" if place >= 0 else ""))
        return tuple(words)

    def find_elements(self, loops: Sequence[RowLoop]) -> Iterator[RowElement]:
        """The elements that several of the loops use. Raises NotUnderstood for loops of other forms."""
        self.body.check_plain(lambdas=True)
        span = loops[0].sibling.start, loops[-1].statement.end
        for loop in loops:
            self._check_loop(loop)
        self._check_head(loops[0], span)
        uses: dict[tuple[str, Key], dict[RowLoop, list[Span]]] = {}
        for loop in loops:
            for element, use in self._list_uses(loop):
                uses.setdefault(element, {}).setdefault(loop, []).append(use)
        names = [name for name, _ in uses]
        for (name, key), by_loop in uses.items():
            if len(by_loop) < 2 or names.count(name) > 1:
                continue
            try:
                yield self._read_element(by_loop, key, span)
            except NotUnderstood:
                continue

    # --- loops -------------------------------------------------------------------------------------------------------

    def _check_loop(self, loop: RowLoop) -> None:
        """Raises NotUnderstood for a loop that cannot be unrolled, or whose lanes exchange values."""
        (inside,) = loop.statement.parts
        if inside.end - inside.start > MOST_TOKENS or loop.variable in self.body.changed(inside.span):
            raise NotUnderstood("a loop that is too long, or changes its variable")
        if any(part.kind in ("for", "while", "jump") for part in inside.inner()):
            raise NotUnderstood("a loop with loops or jumps inside")
        if any(_TOGETHER.fullmatch(self.body.tokens[i].text) for i in range(*inside.span)):
            raise NotUnderstood("lanes that exchange values")

    def _check_head(self, loop: RowLoop, span: Span) -> None:
        """Raises NotUnderstood unless all loops take the same iterations, whose numbers do not overflow."""
        tokens, body = self.body.tokens, self.body
        steps = self.reader.read_steps(loop, "@")
        if steps.type not in _COUNTERS:
            raise NotUnderstood("a variable of another type")
        first = next(i for i in range(*loop.statement.head) if tokens[i].start == loop.variable)
        ends = [i for i in range(first, loop.statement.head[1]) if tokens[i].text == ";"]
        by = next((i for i in range(ends[1], loop.statement.head[1]) if tokens[i].text == "+="), None)
        parts = [(first + 2, ends[0]), *([(by + 1, loop.statement.head[1])] if by else [])]
        if not all(self._is_small(loop, part) for part in parts):
            raise NotUnderstood("numbers of iterations that may overflow")
        self._check_unchanged(loop, (first + 1, loop.statement.head[1]), span)
        begin = tokens[loop.sibling.start].start
        inside = [body.local(tokens[i]) for i in range(first + 1, loop.statement.head[1])]
        if any(place >= begin and place != loop.variable for place in inside):
            raise NotUnderstood("a bound that is declared next to the loop")

    def _is_small(self, loop: RowLoop, span: Span, inside: frozenset[int] = frozenset()) -> bool:
        """Whether an expression is made of small numbers, indices of lanes and widths of groups, at most two of which
        are multiplied; `inside`: constants whose values are being read, which decltype may name."""
        tokens = self.body.tokens
        constants = find_constants(self.body.program)
        if sum(tokens[i].text == "*" for i in range(*span)) > 1:
            return False
        for i in range(*span):
            text, place = tokens[i].text, self.body.local(tokens[i])
            number = constants.get(text) if tokens[i].identifier else read_number(text)
            if place >= 0 and place != loop.variable and place not in inside:
                value = self.body.constants.get(place)
                if value is None or not self._is_small(loop, value, inside | {place}):
                    return False
            elif place < 0 and text not in _SMALL and (number is None or number > MOST_NUMBER):
                return False
        return True

    def _check_unchanged(self, loop: RowLoop, span: Span, during: Span) -> None:
        """Raises NotUnderstood if what an expression names may change meanwhile, or if it loads or calls."""
        tokens, body = self.body.tokens, self.body
        changed = body.changed(during)
        for i in self.reader.list_names(loop, span):
            place, text = body.local(tokens[i]), tokens[i].text
            if place == loop.variable or tokens[i - 1].text == ".":
                continue
            is_call = tokens[i + 1].text == "(" and text not in ("static_cast", "decltype")
            if place in changed or is_call or tokens[i + 1].text in ("[", "->"):
                raise NotUnderstood(f"{text} may change")
            if place < 0 and any(tokens[j].text == text and body.assigns(j, during[1]) for j in range(*during)):
                raise NotUnderstood(f"{text} changes")

    # --- elements ----------------------------------------------------------------------------------------------------

    def _list_uses(self, loop: RowLoop) -> Iterator[tuple[tuple[str, Key], Span]]:
        """The elements of pointers in a loop that change from iteration to iteration."""
        tokens = self.body.tokens
        (inside,) = loop.statement.parts
        for i in range(*inside.span):
            if tokens[i].identifier and tokens[i + 1].text == "[" and tokens[i - 1].text not in (".", "->", "::"):
                close = find_closing(tokens, i + 1)
                key = self.read_key(loop, (i + 2, close))
                if "@" in key:
                    yield (tokens[i].text, key), (i, close + 1)

    def _read_element(self, uses: dict[RowLoop, list[Span]], key: Key, span: Span) -> RowElement:
        """The element that loops use. Raises NotUnderstood if its registers may differ from memory."""
        tokens, body = self.body.tokens, self.body
        loops = list(uses)
        spans = list(itertools.chain.from_iterable(uses.values()))
        at = uses[loops[0]][0][0]
        if len({body.local(tokens[a]) for a, _ in spans}) > 1 or "[" in key:
            raise NotUnderstood("other arrays of the same name, or elements of elements")
        for loop in loops:
            for a, b in uses[loop]:
                self._check_unchanged(loop, (a + 2, b - 1), span)
                self._check_use(a, b)
        kind, root = self._read_pointer(at, span)
        size = type_bytes(kind)
        if not size:
            raise NotUnderstood("elements of another type")
        changes = [(loop, a) for loop in loops for a, _ in uses[loop] if body.assigns(a, span[1])]
        if changes:
            self._check_owner(root, at, key, spans, span)
            if not all(self._is_always_used(loop, a) for loop, a in changes):
                raise NotUnderstood("elements that only some work-items store")
        elif not next(each for each in body.kernel.parameters if each.name == root).constant:
            raise NotUnderstood("elements that may be stored elsewhere")
        stored = bool(changes)
        if all(self._is_set_first(loop, uses[loop]) for loop in loops[1:]):
            raise NotUnderstood("elements that no later loop needs")
        loaded = not (stored and self._is_set_first(loops[0], uses[loops[0]]))
        if loaded and not any(self._is_always_used(loops[0], a) for a, _ in uses[loops[0]]):
            raise NotUnderstood("elements that are not always loaded")
        return RowElement(tokens[at].text, kind, size, uses, loaded, stored)

    def _check_use(self, start: int, end: int) -> None:
        tokens = self.body.tokens
        before = tokens[start - 2]
        is_address = tokens[start - 1].text == "&" and not (before.identifier or before.text in (")", "]"))
        if is_address or tokens[end].text in ("[", "->", "("):
            raise NotUnderstood("the address of an element")

    def _read_pointer(self, at: int, span: Span) -> tuple[str, str]:
        """The type that a pointer points to, and the parameter that it comes from."""
        tokens, body = self.body.tokens, self.body
        place = body.local(tokens[at])
        if place < 0:
            root, kind = tokens[at].text, ""
            if any(tokens[i].text == root and body.local(tokens[i]) < 0 and body.assigns(i, span[1])
                   and tokens[i + 1].text != "[" for i in range(*span)):  # fmt: skip
                raise NotUnderstood("a pointer that changes")
        else:
            value = body.constants.get(place)
            if value is None or not body.is_pointer(place):
                raise NotUnderstood("an array of another kind")
            pointers = {each.name for each in body.kernel.parameters if each.base}
            named = [tokens[i].text for i in range(*value) if tokens[i].identifier and tokens[i - 1].text != "."]
            roots = [name for name in named if name in pointers]
            aliases = [i for i in range(*value) if body.is_pointer(body.local(tokens[i]))]
            if len(roots) != 1 or aliases or {"[", "const_cast"} & {tokens[i].text for i in range(*value)}:
                raise NotUnderstood("a pointer from elsewhere")
            root = roots[0]
            declared = [tokens[i].text for i in range(*body.find_declared_type(place))]
            kind = " ".join(word for word in declared if word not in ("const", "*", "__restrict__"))
        parameter = next((each for each in body.kernel.parameters if each.name == root and each.base), None)
        if parameter is None or not ("__restrict" in parameter.text or self._is_passed_once(root)):
            raise NotUnderstood("a pointer that may alias others")
        return kind or parameter.base, root

    def _is_passed_once(self, root: str) -> bool:
        """Whether every launch passes an array for one parameter alone, and no other one can hold its address."""
        kernel = self.body.kernel
        plain = all(each.base or ("*" not in each.text and type_bytes(each.type)) for each in kernel.parameters)
        return plain and bool(kernel.launches) and is_passed_alone(self.body.program, kernel, root)

    def _check_owner(self, root: str, at: int, key: Key, spans: Sequence[Span], span: Span) -> None:
        """Raises NotUnderstood unless a lane alone uses the elements, in these places alone."""
        tokens, body = self.body.tokens, self.body
        if not _is_injective(key):
            raise NotUnderstood("elements that several iterations may store")
        place = body.local(tokens[at])
        pointer = range(*body.constants[place]) if place >= 0 else range(0)
        starts = {start for start, _ in spans} | set(pointer)
        for i in range(body.kernel.first, body.kernel.last):
            is_root = tokens[i].text == root and body.local(tokens[i]) < 0 and tokens[i - 1].text != "."
            is_alias = place >= 0 and body.local(tokens[i]) == place and tokens[i].start != place
            if (is_root or is_alias) and i not in starts:
                raise NotUnderstood("elements that are used elsewhere")
            if span[0] <= i < span[1] and tokens[i].text in ("return", "break", "continue", "goto"):
                raise NotUnderstood("a way out before the last loop")

    def _is_set_first(self, loop: RowLoop, uses: Sequence[Span]) -> bool:
        """Whether an iteration begins by storing the element."""
        start, end = uses[0]
        statement = self._find_statement(loop, start)
        is_store = statement.kind == "simple" and statement.start == start and self.body.tokens[end].text == "="
        return is_store and not any(end <= a < statement.end for a, _ in uses)

    def _is_always_used(self, loop: RowLoop, at: int) -> bool:
        """Whether every iteration evaluates a token."""
        statement = self._find_statement(loop, at)
        in_head = statement.kind == "if" and at < statement.head[1]
        words = {self.body.tokens[i].text for i in range(statement.start, at)}
        return (statement.kind == "simple" or in_head) and not words & _LOGIC

    def _find_statement(self, loop: RowLoop, at: int) -> Statement:
        """The statement of an iteration that a token is in."""
        (inside,) = loop.statement.parts
        parts = inside.parts if inside.kind == "block" else (inside,)
        return next(part for part in parts if part.start <= at < part.end)


def _is_injective(key: Key) -> bool:
    """Whether a subscript is the loop's variable, or a sum of it and what does not change."""
    depth, at = 0, key.index("@")
    outside = set[str]()
    for i, word in enumerate(key):
        depth += (word == "(") - (word == ")")
        if i == at and depth:
            return False
        if not depth and not word[:1].isalnum() and word not in ("@", ")"):
            outside.add(word)
    neighbours = {*key[max(0, at - 1) : at], *key[at + 1 : at + 2]}
    return key.count("@") == 1 and neighbours <= {"+"} and outside <= {"+", "-", "*", "."}
