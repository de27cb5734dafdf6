"""Applies edits to a program whose kernels may be launched before they are defined."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hipsynth.source.edits import Edit, edit_text, join_insertions
from hipsynth.source.outline import outline_kernels
from hipsynth.tuning.optimize.analysis.program_model import KernelDefinition, ParsedProgram
from hipsynth.tuning.optimize.helper_text import find_head


def edit_program(program: ParsedProgram, edits: Sequence[Edit]) -> str:
    """The program with these edits, and with declarations of kernels that they add or change where the originals are
    launched before they are defined. Raises EditConflict for edits that overlap."""
    return edit_text(program.unit.text, [*edits, *declare_early(program, edits)])


def declare_early(program: ParsedProgram, edits: Sequence[Edit]) -> list[Edit]:
    """Declarations of the kernels that edits at a kernel's definition add or change, before the function that launches
    it, if that comes first. What the program has already is declared there."""
    return join_insertions(
        declaration for kernel in program.kernels for declaration in _declare_changed(program, kernel, edits)
    )


def _declare_changed(program: ParsedProgram, kernel: KernelDefinition, edits: Sequence[Edit]) -> Iterator[Edit]:
    first = min((launch.start for launch in kernel.launches), default=kernel.end)
    callers = [function for function in program.declared if function.start <= first < function.end]
    if first > kernel.start or not callers:
        return
    at = find_head(program.unit.text, callers[0].start)
    begin = find_head(program.unit.text, kernel.start)
    definitions = "\n".join(edit.text for edit in edits if begin <= edit.start <= kernel.end)
    kernels = (each for each in outline_kernels(definitions) if each.body[0] < each.end)
    heads = (definitions[each.start : each.body[0] - 1].strip() for each in kernels)
    if declarations := "".join(f"{head};\n" for head in heads if head not in program.text):
        yield Edit(at, at, f"{declarations}\n")
