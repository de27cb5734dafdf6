"""Loops in loops become one: tiles are staged along one loop.

`for (c...) for (r...) for (s...) sum += x[...] * w[...];`, each from 0 in steps of 1 with a bound that no other loop
changes, runs over `term` and works out c, r and s by division. Additions stay in their order.
"""

from __future__ import annotations

from collections.abc import Iterator

from hipsynth.source.edits import Edit, edit_text
from hipsynth.tuning.optimize.analysis.counting_loops import CountingLoop, read_counting_nest
from hipsynth.tuning.optimize.analysis.kernel_body import Body
from hipsynth.tuning.optimize.analysis.program_model import KernelDefinition, ParsedProgram
from hipsynth.tuning.optimize.analysis.statements import NotUnderstood, Statement, parse_statements
from hipsynth.tuning.optimize.function_text import choose_free_name


def merge_loops(program: ParsedProgram, kernel: KernelDefinition) -> str | None:
    """The program with each nest of the kernel's loops as one loop; None if it has none. Raises NotUnderstood."""
    body = Body(program, kernel)
    body.check_plain()
    edits = list(_edit_nests(body, parse_statements(program.tokens, kernel.first, kernel.last)))
    return edit_text(program.unit.text, edits) if edits else None


def _edit_nests(body: Body, statements: tuple[Statement, ...]) -> Iterator[Edit]:
    for statement in statements:
        loops, inner = read_counting_nest(body, statement)
        if len(loops) > 1:
            yield from _write_merged(body, statement, loops, inner)
        else:
            yield from _edit_nests(body, statement.parts)


def _write_merged(body: Body, statement: Statement, loops: list[CountingLoop], inner: Statement) -> Iterator[Edit]:
    tokens = body.tokens
    changed = body.changed((inner.start, inner.end)) | {loop.place for loop in loops}
    heads = range(statement.start, inner.start)
    bounds = [i for i in heads if tokens[i - 1].text == "<" and body.local(tokens[i]) in changed]
    moved = any(body.local(tokens[i]) in changed for i in heads if tokens[i].text not in {loop.name for loop in loops})
    jumps = any(part.kind == "jump" and tokens[part.start].text != "return" for part in inner.inner())
    if bounds or moved or jumps or len({loop.type for loop in loops}) > 1:
        raise NotUnderstood("loops that depend on each other")
    term = choose_free_name("term", body.program.text)
    total = " * ".join(loop.bound for loop in loops)
    values = []
    for number, loop in enumerate(loops):
        below = [each.bound for each in loops[number + 1 :]]
        divided = f"{term} / {below[0] if len(below) == 1 else '(' + ' * '.join(below) + ')'}" if below else term
        values.append(f"{loop.name} = {divided}" + (f" % {loop.bound}" if number else ""))
    kind = loops[0].type
    head = f"for ({kind} {term} = 0; {term} < {total}; ++{term}) {{\n  const {kind} {', '.join(values)};\n  "
    begins, ends = tokens[statement.start].start, tokens[statement.end - 1].end
    if inner.kind == "block":
        yield Edit(begins, tokens[inner.start].end, head)
        yield Edit(tokens[inner.end - 1].start, ends, "}")
    else:
        yield Edit(begins, tokens[inner.start].start, head)
        yield Edit(tokens[inner.end - 1].end, ends, "\n}")
