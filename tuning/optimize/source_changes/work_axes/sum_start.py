"""Sums that begin with a value begin with 0, and the value is added behind the loop: tiles keep sums of all results."""

from __future__ import annotations

from collections.abc import Iterator

from hipsynth.source.edits import Edit, edit_text
from hipsynth.source.tokens import text_between
from hipsynth.tuning.optimize.analysis.kernel_body import Body
from hipsynth.tuning.optimize.analysis.program_model import KernelDefinition, ParsedProgram
from hipsynth.tuning.optimize.analysis.statements import NotUnderstood, Statement, parse_statements


def move_starts(program: ParsedProgram, kernel: KernelDefinition) -> str | None:
    """The program with the first values of the kernel's sums behind their loops; None if there are none. Raises
    NotUnderstood."""
    body = Body(program, kernel)
    body.check_plain()
    edits = list(_edit_lists(body, parse_statements(program.tokens, kernel.first, kernel.last)))
    return edit_text(program.unit.text, edits) if edits else None


def _edit_lists(body: Body, statements: tuple[Statement, ...]) -> Iterator[Edit]:
    """The edits of statements that follow each other, and of those inside them."""
    loops = [statement for statement in statements if statement.kind == "for"]
    for statement in statements:
        if statement.kind == "simple" and len(loops) == 1 and statement.end <= loops[0].start:
            yield from _edit_sum(body, statement, loops[0])
        elif statement.kind in ("block", "if"):
            yield from _edit_lists(body, statement.parts)


def _edit_sum(body: Body, statement: Statement, loop: Statement) -> Iterator[Edit]:
    """The edits of a declaration `T sum = value;` to which the loop only adds."""
    tokens = body.tokens
    declared = [i for i in range(*statement.span) if tokens[i].start in body.locals]
    if len(declared) != 1 or tokens[declared[0] + 1].text != "=":
        return
    name, first, end = tokens[declared[0]], declared[0] + 2, statement.end - 1
    uses = [i for i in range(statement.end, loop.end) if body.local(tokens[i]) == name.start]
    adds = [i for i in uses if tokens[i + 1].text == "+=" and tokens[i - 1].text in (";", "{", "}", ")")]
    is_plain = end == first + 1 and not tokens[first].identifier
    if not uses or uses != adds or uses[0] < loop.start or is_plain:
        return
    if {body.local(tokens[i]) for i in range(first, end)} & body.changed((statement.end, loop.end)):
        raise NotUnderstood("a first value that the loop changes")
    value = text_between(body.program.unit, tokens, first, end)
    yield Edit(tokens[first].start, tokens[end - 1].end, "0")
    at = tokens[loop.end - 1].end
    yield Edit(at, at, f"\n  {name.text} += {value};")
