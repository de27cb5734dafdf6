"""Changes of statements to which all work-items of a group come: statements of a kernel itself, before which none
returns. The size of groups is a number, and whole wavefronts."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from hipsynth.source.edits import Edit, edit_text
from hipsynth.source.tokens import Span
from hipsynth.tuning.optimize.analysis.kernel_body import Body
from hipsynth.tuning.optimize.analysis.program_model import KernelDefinition, ParsedProgram
from hipsynth.tuning.optimize.analysis.statements import NotUnderstood, Statement, parse_statements
from hipsynth.tuning.optimize.helper_text import find_head, select_helpers
from hipsynth.tuning.optimize.source_changes.group_size import read_group_size
from hipsynth.tuning.optimize.source_changes.source_change import SourceChange

EditStatement = Callable[[Body, Statement, int], Iterator[Edit]]  # `int`: work-items of a group


def list_group_changes(
    program: ParsedProgram, edit_statement: EditStatement, why: str, helpers: str = ""
) -> Iterator[SourceChange]:
    """The program with such statements of a kernel changed, for each kernel that has some. `helpers`: definitions, of
    which those that the edits use are put before the kernel."""
    for kernel in program.kernels:
        try:
            edits = list(_edit_kernel(program, kernel, edit_statement))
        except NotUnderstood:
            continue
        if edits:
            used = " ".join(edit.text for edit in edits)
            if definitions := select_helpers(helpers, used, program.text):
                head = find_head(program.unit.text, kernel.start)
                edits.append(Edit(head, head, definitions))
            text = edit_text(program.unit.text, edits)
            yield SourceChange(kernel.name, text, why)


def spell_expression(body: Body, span: Span) -> str:
    """The words of an expression; of a local constant, those of its value."""
    tokens = body.tokens
    place = body.local(tokens[span[0]]) if span[1] - span[0] == 1 else -1
    return "".join(token.text for token in tokens[slice(*body.constants.get(place, span))])


def _edit_kernel(program: ParsedProgram, kernel: KernelDefinition, edit_statement: EditStatement) -> Iterator[Edit]:
    lanes = read_group_size(program, kernel)
    if kernel.template or not lanes:
        return
    body = Body(program, kernel)
    body.check_plain()
    for statement in parse_statements(program.tokens, kernel.first, kernel.last):
        if body.may_return(statement):
            return
        yield from edit_statement(body, statement, lanes)
