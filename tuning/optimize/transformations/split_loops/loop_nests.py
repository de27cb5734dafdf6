"""Nests of counting loops with nothing between their heads: lanes share the iterations of all of them as one loop's, so
that a short outer loop leaves none without work, and neighbours follow the innermost variable."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass

from hipsynth.source.edits import Edit
from hipsynth.source.tokens import find_closing, split_at, text_between
from hipsynth.tuning.optimize.kernel_body import Body
from hipsynth.tuning.optimize.statements import Statement

_BETWEEN = re.compile(r"[\s{]*")


@dataclass(frozen=True)
class NestLevel:
    """`for (type name = 0; name < bound; ++name)`: the loop, its variable's declaration and name, and the bound."""

    statement: Statement
    variable: int
    declaration: str
    name: str
    bound: str


def read_loop_nest(body: Body, statement: Statement, changing: Set[int]) -> tuple[NestLevel, ...]:
    """The loops of a nest, the outermost first; none for a single loop, or where neighbouring iterations of an outer
    one touch neighbouring elements. `changing`: the variables that change in it. They have fewer than 2^32 iterations
    together, which one work-item would need minutes for."""
    levels: list[NestLevel] = []
    part: Statement | None = statement
    while part is not None and (level := _read_level(body, part, changing)) is not None:
        levels.append(level)
        inside = part.parts[0].parts if part.parts[0].kind == "block" else part.parts
        follows = len(inside) == 1 and inside[0].kind == "for" and _is_bare(body, part, inside[0])
        part = inside[0] if follows else None
    if levels and _is_left(body, levels[-1].statement):
        levels.pop()
    if len(levels) < 2:
        return ()
    fast = [level for level in levels if _moves_by_one(body, levels[-1].statement, level.variable)]
    return () if fast and fast[-1] is not levels[-1] else tuple(levels)


def write_counts(nest: Sequence[NestLevel]) -> str:
    """Declarations of the numbers of iterations, before the loop."""
    counts = (f"{level.name}_count = {level.bound} > 0 ? {level.bound} : 0" for level in nest)
    return f"const unsigned {', '.join(counts)};\n  "


def list_nest_names(nest: Sequence[NestLevel]) -> set[str]:
    """The names that the new code declares."""
    return {f"{level.name}_count" for level in nest} | {_name_index(nest)}


def edit_nest(body: Body, nest: Sequence[NestLevel], first: str, lanes: int, after: str) -> Iterator[Edit]:
    """The edits that make one loop of a nest, which begins at `first` with a step of `lanes`; `after`: what follows."""
    tokens, outer, inner = body.tokens, nest[0].statement, nest[-1].statement
    index, block = _name_index(nest), inner.parts[0]
    total = " * ".join(f"{level.name}_count" for level in nest)
    head = f"unsigned {index} = {first}; {index} < {total}; {index} += {lanes}"
    values = "".join(f"\n    const {text};" for text in _list_values(nest, index))
    opened = tokens[block.start].end if block.kind == "block" else tokens[block.start].start
    inside = "" if block.kind == "block" else "\n    "
    closed = "" if block.kind == "block" else "\n  }"
    yield Edit(tokens[outer.head[0]].start, opened, f"{head}) {{{values}{inside}")
    yield Edit(tokens[inner.end - 1].end, tokens[outer.end - 1].end, f"{closed}{after}")


def _list_values(nest: Sequence[NestLevel], index: str) -> Iterator[str]:
    """The variables of the loops by the index of the one that there is, the innermost first."""
    rest = index
    for number, level in enumerate(reversed(nest)):
        is_outermost = number == len(nest) - 1
        yield f"{level.declaration} = {rest if is_outermost else f'{rest} % {level.name}_count'}"
        rest += f" / {level.name}_count"


def _name_index(nest: Sequence[NestLevel]) -> str:
    return "_".join(level.name for level in nest)


def _read_level(body: Body, statement: Statement, changing: Set[int]) -> NestLevel | None:
    tokens, unit = body.tokens, body.program.unit
    parts = split_at(tokens, *statement.head, ";")
    if len(parts) != 3:
        return None
    (a, b), (c, d), (e, f) = parts
    name, variable = tokens[b - 3].text, tokens[b - 3].start
    begins = [token.text for token in tokens[b - 2 : b]] == ["=", "0"] and b - 3 > a and variable in body.locals
    runs = d - c >= 3 and [token.text for token in tokens[c : c + 2]] == [name, "<"]
    steps = [token.text for token in tokens[e:f]] in (["++", name], [name, "++"], [name, "+=", "1"])
    if not (begins and runs and steps):
        return None
    words = tokens[c + 2 : d]
    is_plain = all(token.identifier or token.text.isdigit() or token.text in ("+", "-", "*", ".") for token in words)
    if not is_plain or any(body.local(token) in changing for token in words):
        return None
    bound = text_between(unit, tokens, c + 2, d)
    return NestLevel(
        statement, variable, text_between(unit, tokens, a, b - 2), name, bound if d - c == 3 else f"({bound})"
    )


def _is_bare(body: Body, outer: Statement, inner: Statement) -> bool:
    """Whether nothing is written between the heads of two loops, no comment and no directive either."""
    start, end = body.tokens[outer.head[1]].end, body.tokens[inner.start].start
    return _BETWEEN.fullmatch(body.program.unit.text[start:end].decode(errors="surrogateescape")) is not None


def _is_left(body: Body, loop: Statement) -> bool:
    """Whether a `break` leaves a loop early."""
    inner = [part for part in loop.inner() if part is not loop and part.kind in ("for", "while")]
    breaks = (part for part in loop.inner() if part.kind == "jump" and body.tokens[part.start].text == "break")
    return any(not any(part.start <= jump.start < part.end for part in inner) for jump in breaks)


def _moves_by_one(body: Body, loop: Statement, variable: int) -> bool:
    """Whether a subscript in a loop grows by one with a variable: it is a term of its own."""
    tokens = body.tokens
    for i in range(*loop.span):
        if tokens[i].text == "[":
            for start, end in split_at(tokens, i + 1, find_closing(tokens, i), "+"):
                if end - start == 1 and body.local(tokens[start]) == variable:
                    return True
    return False
