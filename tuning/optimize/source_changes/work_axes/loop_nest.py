"""Loops in loops become one: tiles are staged along one loop.

`for (c...) for (r...) for (s...) sum += x[...] * w[...];`, each from 0 in steps of 1 with a bound that no other loop
changes, runs over `term` and works out c, r and s by division. Additions stay in their order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hipsynth.source.edits import Edit, apply_edits
from hipsynth.source.tokens import split_at, text_between
from hipsynth.tuning.optimize.function_text import choose_free_name
from hipsynth.tuning.optimize.kernel_body import Body
from hipsynth.tuning.optimize.program_model import KernelDefinition, ParsedProgram
from hipsynth.tuning.optimize.statements import NotUnderstood, Statement, parse_statements


@dataclass(frozen=True)
class _CountedLoop:
    """`for (type name = 0; name < bound; ++name)`; `place`: the offset of the variable's declaration."""

    place: int
    type: str
    name: str
    bound: str


def merge_loops(program: ParsedProgram, kernel: KernelDefinition) -> str | None:
    """The program with each nest of the kernel's loops as one loop; None if it has none. Raises NotUnderstood."""
    body = Body(program, kernel)
    body.check_plain()
    edits = list(_edit_nests(body, parse_statements(program.tokens, kernel.first, kernel.last)))
    return apply_edits(program.unit.text, edits).decode(errors="surrogateescape") if edits else None


def _edit_nests(body: Body, statements: tuple[Statement, ...]) -> Iterator[Edit]:
    for statement in statements:
        loops, inner = _read_nest(body, statement)
        if len(loops) > 1:
            yield from _write_merged(body, statement, loops, inner)
        else:
            yield from _edit_nests(body, statement.parts)


def _read_nest(body: Body, statement: Statement) -> tuple[list[_CountedLoop], Statement]:
    """The loops that have nothing but one loop in them, and the statement of the innermost."""
    loops: list[_CountedLoop] = []
    while statement.kind == "for" and (loop := _read_loop(body, statement)) is not None:
        loops.append(loop)
        (inner,) = statement.parts
        is_nested = inner.kind == "block" and len(inner.parts) == 1 and inner.parts[0].kind == "for"
        statement = inner.parts[0] if is_nested else inner
    return loops, statement


def _read_loop(body: Body, statement: Statement) -> _CountedLoop | None:
    tokens = body.tokens
    parts = split_at(tokens, *statement.head, ";")
    declared = [i for i in range(*statement.head) if tokens[i].start in body.locals]
    if len(parts) != 3 or len(declared) != 1:
        return None
    (a, b), (c, d), (e, f) = parts
    (at,) = declared
    name = tokens[at].text
    begins = [token.text for token in tokens[at:b]] == [name, "=", "0"] and at > a
    steps = [token.text for token in tokens[e:f]] in ([name, "++"], ["++", name])
    if not begins or not steps or [token.text for token in tokens[c : c + 2]] != [name, "<"]:
        return None
    bound = text_between(body.program.unit, tokens, c + 2, d)
    kind = text_between(body.program.unit, tokens, a, at)
    return _CountedLoop(tokens[at].start, kind, name, bound if d == c + 3 else f"({bound})")


def _write_merged(body: Body, statement: Statement, loops: list[_CountedLoop], inner: Statement) -> Iterator[Edit]:
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
