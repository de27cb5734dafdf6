"""Finds a loop whose loads depend on one axis of the work each, so that the work-items of a group can share them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from hipsynth.source.coordinates import COORDINATES
from hipsynth.source.declarations import FunctionParameter
from hipsynth.source.parse import Token
from hipsynth.source.tokens import find_closing, split_at
from hipsynth.tuning.optimize.analysis.effects import has_effect
from hipsynth.tuning.optimize.analysis.kernel_body import ASSIGN, STEP, Body
from hipsynth.tuning.optimize.analysis.program_constants import read_macro
from hipsynth.tuning.optimize.analysis.program_model import KernelDefinition, ParsedProgram
from hipsynth.tuning.optimize.analysis.statements import NotUnderstood, Statement, parse_statements
from hipsynth.tuning.optimize.transformation_plan import AXES, Shape
from hipsynth.tuning.optimize.transformations.lds_tile.staged_expression import (
    LOOP_AXIS,
    Axes,
    ExpressionStager,
    StagedExpression,
)


@dataclass(frozen=True)
class Definition:
    """A local constant: the offset of its declaration, type, name, tokens of its value, axes that it depends on."""

    place: int
    type: str
    name: str
    value: tuple[int, int]
    axes: Axes


@dataclass(frozen=True)
class Condition:
    """A condition of the work-item, as tokens [start, end), `negated` in the source; `axes`: what it depends on."""

    span: tuple[int, int]
    negated: bool
    axes: Axes


@dataclass(frozen=True)
class StagedLoad:
    """Reads of `pointer[...]`, or expressions of one, at tokens that have the same text; `along_loop`: neighbours along
    the loop are neighbours in memory."""

    span: tuple[int, int]
    pointer: str
    type: str
    axis: int
    along_loop: bool
    places: tuple[int, ...]  # first tokens


@dataclass
class TiledLoop:
    """What the kernel does around and in the loop. `indices`: the tokens that number work-items along an axis."""

    body: Body
    indices: dict[tuple[int, int], int]
    definitions: list[Definition] = field(default_factory=list)
    sums: list[Definition] = field(default_factory=list)  # the variables that the loop changes
    conditions: list[Condition] = field(default_factory=list)
    loop: Statement = field(default_factory=lambda: Statement("for", 0, 0))
    variable: Definition = field(default_factory=lambda: Definition(-1, "", "", (0, 0), frozenset()))
    bound: tuple[int, int] = (0, 0)
    loads: list[StagedLoad] = field(default_factory=list)
    after: list[Statement] = field(default_factory=list)
    fast_axis: int = 0  # along which neighbours store to neighbouring elements

    @property
    def steps(self) -> tuple[Statement, ...]:
        """The statements of an iteration."""
        (inner,) = self.loop.parts
        return inner.parts if inner.kind == "block" else (inner,)


def find_tiled_loop(program: ParsedProgram, kernel: KernelDefinition, block: Shape) -> TiledLoop:
    """The loop; raises NotUnderstood where the kernel is another one."""
    reader = make_reader(program, kernel, block)
    reader.read_around_loop(parse_statements(program.tokens, kernel.first, kernel.last))
    return reader.tiling


def find_transposed_loads(program: ParsedProgram, kernel: KernelDefinition, block: Shape) -> TiledLoop:
    """A kernel without a loop that loads along one axis what it stores along the other one; raises NotUnderstood where
    the kernel is another one. The loads are those to stage."""
    reader = make_reader(program, kernel, block)
    reader.read_transposition(parse_statements(program.tokens, kernel.first, kernel.last))
    return reader.tiling


def make_reader(program: ParsedProgram, kernel: KernelDefinition, block: Shape) -> TilingReader:
    """A reader of the kernel's loop for work-groups of shape `block`. Raises NotUnderstood for a body with calls that
    have effects, or with statements that cannot be tiled."""
    body = Body(program, kernel)
    body.check_plain()
    if any(t.identifier and has_effect(t.text) for t in body.tokens[kernel.first : kernel.last]):
        raise NotUnderstood("a function with effects")
    pointers = {parameter.name: parameter for parameter in kernel.parameters if parameter.base}
    return TilingReader(body, TiledLoop(body, dict(find_indices(body, block))), pointers)


def find_indices(body: Body, block: Shape) -> Iterator[tuple[tuple[int, int], int]]:
    """Tokens such as `blockIdx.x * blockDim.x + threadIdx.x`, with the axis. Raises for any other coordinate."""
    tokens, at, last = body.tokens, body.kernel.first, body.kernel.last
    while at < last:
        matched = next(((n, axis) for axis in (0, 1) for n in _index_lengths(body, at, axis, block[axis])), None)
        if matched is not None:
            yield (at, at + matched[0]), matched[1]
            at += matched[0]
            continue
        if tokens[at].text in COORDINATES:
            if tokens[at].text != "blockIdx" or tokens[at + 2].text != "z" or block[2] != 1:
                raise NotUnderstood("a coordinate that is not part of a work-item's number")
            at += 2
        at += 1


def _index_lengths(body: Body, at: int, axis: int, width: int) -> Iterator[int]:
    """How many tokens a work-item's number takes that begins at a token."""
    x = AXES[axis]
    thread, group = ["threadIdx", ".", x], ["blockIdx", ".", x]
    sizes = [["blockDim", ".", x], *([word] for word in _names_of(body, width))]
    for size in sizes:
        for product in ([*group, "*", *size], [*size, "*", *group]):
            for words in ([*product, "+", *thread], [*thread, "+", *product]):
                if [t.text for t in body.tokens[at : at + len(words)]] == words:
                    yield len(words)
    if width == 1 and [t.text for t in body.tokens[at : at + 4]][:3] == group and body.tokens[at + 3].text != "*":
        yield len(group)


def _names_of(body: Body, number: int) -> list[str]:
    """How the source may spell a number."""
    program = body.program
    return [str(number), *(name for name in program.macros if read_macro(program, name) == number)]


@dataclass
class TilingReader:
    """Fills in a TiledLoop from the statements of a kernel."""

    body: Body
    tiling: TiledLoop
    pointers: dict[str, FunctionParameter]
    axes: dict[int, Axes] = field(default_factory=dict)  # that local constants depend on

    @property
    def tokens(self) -> tuple[Token, ...]:
        return self.body.tokens

    def read_transposition(self, statements: tuple[Statement, ...]) -> None:
        """Reads a kernel that ends with one store."""
        self.read_before(statements)
        tiling, tokens = self.tiling, self.tokens
        if tiling.loop.end or len(tiling.after) != 1 or tiling.after[0].kind != "simple":
            raise NotUnderstood("not one store")
        (store,) = tiling.after
        close = find_closing(tokens, store.start + 1) + 1 if tokens[store.start + 1].text == "[" else store.start
        axis = self._find_memory_axis((store.start, close)) if tokens[close].text == "=" else None
        writes = sum(self.body.assigns(i, store.end) for i in range(store.start, store.end) if tokens[i].identifier)
        if axis is None or writes != 1:
            raise NotUnderstood("not a store along an axis")
        tiling.fast_axis = axis
        spans = [s for s in self._find_loads(close + 1, store.end) if self._find_memory_axis(s) == 1 - axis]
        self._add_loads([StagedExpression(span, span) for span in spans], frozenset({0, 1}))
        roots = self._find_roots()
        if not roots or self._find_root(store.start) in roots:
            raise NotUnderstood("no load along another axis than the store")

    def read_around_loop(self, statements: tuple[Statement, ...]) -> None:
        """Reads a kernel that has one loop."""
        self.read_before(statements)
        if not self.tiling.loop.end:
            raise NotUnderstood("no loop")
        self._read_loop()
        self._read_after()
        if {load.axis for load in self.tiling.loads} != {0, 1}:
            raise NotUnderstood("loads that work-items do not share along both axes")

    def read_before(self, statements: tuple[Statement, ...]) -> None:
        """Reads definitions and conditions before the loop, down to the loop itself; the rest is kept as what follows
        it. Raises NotUnderstood for other statements."""
        for number, statement in enumerate(statements):
            if statement.kind == "for":
                self.tiling.loop = statement
                self.tiling.after = list(statements[number + 1 :])
                return
            if statement.kind == "simple" and not self._declares(statement):
                self.tiling.after = list(statements[number:])
                return
            if statement.kind == "simple":
                self.tiling.definitions += self._read_definitions(statement)
            elif statement.kind == "if" and len(statement.parts) == 1:
                leaves = self.body.only_returns(statement.parts[0])
                self._add_conditions(statement.head, leaves)
                if leaves:
                    continue
                if number + 1 < len(statements):
                    raise NotUnderstood("statements after those under a condition")
                (branch,) = statement.parts
                self.read_before(branch.parts if branch.kind == "block" else (branch,))
                return
            else:
                raise NotUnderstood(f"a {statement.kind} statement before the loop")

    def _add_conditions(self, span: tuple[int, int], negated: bool) -> None:
        other = "&&" if negated else "||"
        for part in split_at(self.tokens, *span, "||" if negated else "&&"):
            if any(self.tokens[i].text in (other, "[") for i in range(*part)):
                raise NotUnderstood("a condition of another kind")
            axes = self.find_axes(part)
            if len(axes) > 1:
                raise NotUnderstood("a condition on two axes")
            self.tiling.conditions.append(Condition(part, negated, axes))

    def _read_definitions(self, statement: Statement) -> Iterator[Definition]:
        """The variables that a statement declares; each must have an initial value."""
        parts = split_at(self.tokens, statement.start, statement.end - 1, ",")
        kind = ""
        for number, (start, end) in enumerate(parts):
            at = next((i for i in range(start, end) if self.tokens[i].text == "="), end) - 1
            if at < start or self.tokens[at].start not in self.body.locals:
                raise NotUnderstood("a statement that is not a declaration with a value")
            if number == 0:
                kind = " ".join(t.text for t in self.tokens[start:at]).replace(" *", "*").replace(" :: ", "::")
            elif at != start or "*" in kind:
                raise NotUnderstood("pointers that are declared together")
            if not kind or {"&", "auto"} & set(kind.split()):
                raise NotUnderstood("a declaration of another kind")
            definition = Definition(
                self.tokens[at].start, kind, self.tokens[at].text, (at + 2, end), self.find_axes((at + 2, end))
            )
            self.axes[definition.place] = definition.axes
            yield definition

    def find_axes(self, span: tuple[int, int]) -> Axes:
        """The axes of the work that an expression depends on."""
        axes: set[int] = {axis for (a, b), axis in self.tiling.indices.items() if span[0] <= a and b <= span[1]}
        for i in range(*span):
            axes |= self.axes.get(self.body.local(self.tokens[i]), frozenset())
        return frozenset(axes)

    # --- the loop ----------------------------------------------------------------------------------------------------

    def _read_loop(self) -> None:
        tiling, tokens = self.tiling, self.tokens
        parts = split_at(tokens, *tiling.loop.head, ";")
        if len(parts) != 3:
            raise NotUnderstood("another loop")
        (a, b), (c, d), (e, f) = parts
        definitions = list(self._read_definitions(Statement("simple", a, b + 1)))
        if len(definitions) != 1:
            raise NotUnderstood("a loop of several variables")
        variable = definitions[0]
        compared = [tokens[c].text, tokens[c + 1].text] == [variable.name, "<"]
        stepped = [t.text for t in tokens[e:f]] in ([variable.name, "++"], ["++", variable.name])
        if not compared or not stepped or variable.axes or self.find_axes((c + 2, d)) or "*" in variable.type:
            raise NotUnderstood("a loop whose range differs among work-items, or with another step")
        if any(self.body.local(tokens[i]) == variable.place for i in range(c + 1, d)):
            raise NotUnderstood("a bound that moves")
        tiling.variable, tiling.bound = variable, (c + 2, d)
        self.axes[variable.place] = frozenset({LOOP_AXIS})
        outside = {definition.place for definition in tiling.definitions}
        written = self._find_written()
        tiling.sums = [local for local in tiling.definitions if local.place in written]
        tiling.definitions = [local for local in tiling.definitions if local.place not in written]
        if (
            not tiling.sums
            or any(local.axes or "*" in local.type for local in tiling.sums)
            or variable.place in written
        ):
            raise NotUnderstood("no sum, or one that begins differently")
        self._read_iteration(outside)

    def _find_written(self) -> set[int]:
        """Declarations of the local variables that are changed after they are declared, in the loop or after it."""
        loop, written = self.tiling.loop, set()
        for i in range(loop.head[1] + 1, self.body.kernel.last):
            place = self.body.local(self.tokens[i])
            writes = self.body.assigns(i, self.body.kernel.last) or self._takes_address(i)
            if self.tokens[i].identifier and writes and place != self.tokens[i].start:
                is_element = self.tokens[i + 1].text == "["
                if i < loop.end and (place < 0 or is_element):
                    raise NotUnderstood("a loop that stores")
                if not (is_element and self.body.is_pointer(place)):
                    written.add(place)
        return written

    def _takes_address(self, at: int) -> bool:
        before = self.tokens[at - 2]
        return self.tokens[at - 1].text == "&" and not (before.identifier or before.text in (")", "]"))

    def _read_iteration(self, outside: set[int]) -> None:
        tiling = self.tiling
        for statement in tiling.steps:
            if statement.kind != "simple":
                raise NotUnderstood(f"a {statement.kind} statement in the loop")
            if self._declares(statement):
                tiling.definitions += self._read_definitions(statement)
        sums = {local.place for local in tiling.sums}
        start, end = tiling.loop.head[1] + 1, tiling.loop.end
        staged = list(self._find_staged(start, end))
        for i in range(start, end):
            place = self.body.local(self.tokens[i])
            loaded = any(each.span[0] <= i < each.span[1] for each in staged)
            subscript = any(d.value[0] <= i < d.value[1] or d.place == self.tokens[i].start for d in tiling.definitions)
            if place in outside - sums and self.axes[place] and not loaded and not subscript:
                raise NotUnderstood("a use of a work-item's own number in the loop")
        self._add_loads(staged, frozenset({LOOP_AXIS}))

    def _find_staged(self, start: int, end: int) -> Iterator[StagedExpression]:
        """Expressions of loads, and the loads outside them, of an iteration's tokens."""
        tiling, tokens = self.tiling, self.tokens
        types = {local.place: local.type for local in tiling.definitions} | {tiling.variable.place: "int"}
        stager = ExpressionStager(self.body, self.find_axes, self._find_root, types)
        values = [local.value for local in tiling.definitions if start <= local.value[0] < end]
        for statement in tiling.steps:
            at = next((i for i in range(*statement.span) if tokens[i].text in ASSIGN), -1)
            if at >= 0 and not self._declares(statement):
                values.append((at + 1, statement.end - 1))
        staged = [expression for value in values for expression in stager.find(value)]
        yield from staged
        for span in self._find_loads(start, end):
            if not any(each.span[0] <= span[0] < each.span[1] for each in staged):
                yield StagedExpression(span, span)

    def _declares(self, statement: Statement) -> bool:
        return any(self.tokens[i].start in self.body.locals for i in range(statement.start, statement.end))

    def _find_loads(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Tokens of `pointer[...]` that depend on an axis, the outermost ones."""
        at = start
        while at < end:
            if self.tokens[at + 1].text == "[" and self.tokens[at].identifier:
                close = find_closing(self.tokens, at + 1) + 1
                if self.find_axes((at, close)) & {0, 1}:
                    yield at, close
                    at = close
                    continue
            at += 1

    def _add_loads(self, staged: list[StagedExpression], others: Axes) -> None:
        """Adds what depends on an axis of the work and `others`."""
        by_text: dict[tuple[str, ...], list[StagedExpression]] = {}
        for each in staged:
            by_text.setdefault(tuple(t.text for t in self.tokens[slice(*each.span)]), []).append(each)
        for same in by_text.values():
            span, load = same[0].span, same[0].load
            axes = self.find_axes(span)
            axis = next(iter(axes & {0, 1}))
            root = self._find_root(load[0])
            if axes != {axis} | others or self.tokens[span[1]].text in (".", "["):
                raise NotUnderstood("a load that depends on both axes, or not on the loop")
            self.tiling.loads.append(
                StagedLoad(
                    span,
                    self.tokens[load[0]].text,
                    same[0].type or self.pointers[root].base,
                    axis,
                    self._adds(load, frozenset({LOOP_AXIS})) and not self._adds(load, frozenset({axis})),
                    tuple(each.span[0] for each in same),
                )
            )

    def _find_roots(self) -> set[str]:
        """The pointer parameters that staged expressions read."""
        spans = [load.span for load in self.tiling.loads]
        reads = (i for span in spans for i in range(*span) if self.tokens[i + 1].text == "[")
        return {self._find_root(i) for i in reads}

    def _find_root(self, at: int) -> str:
        """The pointer parameter that a name stands for."""
        place = self.body.local(self.tokens[at])
        if place < 0 and self.tokens[at].text in self.pointers:
            return self.tokens[at].text
        definition = next((local for local in self.tiling.definitions if local.place == place), None)
        if definition is None or "*" not in definition.type:
            raise NotUnderstood("an array from elsewhere")
        return self._find_root(definition.value[0])

    def _adds(self, span: tuple[int, int], axes: Axes) -> bool:
        """Whether a subscript adds a variable that depends on these axes alone, as it is."""
        start, end, depth = span[0] + 2, span[1] - 1, 0
        place = self.body.local(self.tokens[start])
        if end == start + 1 and self.axes.get(place) != axes:  # the subscript has a name
            start, end = next((local.value for local in self.tiling.definitions if local.place == place), (start, end))
        for i in range(start, end):
            depth += (self.tokens[i].text in ("(", "[")) - (self.tokens[i].text in (")", "]"))
            first, last = i == start or self.tokens[i - 1].text == "+", i == end - 1 or self.tokens[i + 1].text in "+-"
            if depth == 0 and first and last and self.axes.get(self.body.local(self.tokens[i])) == axes:
                return True
        return False

    def _find_memory_axis(self, span: tuple[int, int]) -> int | None:
        """The one of x and y along which neighbouring work-items access neighbouring elements, if it is one."""
        along = [axis for axis in (0, 1) if self._adds(span, frozenset({axis}))]
        return along[0] if len(along) == 1 else None

    # --- after it ----------------------------------------------------------------------------------------------------

    def _read_after(self) -> None:
        tiling = self.tiling
        stored = False
        for statement in tiling.after:
            if any(part.kind == "jump" for part in statement.inner()):
                raise NotUnderstood("a jump after the loop")
            for i in range(statement.start, statement.end):
                operator = self.body.after_lvalue(i, statement.end) if self.tokens[i].identifier else ""
                if self.tokens[i + 1].text != "[" or operator not in (*ASSIGN, *STEP):
                    continue
                if self._find_root(i) in self._find_roots():
                    raise NotUnderstood("a store to what the loop reads")
                span = (i, find_closing(self.tokens, i + 1) + 1)
                if not stored:
                    tiling.fast_axis = self._find_memory_axis(span) or 0
                stored = True
        if not stored:
            raise NotUnderstood("no result")
