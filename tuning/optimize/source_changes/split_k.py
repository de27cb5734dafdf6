"""Split-K: where a grid is too small to fill the device, groups of its own add up each part of a long loop.

A kernel that adds up sums in a loop and then uses them becomes two: the first has the loop over a part of its range,
chosen by blockIdx.z, and keeps its sums in a workspace; the second adds those of all parts, always in the same order,
and does the rest. It is launched where the grid is small; the kernel as it was serves larger ones, and those for which
there is no workspace. Loops may stage tiles in the LDS.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from hipsynth.profiling.backends.protocol import Target
from hipsynth.simulator import devices
from hipsynth.source.edits import Edit, edit_text
from hipsynth.source.layout import read_indent
from hipsynth.source.parse import Token
from hipsynth.source.tokens import Span, find_closing
from hipsynth.tuning.optimize.analysis.kernel_body import Body
from hipsynth.tuning.optimize.analysis.program_model import KernelDefinition, LaunchStatement, ParsedProgram
from hipsynth.tuning.optimize.analysis.statements import NotUnderstood, Statement, parse_statements
from hipsynth.tuning.optimize.evaluate import CandidateMeasurement
from hipsynth.tuning.optimize.function_text import bracket_operand
from hipsynth.tuning.optimize.launch_shape import write_dim3
from hipsynth.tuning.optimize.program_edits import edit_program
from hipsynth.tuning.optimize.source_changes.integer_types import IntegerTypes
from hipsynth.tuning.optimize.source_changes.row_loops import LoopSteps, RowLoop, RowReader
from hipsynth.tuning.optimize.source_changes.source_change import LEAST_CHANGED_SHARE, SourceChange, SourceChanger

MOST_PARTS = 64
FEWER = 4  # by which the second number of parts that is tried is less
GROUPS_OF_A_UNIT = 2  # work-groups per CU that the parts make
_CHANGING = re.compile(r"\+\+|--|(?<![<>=!])=(?!=)")
_ZERO = re.compile(r"=\{?(0(\.0?f?)?)?\}?")
_FUSED = frozenset({"fmaf", "fma"})


def list_changes(program: ParsedProgram, timed: CandidateMeasurement, target: Target) -> Iterator[SourceChange]:
    """The program with a kernel split, into as many parts as fill the device, and into fewer."""
    units = int(devices.load_device(target.device).spec()["topology.cus"])
    for kernel in program.kernels:
        run = timed.of(kernel.name)
        if run is None or run.duration_ns < LEAST_CHANGED_SHARE * timed.duration_ns or not run.same_shape:
            continue
        groups = math.prod(run.grid)
        if groups >= units or run.grid[2] > 1:
            continue
        try:
            split = _SplitKernel(program, kernel, _find_sums(Body(program, kernel)))
            parts = min(MOST_PARTS, 1 << int(math.log2(GROUPS_OF_A_UNIT * units / groups)))
            for count in (parts, parts // FEWER):
                if count > 1:
                    why = f"{groups} groups do not fill {units} CUs: {count} parts of the loop have groups of their own"
                    yield SourceChange(kernel.name, split.write_program(count, units), why)
        except NotUnderstood:
            continue


CHANGER = SourceChanger("SQ_WAVES", list_changes)


@dataclass(frozen=True)
class _Sum:
    """A variable that the loop adds to; `sizes`: of an array; `begins_at_zero`: whether its declaration says so."""

    name: str
    sizes: tuple[str, ...]
    begins_at_zero: bool

    @property
    def count(self) -> str:
        return " * ".join(self.sizes) or "1"


@dataclass(frozen=True)
class _SummingLoop:
    """`rest`: the statements after the loop, which use its sums."""

    reader: RowReader
    statement: Statement
    steps: LoopSteps
    variable: str
    kind: str
    sums: tuple[_Sum, ...]
    rest: tuple[Statement, ...]


def _find_sums(body: Body) -> _SummingLoop:
    """The loop of a kernel that adds up what the statements after it use. Raises NotUnderstood."""
    kernel, tokens = body.kernel, body.tokens
    words = [tokens[i].text + tokens[i + 1].text + tokens[i + 2].text for i in range(kernel.first, kernel.last - 1)]
    if {"blockIdx.z", "gridDim.z"} & set(words) or kernel.template:
        raise NotUnderstood("a kernel with groups along z, or a template")
    siblings = parse_statements(tokens, kernel.first, kernel.last)
    while siblings:
        for number, statement in enumerate(siblings):
            if statement.kind == "for" and number + 1 < len(siblings):
                return _read_sums(RowReader(body), statement, siblings[number + 1 :])
        last = siblings[-1]
        if last.kind == "block":
            siblings = last.parts
        elif last.kind == "if" and len(last.parts) == 1 and last.parts[0].kind == "block":
            siblings = last.parts[0].parts
        else:
            break
    raise NotUnderstood("no loop whose sums are used after it")


def _read_sums(reader: RowReader, statement: Statement, rest: tuple[Statement, ...]) -> _SummingLoop:
    body, tokens, kernel = reader.body, reader.body.tokens, reader.body.kernel
    declared = [i for i in range(*statement.head) if tokens[i].start in body.locals]
    if len(declared) != 1 or any(part.kind == "jump" for part in statement.inner()):
        raise NotUnderstood("a loop of another form")
    variable = tokens[declared[0]]
    (inside,) = statement.parts
    if variable.start in body.changed(inside.span):
        raise NotUnderstood("a loop that changes its variable")
    steps = reader.read_steps(RowLoop(statement, statement, variable.start, {}, ()), variable.text)
    bounds = [i for i in range(*statement.head) if tokens[i].identifier and body.local(tokens[i]) != variable.start]
    reader.check_unchanged((kernel.first, statement.start), [])
    reader.check_unchanged((statement.start, statement.end), bounds)
    begin, end = tokens[statement.start].start, tokens[statement.end - 1].start
    outside = [place for place in body.changed((statement.start, statement.end)) if not begin <= place <= end]
    shared = {place for place in outside if body.is_in_lds(place)}
    places = sorted(set(outside) - shared)
    used = {body.local(tokens[i]) for i in range(rest[0].start, rest[-1].end)}
    kinds = {reader.read_type(place) for place in places}
    if not places or used & shared or len(kinds) != 1 or not kinds <= {"float", "double", "int", "unsigned"}:
        raise NotUnderstood("a loop that passes on something else than sums of one type")
    for place in places:
        for value in _list_added(body, statement, place):
            if kinds <= {"int", "unsigned"} and not IntegerTypes(body).is_integer(value):
                raise NotUnderstood("an integer that may be rounded in each iteration")
    sums = tuple(_read_sum(body, place, statement.start) for place in places)
    return _SummingLoop(reader, statement, steps, variable.text, kinds.pop(), sums, rest)


def _list_added(body: Body, loop: Statement, place: int) -> Iterator[Span]:
    """What a loop adds to a variable: each value, or the sum with it. Raises NotUnderstood if the loop does anything
    else with the variable."""
    tokens = body.tokens
    uses = [i for i in range(loop.start, loop.end) if body.local(tokens[i]) == place]
    while uses:
        at = uses.pop(0)
        end = at + 1
        while tokens[end].text == "[":
            end = find_closing(tokens, end) + 1
        single = (part for part in loop.inner() if part.kind != "block" and not part.parts)
        statement = next((part for part in single if part.start <= at < part.end), None)  # None: in a condition
        name = [t.text for t in tokens[at:end]]
        if statement is None or statement.kind != "simple" or statement.start != at:
            raise NotUnderstood(f"{tokens[at].text} is used in the loop")
        if tokens[end].text == "+=":
            yield end + 1, statement.end - 1
            continue
        again = uses.pop(0) if uses and uses[0] < statement.end else -1
        plus = again == end + 1 and tokens[end + 1 + len(name)].text == "+"
        fused = tokens[end + 1].text in _FUSED and find_closing(tokens, end + 2) == statement.end - 2
        last = fused and tokens[again - 1].text == "," and again + len(name) == statement.end - 2
        if tokens[end].text != "=" or [t.text for t in tokens[again : again + len(name)]] != name or not (plus or last):
            raise NotUnderstood(f"{tokens[at].text} is not a sum")
        yield end + 1, statement.end - 1


def _read_sum(body: Body, place: int, loop: int) -> _Sum:
    tokens, at = body.tokens, body.find_declaration(place)
    sizes, end = [], at + 1
    while tokens[end].text == "[":
        close = find_closing(tokens, end)
        if close != end + 2:
            raise NotUnderstood("an array of another size than a number or name")
        sizes.append(tokens[end + 1].text)
        end = close + 1
    init = "".join(tokens[i].text for i in range(end, loop) if i < _end_of_initial_value(tokens, end))
    again = any(body.local(tokens[i]) == place for i in range(end, loop))
    return _Sum(tokens[at].text, tuple(sizes), not again and bool(_ZERO.fullmatch(init)))


def _end_of_initial_value(tokens: Sequence[Token], at: int) -> int:
    while tokens[at].text not in (",", ";"):
        at = find_closing(tokens, at) + 1 if tokens[at].text in ("{", "(") else at + 1
    return at


@dataclass(frozen=True)
class _SplitKernel:
    program: ParsedProgram
    kernel: KernelDefinition
    loop: _SummingLoop

    def write_program(self, parts: int, units: int) -> str:
        """The program with both kernels behind the original one, and its launches. Raises NotUnderstood."""
        for name in (
            "part",
            "part_first",
            "part_end",
            "part_lane",
            "part_lanes",
            "part_steps",
            "part_i0",
            "part_i1",
            "part_i2",
        ):
            self.loop.reader.check_new(name)
        names = {f"{self.kernel.name}_{end}" for end in ("parts", "sum")} | {
            "parts",
            "parts_grid",
            "parts_block",
            "parts_bytes",
        }
        if names & {token.text for token in self.program.tokens} or any(len(s.sizes) > 3 for s in self.loop.sums):
            raise NotUnderstood("names that the new code uses")
        if any(len(launch.rest) > 1 or launch.template or any(map(_CHANGING.search, launch.arguments))
               for launch in self.kernel.launches) or not self.kernel.launches:  # fmt: skip
            raise NotUnderstood("a launch on a stream, or whose arguments have effects")
        kernels = f"\n\n{self._write_parts(parts)}\n\n{self._write_sum(parts)}"
        edits = [Edit(self.kernel.end, self.kernel.end, kernels)]
        for launch in self.kernel.launches:
            edits.append(Edit(launch.start, launch.end, self._write_launch(launch, parts, units)))
        return edit_program(self.program, edits)

    @cached_property
    def _count(self) -> str:
        counts = [variable.count for variable in self.loop.sums]
        return str(sum(map(int, counts))) if all(c.isdigit() for c in counts) else f"({' + '.join(counts)})"

    def _write_kernel(self, note: str, suffix: str, parameter: str, edits: Sequence[Edit]) -> str:
        tokens, kernel = self.program.tokens, self.kernel
        at = next(i for i in range(len(tokens)) if tokens[i].start >= kernel.start and tokens[i].text == kernel.name)
        close = find_closing(tokens, at + 1)
        base = kernel.start
        more = [
            Edit(tokens[at].start, tokens[at].end, f"{kernel.name}_{suffix}"),
            Edit(tokens[close].start, tokens[close].start, f", {parameter}"),
        ]
        moved = [Edit(edit.start - base, edit.end - base, edit.text) for edit in (*more, *edits)]
        text = edit_text(self.program.unit.text[base : kernel.end], moved)
        return f"// {note}\n{text}"

    def _write_parts(self, parts: int) -> str:
        """The kernel with the loop over a part, and no statement after it."""
        loop, tokens, steps = self.loop, self.program.tokens, self.loop.steps
        kind, step = steps.type.replace("const ", ""), steps.step
        span, init = bracket_operand(steps.bound), bracket_operand(steps.init)
        span = span if steps.init == "0" else f"{span} - {init}"
        count = span if step == "1" else f"({span} + {step} - 1) / {step}"
        each = f"({count} + {parts - 1}) / {parts}" + (f" * {step}" if step != "1" else "")
        first = f"static_cast<{kind}>(blockIdx.z) * part_steps"
        first = first if steps.init == "0" else f"{init} + {first}"
        same = {f"{sign}{kind} {steps.bound}" for sign in ("", "const ")}
        typed = any(parameter.text in same for parameter in self.kernel.parameters)
        bound = steps.bound if typed else f"static_cast<{kind}>({steps.bound})"
        before = [
            *self._write_zeros(),
            f"const {kind} part_steps = {each};",
            f"const {kind} part_first = {first}, part_end = min({bound}, part_first + part_steps);",
        ]
        head = loop.statement.head
        next_one = f"++{loop.variable}" if step == "1" else f"{loop.variable} += {step}"
        new_head = f"{kind} {loop.variable} = part_first; {loop.variable} < part_end; {next_one}"
        start, opening = self._place(loop.statement, before)
        after, stores = self._place(
            loop.rest[0], [*self._write_lane(), *self._write_each("parts[AT] = NAME;", "blockIdx.z")]
        )
        pragma = self.program.unit.text[start : tokens[loop.statement.start].start].decode(errors="surrogateescape")
        edits = [
            Edit(start, tokens[loop.statement.start].start, opening + (pragma if pragma.strip() else self._indent)),
            Edit(tokens[head[0]].start, tokens[head[1]].start, new_head),
            Edit(after, tokens[loop.rest[-1].end - 1].end, stores.rstrip()),
        ]
        note = f"The sums of `{self.kernel.name}` over part blockIdx.z of {parts} of its loop."
        return self._write_kernel(note, "parts", f"{loop.kind}* parts", edits)

    def _write_sum(self, parts: int) -> str:
        """The kernel with the sums of all parts in place of the loop."""
        loop, tokens = self.loop, self.program.tokens
        lines = [
            *self._write_lane(),
            "#pragma unroll",
            f"for (int part = 0; part < {parts}; ++part) {{",
            *(line if line.startswith("#") else f"  {line}" for line in self._write_each("NAME += parts[AT];", "part")),
            "}",
        ]
        start, text = self._place(loop.statement, lines)
        edits = [Edit(start, tokens[loop.statement.end - 1].end, text.rstrip())]
        note = f"`{self.kernel.name}` with the sums of the parts of its loop, always added in this order."
        return self._write_kernel(note, "sum", f"const {loop.kind}* parts", edits)

    def _write_zeros(self) -> list[str]:
        """What begins at another value than 0 does so in the second kernel."""
        lines: list[str] = []
        for variable in self.loop.sums:
            lines += [] if variable.begins_at_zero else self._write_nest(variable, f"{self._element(variable)} = 0;")
        return lines

    def _write_lane(self) -> list[str]:
        return [
            "const size_t part_lanes = static_cast<size_t>(gridDim.x) * gridDim.y * blockDim.x * blockDim.y * "
            "blockDim.z;",
            "const size_t part_lane =",
            "    ((static_cast<size_t>(blockIdx.y) * gridDim.x + blockIdx.x) * blockDim.z + threadIdx.z) * "
            "(blockDim.x * blockDim.y) +",
            "    threadIdx.y * blockDim.x + threadIdx.x;",
        ]

    def _write_each(self, statement: str, part: str) -> list[str]:
        """A statement for each number of the sums. AT: its place in the workspace."""
        lines: list[str] = []
        offset: list[str] = []
        for variable in self.loop.sums:
            index = ""
            for number, size in enumerate(variable.sizes):
                inner = f"({index})" if " " in index else index
                index = f"{inner} * {size} + part_i{number}" if index else f"part_i{number}"
            total = " + ".join([*offset, index] if index else offset) or "0"
            row = f"{part} * {self._count} + {total}" if self._count != "1" else part
            place = f"({row}) * part_lanes + part_lane" if " " in row else f"{row} * part_lanes + part_lane"
            text = statement.replace("NAME", self._element(variable)).replace("AT", place)
            lines += self._write_nest(variable, text)
            offset.append(variable.count)
        return lines

    def _element(self, variable: _Sum) -> str:
        return variable.name + "".join(f"[part_i{number}]" for number in range(len(variable.sizes)))

    def _write_nest(self, one: _Sum, statement: str) -> list[str]:
        lines: list[str] = []
        for number, size in enumerate(one.sizes):
            lines += ["#pragma unroll", f"{'  ' * number}for (int part_i{number} = 0; part_i{number} < {size}; "
                      f"++part_i{number})"]  # fmt: skip
        return [*lines, "  " * len(one.sizes) + statement]

    # --- text --------------------------------------------------------------------------------------------------------

    @cached_property
    def _indent(self) -> str:
        return read_indent(self.program.unit.text, self.program.tokens[self.loop.statement.start].start)

    def _place(self, statement: Statement, lines: Sequence[str]) -> tuple[int, str]:
        """Where a statement begins, with a pragma before it, and lines to write there, each with its end."""
        text, start = self.program.unit.text, self.program.tokens[statement.start].start
        before = text[:start].rstrip()
        pragma = before.rfind(b"\n") + 1
        line = text.rfind(b"\n", 0, start) + 1
        joined = "".join(f"{added}\n" if added.startswith("#") else f"{self._indent}{added}\n" for added in lines)
        if before[pragma:].lstrip()[:1] == b"#":
            return pragma, joined
        return (line, joined) if not text[line:start].strip() else (start, joined.removeprefix(self._indent))

    def _write_launch(self, launch: LaunchStatement, parts: int, units: int) -> str:
        kind, name = self.loop.kind, self.kernel.name
        rest = "".join(f", {part}" for part in launch.rest)
        passed = ", ".join(launch.arguments)
        count = f"{parts} * {self._count}" if self._count != "1" else str(parts)
        lines = [
            f"const dim3 parts_grid = {write_dim3(launch.grid)}, parts_block = {write_dim3(launch.block)};",
            f"const size_t parts_bytes = sizeof({kind}) * {count} * parts_grid.x * parts_grid.y * parts_block.x * "
            "parts_block.y *",
            "                           parts_block.z;",
            f"{kind}* parts = nullptr;",
            f"// Few groups leave CUs idle: then {parts} groups share the loop of each.",
            f"const bool is_small = parts_grid.x * parts_grid.y < {units};",
            "if (is_small && hipMallocAsync(&parts, parts_bytes, nullptr) == hipSuccess) {",
            f"  {name}_parts<<<dim3(parts_grid.x, parts_grid.y, {parts}), parts_block{rest}>>>({passed}, parts);",
            f"  {name}_sum<<<parts_grid, parts_block{rest}>>>({passed}, parts);",
            "  (void)hipFreeAsync(parts, nullptr);",
            "} else {",
            f"  {name}<<<parts_grid, parts_block{rest}>>>({passed});",
            "}",
        ]
        indent = read_indent(self.program.unit.text, launch.start)
        return "{\n" + "".join(f"{indent}  {line}\n" for line in lines) + indent + "}"
