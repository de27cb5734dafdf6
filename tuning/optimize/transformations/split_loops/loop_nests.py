"""Nests of counting loops with nothing between their heads: lanes share the iterations of all of them as one loop's, so
that a short outer loop leaves none without work, and neighbours follow the innermost variable."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence, Set

from hipsynth.source.edits import Edit
from hipsynth.source.tokens import find_closing, split_at
from hipsynth.tuning.optimize.analysis.counting_loops import CountingLoop, read_counting_nest
from hipsynth.tuning.optimize.analysis.kernel_body import Body
from hipsynth.tuning.optimize.analysis.statements import Statement

_BETWEEN = re.compile(r"[\s{]*")


def read_loop_nest(body: Body, statement: Statement, changing: Set[int]) -> tuple[CountingLoop, ...]:
    """The loops of a nest, the outermost first; none for a single loop, or where neighbouring iterations of an outer
    one touch neighbouring elements. `changing`: the variables that change in it. They have fewer than 2^32 iterations
    together, which one work-item would need minutes for."""
    loops = list(_list_independent(body, read_counting_nest(body, statement)[0], changing))
    if loops and _is_left(body, loops[-1].statement):
        loops.pop()
    if len(loops) < 2:
        return ()
    fast = [loop for loop in loops if _moves_by_one(body, loops[-1].statement, loop.place)]
    return () if fast and fast[-1] is not loops[-1] else tuple(loops)


def _list_independent(body: Body, loops: Sequence[CountingLoop], changing: Set[int]) -> Iterator[CountingLoop]:
    """The first loops of a nest whose bounds stay, with nothing between their heads."""
    for number, loop in enumerate(loops):
        words = body.tokens[slice(*loop.bound_span)]
        is_plain = all(word.identifier or word.text.isdigit() or word.text in ("+", "-", "*", ".") for word in words)
        is_bare = number == 0 or _follows_head(body, loops[number - 1].statement, loop.statement)
        if not is_plain or not is_bare or any(body.local(word) in changing for word in words):
            return
        yield loop


def write_counts(nest: Sequence[CountingLoop]) -> str:
    """Declarations of the numbers of iterations, before the loop."""
    counts = (f"{loop.name}_count = {loop.bound} > 0 ? {loop.bound} : 0" for loop in nest)
    return f"const unsigned {', '.join(counts)};\n  "


def list_nest_names(nest: Sequence[CountingLoop]) -> set[str]:
    """The names that the new code declares."""
    return {f"{loop.name}_count" for loop in nest} | {_name_index(nest)}


def edit_nest(body: Body, nest: Sequence[CountingLoop], first: str, lanes: int, after: str) -> Iterator[Edit]:
    """The edits that make one loop of a nest, which begins at `first` with a step of `lanes`; `after`: what follows."""
    tokens, outer, inner = body.tokens, nest[0].statement, nest[-1].statement
    index, block = _name_index(nest), inner.parts[0]
    total = " * ".join(f"{loop.name}_count" for loop in nest)
    head = f"unsigned {index} = {first}; {index} < {total}; {index} += {lanes}"
    values = "".join(f"\n    const {text};" for text in _list_values(nest, index))
    opened = tokens[block.start].end if block.kind == "block" else tokens[block.start].start
    inside = "" if block.kind == "block" else "\n    "
    closed = "" if block.kind == "block" else "\n  }"
    yield Edit(tokens[outer.head[0]].start, opened, f"{head}) {{{values}{inside}")
    yield Edit(tokens[inner.end - 1].end, tokens[outer.end - 1].end, f"{closed}{after}")


def _list_values(nest: Sequence[CountingLoop], index: str) -> Iterator[str]:
    """The variables of the loops by the index of the one that there is, the innermost first."""
    rest = index
    for number, loop in enumerate(reversed(nest)):
        is_outermost = number == len(nest) - 1
        yield f"{loop.type} {loop.name} = {rest if is_outermost else f'{rest} % {loop.name}_count'}"
        rest += f" / {loop.name}_count"


def _name_index(nest: Sequence[CountingLoop]) -> str:
    return "_".join(loop.name for loop in nest)


def _follows_head(body: Body, outer: Statement, inner: Statement) -> bool:
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
