"""A row in registers: loops over the same elements, one after another, load them once.

A softmax finds the largest element of a row, adds up exponentials, and writes them divided: three loops of the same
lanes over the same elements. Where a lane has enough iterations, it keeps the elements of the first ones in an array
that unrolled loops keep in registers; elements that the loops store go to memory once, after the last of them. What is
left of longer rows, and rows of lanes with fewer iterations, go through the loops as they were.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hipsynth.profiling.backends.protocol import Target
from hipsynth.source.edits import Edit, edit_text, join_insertions
from hipsynth.source.layout import lay_out
from hipsynth.tuning.optimize.analysis.kernel_body import Body
from hipsynth.tuning.optimize.analysis.program_model import KernelDefinition, ParsedProgram
from hipsynth.tuning.optimize.analysis.statements import NotUnderstood, Statement, parse_statements
from hipsynth.tuning.optimize.evaluate import CandidateMeasurement
from hipsynth.tuning.optimize.source_changes.row_elements import RowElement, find_shared_rows
from hipsynth.tuning.optimize.source_changes.row_loops import RowLoop, RowReader, read_source
from hipsynth.tuning.optimize.source_changes.source_change import LEAST_CHANGED_SHARE, SourceChange, SourceChanger

COUNTS = (16, 8, 32, 4)  # elements that a lane keeps
MOST_BYTES = 128  # of a lane's elements: a quarter of the registers that leave room for four wavefronts


def list_changes(program: ParsedProgram, timed: CandidateMeasurement, target: Target) -> Iterator[SourceChange]:
    """The program with the first such loops of a kernel, or of a function of one, changed, for several counts."""
    for function in (*program.kernels, *program.functions):
        name = function.name.removesuffix("_item")
        run = timed.of(name)
        if run is None or run.duration_ns < LEAST_CHANGED_SHARE * timed.duration_ns:
            continue
        try:
            yield from _list_counts(program, function, name)
        except NotUnderstood:
            continue


def _list_counts(program: ParsedProgram, function: KernelDefinition, name: str) -> Iterator[SourceChange]:
    """The program with the first such loops of a function changed, for each count of elements that fits."""
    reader = RowReader(Body(program, function))
    tree = parse_statements(program.tokens, function.first, function.last)
    rows = (find_shared_rows(reader, loops) for loops in reader.list_rows(tree))
    loops, elements = next((row for row in rows if row is not None), ((), ()))
    for count in COUNTS if loops else ():
        if count * sum(element.bytes for element in elements) <= MOST_BYTES:
            edits = join_insertions(_RowRegisterWriter(reader, loops, elements).write_edits(count))
            text = edit_text(program.unit.text, edits)
            yield SourceChange(name, text, "loops over a row load its elements again")


CHANGER = SourceChanger("TCP_TOTAL_CACHE_ACCESSES", list_changes, alternatives=True)


@dataclass(frozen=True)
class _RowRegisterWriter:
    """Writes loops over the same elements."""

    reader: RowReader
    loops: tuple[RowLoop, ...]
    elements: tuple[RowElement, ...]

    def write_edits(self, count: int) -> Iterator[Edit]:
        """The edits for so many elements of a lane. Raises NotUnderstood for names that the function has."""
        for name in (
            "row_begin",
            "row_rest",
            "row_i",
            "fills_row",
            *(f"{each.name}_registers" for each in self.elements),
        ):
            self.reader.check_new(name)
        declarations, first = self._write_declarations(count), self.loops[0]
        if first.sibling is first.statement:
            yield self._replace_loop(first, [*declarations, *self._write_loop(first, count)])
        else:
            start, indent = self.reader.find_begin(first.sibling), self.reader.read_indent(first.sibling)
            yield Edit(start, start, "".join(f"{line}\n{indent}" for line in declarations))
            yield self._replace_loop(first, self._write_loop(first, count))
        for loop in self.loops[1:]:
            yield self._replace_loop(loop, self._write_loop(loop, count))

    def _replace_loop(self, loop: RowLoop, lines: Sequence[str]) -> Edit:
        """Other lines in place of a loop, and of its pragma."""
        text, begin = self.reader.body.program.unit.text, self.reader.find_begin(loop.statement)
        indent = self.reader.read_indent(loop.statement)
        laid_out = lay_out("\n".join(line for line in lines if line)).split("\n")
        changed = "\n".join(line if line.startswith("#") else indent + line for line in laid_out)
        at_margin = text[begin - 1 : begin] == b"\n"  # as a pragma may be
        end = self.reader.body.tokens[loop.statement.end - 1].end
        return Edit(begin, end, changed if at_margin else changed.removeprefix(indent))

    def _write_declarations(self, count: int) -> list[str]:
        head = self.reader.read_steps(self.loops[0], "row_begin")
        arrays = [f"{each.type} {each.name}_registers[{count}];" for each in self.elements]
        names = " and ".join(each.name for each in self.elements)
        rule = f"with {count} elements of {names} or more keep the first {count} in registers"
        return [
            f"// Lanes {rule} for the loops below.",
            *arrays,
            f"const {head.type} row_begin = {head.init};",
            f"const bool fills_row = row_begin + {_write_offset(count - 1, head.step)} < {head.bound};",
            f"const {head.type} row_rest = fills_row ? row_begin + {_write_offset(count, head.step)} : row_begin;",
        ]

    def _write_loop(self, loop: RowLoop, count: int) -> list[str]:
        """A loop over the elements in registers, then one over those that are left."""
        reader, tokens = self.reader, self.reader.body.tokens
        variable = next(token.text for token in tokens if token.start == loop.variable)
        head = reader.read_steps(loop, variable)
        (inside,) = loop.statement.parts
        used = [each for each in self.elements if each.uses.get(loop)]
        loads = [each for each in used if each.loaded and loop is each.first_loop]
        stores = [each for each in used if each.stored and loop is each.last_loop]
        begin = reader.find_begin(loop.statement)
        pragma = reader.body.program.unit.text[begin : tokens[loop.statement.start].start].decode().split("\n")[:-1]
        rest = f"for ({head.type} {variable} = row_rest; {variable} < {head.bound}; {variable} += {head.step})"
        return [
            "if (fills_row) {",
            "#pragma unroll",
            f"for (int row_i = 0; row_i < {count}; ++row_i) {{",
            f"const {head.type} {variable} = row_begin + {_write_offset('row_i', head.step)};",
            *(f"{each.name}_registers[row_i] = {each.write(reader, loop)};" for each in loads),
            self._write_iteration(inside, used, loop),
            *(f"{each.write(reader, loop)} = {each.name}_registers[row_i];" for each in stores),
            "}",
            "}",
            *pragma,
            f"{rest} {read_source(reader.body, inside.span)}",
        ]

    def _write_iteration(self, inside: Statement, used: Sequence[RowElement], loop: RowLoop) -> str:
        """The statements of an iteration with elements in registers."""
        tokens, text = self.reader.body.tokens, self.reader.body.program.unit.text
        is_block = inside.kind == "block"
        start = tokens[inside.start].end if is_block else tokens[inside.start].start
        end = tokens[inside.end - 1].start if is_block else tokens[inside.end - 1].end
        edits = [
            Edit(tokens[a].start - start, tokens[b - 1].end - start, f"{element.name}_registers[row_i]")
            for element in used
            for a, b in element.uses[loop]
        ]
        return edit_text(text[start:end], edits).strip()


def _write_offset(count: int | str, step: str) -> str:
    return str(count) if step == "1" else f"{count} * {step}"
