"""Sums of wavefronts: work-items of a group that add to one address by atomic additions wait for each other. Those of a
wavefront are added up by shuffles, and one of them adds the sum.

For `atomicAdd(&total, value);` and `if (condition) atomicAdd(&total, value);` that all work-items come to, statements
of the kernel itself, before which none returns. The address is the same for the group, which is of whole wavefronts.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from hipsynth.profiling.backends.protocol import Target
from hipsynth.source.edits import Edit
from hipsynth.source.layout import find_depth, find_spaces, lay_out
from hipsynth.source.tokens import Span, find_closing, split_at, text_between
from hipsynth.tuning.optimize.analysis.kernel_body import Body
from hipsynth.tuning.optimize.analysis.program_model import ATOMIC_ADDS, ParsedProgram
from hipsynth.tuning.optimize.analysis.statements import Statement
from hipsynth.tuning.optimize.evaluate import CandidateMeasurement
from hipsynth.tuning.optimize.function_text import choose_free_name
from hipsynth.tuning.optimize.source_changes.group_statements import list_group_changes
from hipsynth.tuning.optimize.source_changes.integer_types import TYPE_WORDS, IntegerTypes
from hipsynth.tuning.optimize.source_changes.source_change import SourceChange, SourceChanger

TYPES = frozenset({"float", "double", "int", "unsigned", "unsigned int"})
_TYPE_WORDS = TYPE_WORDS | {"float", "double"}


def list_changes(program: ParsedProgram, timed: CandidateMeasurement, target: Target) -> Iterator[SourceChange]:
    """The program with such additions of a kernel, for each kernel that has some."""
    why = "additions of a wavefront to one address wait for each other"
    yield from list_group_changes(program, _edit_addition, why)


CHANGER = SourceChanger("SQ_INSTS_LDS", list_changes)


@dataclass(frozen=True)
class _GroupAddition:
    """A statement that adds to an address which the group shares. `condition`: where it is under one; `type`: of what
    is added."""

    statement: Statement
    condition: Span | None
    function: str
    address: Span
    value: Span
    type: str


def _edit_addition(body: Body, statement: Statement, lanes: int) -> Iterator[Edit]:
    addition = _read_addition(body, statement)
    if addition is not None:
        yield _write_addition(body, addition, choose_free_name("wave_sum", body.program.text))


def _read_addition(body: Body, statement: Statement) -> _GroupAddition | None:
    condition, inner = None, statement
    if statement.kind == "if" and len(statement.parts) == 1:
        condition, inner = statement.head, statement.parts[0]
        inner = inner.parts[0] if inner.kind == "block" and len(inner.parts) == 1 else inner
    tokens, at = body.tokens, inner.start
    if inner.kind != "simple" or tokens[at].text not in ATOMIC_ADDS or tokens[at + 1].text != "(":
        return None
    close = find_closing(tokens, at + 1)
    parts = split_at(tokens, at + 2, close, ",")
    if len(parts) != 2 or close != inner.end - 2 or not _is_shared(body, parts[0]):
        return None
    kind = _find_type(body, parts[0])
    return _GroupAddition(statement, condition, tokens[at].text, parts[0], parts[1], kind) if kind in TYPES else None


def _is_shared(body: Body, span: Span) -> bool:
    """Whether an expression is the same for all work-items of a group."""
    tokens, types = body.tokens, IntegerTypes(body)
    for i in range(*span):
        place = body.local(tokens[i])
        if tokens[i].text == "threadIdx" or (tokens[i].identifier and tokens[i + 1].text == "("):
            return False
        if place < 0 or body.is_in_lds(place):
            continue
        value = types.find_initial_value(place)
        if value is None or not _is_shared(body, value):
            return False
    return True


def _find_type(body: Body, address: Span) -> str:
    """The type of what is at an address; "" where it is not known."""
    bases = {parameter.name: parameter.base for parameter in body.kernel.parameters if parameter.base}
    for i in range(*address):
        place = body.local(body.tokens[i])
        if place < 0 and body.tokens[i].text in bases:
            return bases[body.tokens[i].text]
        if place >= 0 and body.is_in_lds(place):
            first, at = body.find_declared_type(place)
            words = [body.tokens[j].text for j in range(first, at) if body.tokens[j].text != "__shared__"]
            return " ".join(itertools.takewhile(_TYPE_WORDS.__contains__, words))
    return ""


def _write_addition(body: Body, addition: _GroupAddition, name: str) -> Edit:
    tokens, unit = body.tokens, body.program.unit
    address, value = (text_between(unit, tokens, *span) for span in (addition.address, addition.value))
    lines, adds = [f"{addition.type} {name} = {value};"], "threadIdx.x % 64 == 0"
    if addition.condition is not None:  # without it, there may be nothing at the address
        flag, condition = choose_free_name("adds", body.program.text), text_between(unit, tokens, *addition.condition)
        adds = f"__any({flag}) && {adds}"
        lines = [f"const bool {flag} = {condition};", f"{addition.type} {name} = 0;", f"if ({flag}) {name} = {value};"]
    lines += [
        f"for (int distance = 32; distance > 0; distance /= 2) {name} += __shfl_xor({name}, distance);",
        f"if ({adds}) {addition.function}({address}, {name});",
    ]
    start, end = tokens[addition.statement.start].start, tokens[addition.statement.end - 1].end
    written = unit.text[tokens[body.kernel.first].start : tokens[body.kernel.last].start]
    spaces = find_spaces(written.decode(errors="surrogateescape"))
    text = lay_out("\n".join(["{", *lines, "}"]), find_depth(unit.text, start, spaces), spaces)
    return Edit(start, end, text.lstrip())
