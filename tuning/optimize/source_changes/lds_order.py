"""The order of reductions through the LDS, where a loop between two of them is left out.

A group reads the result of the first one behind its last barrier, and the second one overwrites it. Kernels whose
wavefronts run through a loop between them often have no barrier there; without the loop, only a barrier keeps fast
wavefronts from overwriting what slow ones have not read.
"""

from __future__ import annotations

from collections.abc import Iterator

from hipsynth.tuning.optimize.analysis.statements import NotUnderstood, Statement, parse_statements
from hipsynth.tuning.optimize.source_changes.row_loops import RowLoop, RowReader, open_blocks

_BARRIER, _USE = "__syncthreads", "use"


def needs_barrier(reader: RowReader, first: RowLoop, second: RowLoop) -> bool:
    """Whether work-items may read the LDS between the last barrier before the second loop and that loop. Raises
    NotUnderstood where they do, and may not all come to it."""
    between = list(_list_between(reader, first, second))
    events = [event for statement in between for event in _list_events(reader, statement)]
    if _BARRIER not in events or events[-1] == _BARRIER:
        return False
    tokens = reader.body.tokens
    if any(tokens[i].text in ("return", "goto") for statement in between for i in range(*statement.span)):
        raise NotUnderstood("work-items that leave behind a barrier")
    if not any(_has_common_barrier(reader, statement) for statement in between):
        raise NotUnderstood("a barrier under a condition")
    return True


def _list_between(reader: RowReader, first: RowLoop, second: RowLoop) -> Iterator[Statement]:
    """The statements between two loops, out of plain blocks."""
    for statement in open_blocks(first.sibling):
        if statement.start >= first.statement.end:
            yield statement
    if first.sibling is not second.sibling:
        for sibling in parse_statements(reader.body.tokens, first.sibling.end, second.sibling.start):
            yield from open_blocks(sibling)
    for statement in open_blocks(second.sibling):
        if statement.end <= second.statement.start and first.sibling is not second.sibling:
            yield statement


def _has_common_barrier(reader: RowReader, statement: Statement) -> bool:
    """Whether a statement has a barrier to which all work-items come: under no condition but those of templates."""
    tokens, program = reader.body.tokens, reader.body.program
    parts = (_has_common_barrier(reader, part) for part in statement.parts)
    if statement.kind == "if":
        is_of_template = tokens[statement.start + 1].text == "constexpr" and len(statement.parts) == 2
        return is_of_template and all(parts)
    return any(parts) or (statement.kind == "simple" and program.has_barrier(*statement.span))


def _list_events(reader: RowReader, statement: Statement) -> Iterator[str]:
    """The barriers of a statement and its uses of the LDS, in order."""
    tokens, body = reader.body.tokens, reader.body
    for i in range(*statement.span):
        place = body.local(tokens[i])
        is_element = tokens[i + 1].text == "["
        if place >= 0 and body.is_in_lds(place):
            is_array = tokens[body.find_declaration(place) + 1].text == "["
            yield from (_USE,) if is_element or not is_array else ()  # an array alone is passed to a function
        elif place >= 0 and is_element and reader.points_to_lds(i):
            yield _USE
        elif place < 0:
            yield from _list_called(reader, tokens[i].text, frozenset())


def _list_called(reader: RowReader, name: str, callers: frozenset[str]) -> Iterator[str]:
    """The barriers and uses of arrays in a function that has barriers; a macro may use anything behind its own."""
    program = reader.body.program
    if name == _BARRIER:
        yield _BARRIER
    if name not in program.barriers or name in callers:
        return
    functions = [function for function in program.functions if function.name == name]
    for function in functions:
        for i in range(function.first, function.last):
            if program.tokens[i].identifier and program.tokens[i + 1].text == "[":
                yield _USE
            yield from _list_called(reader, program.tokens[i].text, callers | {name})
    if not functions:
        yield from (_BARRIER, _USE)
