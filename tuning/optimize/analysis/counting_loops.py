"""Loops that count from zero, and nests of them."""

from __future__ import annotations

from dataclasses import dataclass

from hipsynth.source.tokens import split_at, text_between
from hipsynth.tuning.optimize.analysis.kernel_body import Body
from hipsynth.tuning.optimize.analysis.statements import Statement


@dataclass(frozen=True)
class CountingLoop:
    """`for (type name = 0; name < bound; ++name)`; `place`: the offset of the variable's declaration; `bound`: in
    brackets unless it is one word; `bound_span`: its tokens."""

    statement: Statement
    place: int
    type: str
    name: str
    bound: str
    bound_span: tuple[int, int]


def read_counting_nest(body: Body, statement: Statement) -> tuple[list[CountingLoop], Statement]:
    """The loops that have nothing but one loop in them, the outermost first, and the statement of the innermost."""
    loops: list[CountingLoop] = []
    while statement.kind == "for" and (loop := read_counting_loop(body, statement)) is not None:
        loops.append(loop)
        (inner,) = statement.parts
        is_nested = inner.kind == "block" and len(inner.parts) == 1 and inner.parts[0].kind == "for"
        statement = inner.parts[0] if is_nested else inner
    return loops, statement


def read_counting_loop(body: Body, statement: Statement) -> CountingLoop | None:
    """The loop, if it counts from zero in steps of one; None for others."""
    tokens = body.tokens
    parts = split_at(tokens, *statement.head, ";")
    declared = [i for i in range(*statement.head) if tokens[i].start in body.locals]
    if len(parts) != 3 or len(declared) != 1:
        return None
    (a, b), (c, d), (e, f) = parts
    (at,) = declared
    name = tokens[at].text
    begins = [token.text for token in tokens[at:b]] == [name, "=", "0"] and at > a
    steps = [token.text for token in tokens[e:f]] in ([name, "++"], ["++", name], [name, "+=", "1"])
    if not begins or not steps or [token.text for token in tokens[c : c + 2]] != [name, "<"] or d < c + 3:
        return None
    bound = text_between(body.program.unit, tokens, c + 2, d)
    kind = text_between(body.program.unit, tokens, a, at)
    return CountingLoop(statement, tokens[at].start, kind, name, bound if d == c + 3 else f"({bound})", (c + 2, d))
