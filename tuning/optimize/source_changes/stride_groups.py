"""Fewer groups for kernels whose loops stride over their grid: `for (i = blockIdx.x * blockDim.x + threadIdx.x; i < n;
i += blockDim.x * gridDim.x)` does the same with any number of groups, which take time to start.

The host launches at most half of those that were timed, then a quarter and so on while that is faster; smaller launches
stay as they are. All that such a kernel does is in those loops, and each iteration is by itself: it knows its number
alone, and changes no variable that the next one finds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from hipsynth.profiling.backends.protocol import Target
from hipsynth.source.coordinates import COORDINATES
from hipsynth.source.edits import Edit, edit_text
from hipsynth.source.tokens import Span, find_closing, split_at
from hipsynth.tuning.optimize.analysis.effects import is_cooperation
from hipsynth.tuning.optimize.analysis.kernel_body import ASSIGN, Body
from hipsynth.tuning.optimize.analysis.polynomials import Monomial, PolynomialReader
from hipsynth.tuning.optimize.analysis.program_model import (
    KernelDefinition,
    LaunchStatement,
    ParsedProgram,
)
from hipsynth.tuning.optimize.analysis.statements import NotUnderstood, Statement, parse_statements
from hipsynth.tuning.optimize.evaluate import CandidateMeasurement
from hipsynth.tuning.optimize.launch_shape import cap_groups
from hipsynth.tuning.optimize.source_changes.integer_types import TYPE_WORDS
from hipsynth.tuning.optimize.source_changes.source_change import LEAST_CHANGED_SHARE, SourceChange, SourceChanger

FEWEST = 64  # groups that a launch keeps at least
FIRST = {("blockDim.x", "blockIdx.x"): 1, ("threadIdx.x",): 1}
STEP = {("blockDim.x", "gridDim.x"): 1}


def list_changes(program: ParsedProgram, timed: CandidateMeasurement, target: Target) -> Iterator[SourceChange]:
    """The program with half as many groups of a slow kernel at most, for each that has such loops alone."""
    for kernel in program.kernels:
        run = timed.of(kernel.name)
        if run is None or run.duration_ns < LEAST_CHANGED_SHARE * timed.duration_ns or run.grid[0] < 2 * FEWEST:
            continue
        try:
            _GridLoops(Body(program, kernel)).check()
            edits = [_edit_launch(program, kernel, launch, run.grid[0]) for launch in kernel.launches]
        except NotUnderstood:
            continue
        if edits:
            text = edit_text(program.unit.text, edits)
            yield SourceChange(kernel.name, text, "groups take longer to start than to work")


CHANGER = SourceChanger("SQ_WAVES", list_changes)


def _edit_launch(program: ParsedProgram, kernel: KernelDefinition, launch: LaunchStatement, timed: int) -> Edit:
    """The launch with at most half of the groups that were timed, rounded up to a power of two."""
    shape = cap_groups(program, launch.grid, 1 << (timed - 1).bit_length() - 1)
    written = program.unit.text[launch.start : launch.end].decode(errors="surrogateescape")
    name = re.search(rf"\b{re.escape(kernel.name)}\b\s*{re.escape(launch.template)}", written)
    at = written.find(launch.grid, name.end()) if name is not None else -1
    if at < 0:
        raise NotUnderstood("a launch that is written in another way")
    start = launch.start + len(written[:at].encode(errors="surrogateescape"))
    return Edit(start, start + len(launch.grid.encode(errors="surrogateescape")), shape)


class _NumberReader(PolynomialReader):
    """Reads numbers of work-items: constants of the kernel stand for their values, and casts change nothing."""

    def read_factor(self, start: int, end: int, depth: int) -> dict[Monomial, int]:
        tokens = self.body.tokens
        close = find_closing(tokens, start) if start < end and tokens[start].text == "(" else end
        if close < end - 1 and {token.text for token in tokens[start + 1 : close]} <= TYPE_WORDS:
            return self.read_factor(close + 1, end, depth)
        if start < end and tokens[start].text == "static_cast":
            opening = next(i for i in range(start, end) if tokens[i].text == "(")
            return self.read_factor(opening, end, depth)
        return super().read_factor(start, end, depth)

    def read_name(self, at: int, depth: int) -> dict[Monomial, int]:
        value = self.body.constants.get(self.body.local(self.body.tokens[at]))
        return super().read_name(at, depth) if value is None else self.read(value, depth + 1)


def _is_shared(word: str) -> bool:
    """Whether a word says that an iteration is not by itself."""
    return is_cooperation(word) or "tomic" in word


@dataclass(frozen=True)
class _GridLoops:
    body: Body

    def check(self) -> None:
        """Raises NotUnderstood for a kernel that does more than to stride over its grid."""
        tokens, kernel = self.body.tokens, self.body.kernel
        self.body.check_plain(lambdas=True)
        words = {token.text for token in tokens[kernel.first : kernel.last]}
        if any(map(_is_shared, words)) or self.body.program.has_barrier(kernel.first, kernel.last):
            raise NotUnderstood("a kernel whose work-items work together")
        if self.body.changes_parameter() or any(map(self._is_particular, self.body.program.functions)):
            raise NotUnderstood("iterations that change a parameter, or functions that know their work-item")
        loops, starts = 0, dict[str, Span]()
        for statement in parse_statements(tokens, kernel.first, kernel.last):
            if statement.kind == "for":
                self._check_loop(statement, starts)
                loops += 1
            else:
                starts |= self._read_declaration(statement)
        if not loops:
            raise NotUnderstood("no loop")

    def _is_particular(self, function: KernelDefinition) -> bool:
        """Whether a function of the program knows its work-item or group, or works together with others."""
        words = {token.text for token in self.body.tokens[function.first : function.last]}
        return bool(words & COORDINATES) or any(map(_is_shared, words))

    def _read_declaration(self, statement: Statement) -> Mapping[str, Span]:
        """The variable that a statement declares, with its value; a statement may do nothing else."""
        tokens, body = self.body.tokens, self.body
        declared = [i for i in range(*statement.span) if tokens[i].start in body.locals]
        if statement.kind != "simple" or (not declared and tokens[statement.start].text not in ("using", "constexpr")):
            raise NotUnderstood("a statement outside of the loops")
        others = (i for i in range(*statement.span) if i not in declared and tokens[i].identifier)
        if any(body.assigns(i, statement.end) for i in others):
            raise NotUnderstood("a statement outside of the loops that assigns")
        functions = {function.name for function in body.program.functions}
        if any(tokens[i].text in functions for i in range(*statement.span)):
            raise NotUnderstood("a function that is called outside of the loops")
        if len(declared) == 1 and tokens[declared[0] + 1].text == "=":
            return {tokens[declared[0]].text: (declared[0] + 2, statement.end - 1)}
        return {}

    def _check_loop(self, loop: Statement, starts: Mapping[str, Span]) -> None:
        tokens, body = self.body.tokens, self.body
        first, condition, step = split_at(tokens, *loop.head, ";")
        declared = [i for i in range(*first) if tokens[i].start in body.locals]
        at = declared[0] if len(declared) == 1 else condition[0]
        name = tokens[at].text
        value = (at + 2, first[1]) if declared else starts.get(name)
        reader = _NumberReader(body)
        if value is None or (not declared and first[0] < first[1]) or reader.read(value) != FIRST:
            raise NotUnderstood("a loop that does not begin with the number of the work-item")
        words = [token.text for token in tokens[slice(*step)]]
        if words[:2] != [name, "+="] or reader.read((step[0] + 2, step[1])) != STEP:
            raise NotUnderstood("a loop that does not stride over the grid")
        if [token.text for token in tokens[condition[0] : condition[0] + 2]] != [name, "<"]:
            raise NotUnderstood("a loop with another condition")
        self._check_iteration(loop, condition)

    def _check_iteration(self, loop: Statement, condition: Span) -> None:
        """An iteration knows its number, and changes no variable from outside of it."""
        tokens, body = self.body.tokens, self.body
        (inside,) = loop.parts
        inner_locals = {tokens[i].start for i in range(*inside.span) if tokens[i].start in body.locals}
        for i in [*range(*condition), *range(*inside.span)]:
            place = body.local(tokens[i])
            if tokens[i].text in COORDINATES or self._knows_grid(place):
                raise NotUnderstood("an iteration that knows its group")
            is_element = tokens[i + 1].text == "[" and body.is_pointer(place)
            changes = place >= 0 and place not in inner_locals and not is_element and body.assigns(i, inside.end)
            if changes:
                raise NotUnderstood("an iteration that changes a variable of the loop")
        if any(part.kind == "jump" and tokens[part.start].text != "continue" for part in inside.inner()):
            raise NotUnderstood("an iteration that ends the loop")
        self._check_elements(inside.span, tokens[condition[0]].text)

    def _check_elements(self, span: Span, number: str) -> None:
        """Elements of arrays that an iteration both reads and changes are its own: the next one of the same work-item
        would find them changed. `number`: the loop's variable."""
        tokens, body, reader = self.body.tokens, self.body, _NumberReader(self.body)
        pointers = {parameter.name for parameter in body.kernel.parameters if parameter.base}
        names = [i for i in range(*span) if tokens[i].text in pointers or body.is_pointer(body.local(tokens[i]))]
        written = {tokens[i].text for i in names if body.assigns(i, span[1])}
        read = {tokens[i].text for i in names if not body.assigns(i, span[1]) or body.after_lvalue(i, span[1]) != "="}
        for i in names:
            if tokens[i].text not in written & read:
                continue
            subscript = (i + 2, find_closing(tokens, i + 1)) if tokens[i + 1].text == "[" else (i, i)
            if not any(number in monomial for monomial in reader.read(subscript)):
                raise NotUnderstood("an iteration that changes what another one reads")
        if any(tokens[i].text in ASSIGN - {"="} and tokens[i - 1].text == ")" for i in range(*span)):
            raise NotUnderstood("an iteration that changes an element of unknown place")

    def _knows_grid(self, place: int) -> bool:
        """Whether a variable from outside of the loop is worked out from the numbers of groups or work-items."""
        value = self.body.constants.get(place)
        if value is None:
            return False
        tokens = self.body.tokens
        return any(tokens[i].text in COORDINATES or self._knows_grid(self.body.local(tokens[i])) for i in range(*value))
