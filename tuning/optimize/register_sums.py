"""Keeps an element that a loop changes in each iteration in a local variable, and stores it once after the loop.

In a kernel whose work-items exchange data, others may look at the element only behind a barrier: a loop without one is
changed, and one with barriers if the kernel uses the array at one subscript alone that tells work-items apart. Where it
may be another work-item's element, too, it is loaded and stored only if the loop changes it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from hipsynth.source.edits import Edit, edit_text, join_insertions
from hipsynth.source.layout import read_indent
from hipsynth.source.tokens import Span, find_closing, text_between
from hipsynth.tuning.optimize.analysis.kernel_body import Body
from hipsynth.tuning.optimize.analysis.loop_entry import changes_in_each_iteration, write_entry
from hipsynth.tuning.optimize.analysis.pointer_copies import is_passed_alone
from hipsynth.tuning.optimize.analysis.program_model import KernelDefinition, ParsedProgram
from hipsynth.tuning.optimize.analysis.statements import NotUnderstood, Statement, parse_statements
from hipsynth.tuning.optimize.loop_atomics import edit_loop_atomics

# In a subscript: what may give two work-items one element.
_MERGING = frozenset({"[", "->", ">>", "<<", "&", "|", "^", "?"})


@dataclass(frozen=True)
class RegisterSums:
    """The program with such elements in local variables, and the kernels that were changed."""

    text: str
    kernels: tuple[str, ...]


def keep_sums_in_registers(program: ParsedProgram) -> RegisterSums | None:
    """The program with all such loops changed; None if there is none."""
    edits: list[Edit] = []
    names = []
    for kernel in program.kernels:
        try:
            kernel_edits = list(_find_edits(program, kernel))
        except NotUnderstood:
            continue
        if kernel_edits:
            edits += kernel_edits
            names.append(kernel.name)
    if not edits:
        return None
    text = edit_text(program.unit.text, join_insertions(edits))
    return RegisterSums(text, tuple(names))


def _find_edits(program: ParsedProgram, kernel: KernelDefinition) -> Iterator[Edit]:
    body = Body(program, kernel)
    body.check_plain()
    statements = parse_statements(program.tokens, kernel.first, kernel.last)
    yield from _RegisterSumWriter(body).edit_siblings(statements, True)
    yield from edit_loop_atomics(body, statements)


@dataclass
class _RegisterSumWriter:
    body: Body
    names: set[str] = field(default_factory=set)  # that the new code declares

    def edit_siblings(self, statements: tuple[Statement, ...], listed: bool) -> Iterator[Edit]:
        """The edits of statements that follow each other; `listed`: declarations may stand between them."""
        for number, statement in enumerate(statements):
            elements = self._find_elements(statement) if statement.kind == "for" and listed else []
            for element in elements:
                first = self._find_first(statements[:number], element[0])
                entry = "" if first is not None else self._write_entry(statement, element)
                if entry is not None and (not entry or len(elements) == 1):
                    yield from self._write_edits(statement, element, first, entry)
            if not elements:
                yield from self.edit_siblings(statement.parts, statement.kind == "block")

    def _find_elements(self, loop: Statement) -> list[list[Span]]:
        """The uses of each element that the loop changes and that stays the same one."""
        if self.body.may_return(loop):
            return []
        program, kernel = self.body.program, self.body.kernel
        written = [each.name for each in kernel.parameters if each.base and not each.constant]
        names = [name for name in written if is_passed_alone(program, kernel, name)]
        uses = [self._find_uses(loop, name) for name in names if self._is_subscripted(name)]
        return [spans for spans in uses if spans and self._is_unobserved(loop, spans[0])]

    def _is_unobserved(self, loop: Statement, element: Span) -> bool:
        """Whether no other work-item uses the element while the loop runs."""
        kernel, tokens = self.body.kernel, self.body.tokens
        if not self.body.program.has_barrier(loop.start, loop.end):
            return True
        names = (i for i in range(kernel.first, kernel.last) if self._is_pointer(i, tokens[element[0]].text))
        texts = {self._read_text((i, find_closing(tokens, i + 1) + 1)) for i in names}
        return len(texts) == 1 and self._tells_items_apart(element)

    def _write_entry(self, loop: Statement, spans: list[Span]) -> str | None:
        """The condition under which the loop changes the element; "" where only this work-item has it, None where the
        loop may leave it alone."""
        if self._tells_items_apart(spans[0]):
            return ""
        is_changed = any(changes_in_each_iteration(self.body, loop, name) for name, _ in spans)
        return write_entry(self.body, loop) if is_changed else None

    def _tells_items_apart(self, element: Span) -> bool:
        """Whether a subscript is made of numbers alone, and has the coordinate of the work-item along each axis that
        the kernel uses."""
        kernel, tokens = self.body.kernel, self.body.tokens
        inside = self._list_origins((element[0] + 2, element[1] - 1))
        words = {tokens[i].text for i in inside}
        is_call = any(tokens[i].identifier and tokens[i + 1].text == "(" for i in inside)
        is_part = ("/" in words) != ("%" in words)
        if is_call or is_part or words & _MERGING:
            return False
        return self._read_axes(element) == self._read_axes((kernel.first, kernel.last)) != set()

    def _read_axes(self, span: Span) -> set[str]:
        """The axes of threadIdx in a piece of code, and in the initial values of the variables that it names."""
        tokens = self.body.tokens
        return {
            tokens[i + 2].text
            for i in self._list_origins(span)
            if tokens[i].text == "threadIdx" and tokens[i + 1].text == "."
        }

    def _list_origins(self, span: Span) -> list[int]:
        """The tokens of a piece of code, and of the initial values of the variables that it names."""
        kernel, tokens = self.body.kernel, self.body.tokens
        origins, todo, visited = list[int](), list(range(*span)), set[int]()
        while todo:
            i = todo.pop()
            origins.append(i)
            place = self.body.local(tokens[i])
            if place < 0 or place in visited:
                continue
            visited.add(place)
            at = self.body.find_declaration(place)
            if tokens[at + 1].text == "=":
                todo += range(at + 2, next(j for j in range(at, kernel.last) if tokens[j].text in (",", ";")))
        return origins

    def _is_pointer(self, at: int, name: str) -> bool:
        return self.body.tokens[at].text == name and self.body.local(self.body.tokens[at]) < 0

    def _is_subscripted(self, name: str) -> bool:
        """Whether the kernel uses a pointer as `name[...]` alone, and takes no element's address."""
        tokens, kernel = self.body.tokens, self.body.kernel
        return all(
            tokens[i + 1].text == "[" and tokens[i - 1].text != "&"
            for i in range(kernel.first, kernel.last)
            if self._is_pointer(i, name)
        )

    def _find_uses(self, loop: Statement, name: str) -> list[Span]:
        """The uses of `name[...]` in a loop, if it changes that one element; none otherwise."""
        tokens, inside = self.body.tokens, range(loop.start, loop.end)
        spans = [(i, find_closing(tokens, i + 1) + 1) for i in inside if self._is_pointer(i, name)]
        if not spans or len({self._read_text(span) for span in spans}) > 1:
            return []
        start, end = spans[0]
        changed = self.body.changed((loop.start, loop.end))
        moves = any(
            self.body.local(tokens[i]) in changed or tokens[i].text in ("[", "(") for i in range(start + 2, end)
        )
        writes = any(self.body.assigns(a, loop.end) for a, _ in spans)
        plain = all(tokens[b].text not in (".", "->", "[") for _, b in spans)
        return spans if writes and plain and not moves else []

    def _read_text(self, span: Span) -> str:
        return " ".join(token.text for token in self.body.tokens[span[0] : span[1]])

    def _find_first(self, before: tuple[Statement, ...], element: Span) -> Statement | None:
        """The statement before the loop that stores the element's first value, if there is one and none between them
        uses the array."""
        tokens = self.body.tokens
        for statement in reversed(before):
            if statement.kind != "simple" or tokens[statement.start + 1].text != "[":
                return None
            end = find_closing(tokens, statement.start + 1) + 1
            if self._read_text((statement.start, end)) == self._read_text(element):
                again = any(tokens[i].text == tokens[element[0]].text for i in range(end, statement.end))
                return statement if tokens[end].text == "=" and not again else None
            if any(tokens[i].text == tokens[element[0]].text for i in range(statement.start, statement.end)):
                return None
        return None

    def _write_edits(self, loop: Statement, spans: list[Span], first: Statement | None, entry: str) -> Iterator[Edit]:
        """`entry`: the condition under which the element is loaded and stored, "" for any."""
        tokens, unit = self.body.tokens, self.body.program.unit
        pointer = tokens[spans[0][0]].text
        kind = next(parameter.base for parameter in self.body.kernel.parameters if parameter.name == pointer)
        name = f"{pointer}_sum"
        if name in self.names or any(token.text == name for token in tokens):
            raise NotUnderstood("a name that the new code uses")
        self.names.add(name)
        element = text_between(unit, tokens, *spans[0])
        start, end = tokens[loop.start].start, tokens[loop.end - 1].end
        indent = read_indent(unit.text, start)
        opening, closing = (f"if ({entry}) {{\n{indent}", f"\n{indent}}}") if entry else ("", "")
        if first is None:
            yield Edit(start, start, f"{opening}{kind} {name} = {element};\n{indent}")
        else:
            close = find_closing(tokens, first.start + 1)
            yield Edit(tokens[first.start].start, tokens[close].end, f"{kind} {name}")
        for a, b in spans:
            yield Edit(tokens[a].start, tokens[b - 1].end, name)
        yield Edit(end, end, f"\n{indent}{element} = {name};{closing}")
