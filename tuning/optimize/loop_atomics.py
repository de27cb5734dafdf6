"""Adds up in a local variable what the iterations of a loop add to one address by atomic additions, and adds the sum
to memory once after the loop.

The kernel may use the array in atomic additions alone whose results are not used, so that no work-item looks at it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hipsynth.simulator.observation import Elements
from hipsynth.source.declarations import FunctionParameter
from hipsynth.source.edits import Edit
from hipsynth.source.layout import read_indent
from hipsynth.source.tokens import Span, find_closing, split_at, text_between
from hipsynth.tuning.optimize.analysis.kernel_body import Body
from hipsynth.tuning.optimize.analysis.pointer_copies import is_passed_alone
from hipsynth.tuning.optimize.analysis.program_model import ATOMIC_ADDS, STATEMENT_STARTS
from hipsynth.tuning.optimize.analysis.statements import NotUnderstood, Statement
from hipsynth.tuning.trial.output_elements import classify_pointer

_OPERATORS = frozenset({"(", "[", ",", "+", "-", "*", "/", "%", "&", "|", "^", "~", "<<", ">>"})  # before an operand


@dataclass(frozen=True)
class AtomicAddition:
    """A statement that adds atomically to an element of an array: its call, and the tokens of address and value."""

    call: int
    pointer: FunctionParameter
    address: Span
    value: Span


def edit_loop_atomics(body: Body, statements: Sequence[Statement]) -> Iterator[Edit]:
    """The edits of all loops among the statements. Raises NotUnderstood for a name that the new code uses."""
    additions = [addition for pointer in body.kernel.parameters for addition in _find_additions(body, pointer)]
    if additions:
        yield from _edit_siblings(body, statements, additions)


def _edit_siblings(
    body: Body, statements: Sequence[Statement], additions: Sequence[AtomicAddition], in_block: bool = True
) -> Iterator[Edit]:
    """`in_block`: declarations may stand between the statements."""
    for statement in statements:
        inside = [addition for addition in additions if statement.start <= addition.call < statement.end]
        fixed = []
        if statement.kind in ("for", "while") and not body.may_return(statement):
            fixed = [addition for addition in inside if _is_fixed(body, statement, addition)]
        if fixed:
            yield from _write_sums(body, statement, fixed, in_block)
        others = [addition for addition in inside if addition not in fixed]
        if others:
            yield from _edit_siblings(body, statement.parts, others, statement.kind == "block")


def _find_additions(body: Body, pointer: FunctionParameter) -> list[AtomicAddition]:
    """The kernel's additions to an array; none if it uses the array in another way, or passes it twice."""
    tokens, kernel = body.tokens, body.kernel
    if not pointer.base or not is_passed_alone(body.program, kernel, pointer.name):
        return []
    additions = []
    for i in range(kernel.first, kernel.last):
        if tokens[i].text in ATOMIC_ADDS and tokens[i - 1].text in STATEMENT_STARTS and tokens[i + 1].text == "(":
            close = find_closing(tokens, i + 1)
            parts = split_at(tokens, i + 2, close, ",")
            if len(parts) == 2 and tokens[close + 1].text == ";" and _count_names(body, parts[0], pointer.name) == 1:
                additions.append(AtomicAddition(i, pointer, parts[0], parts[1]))
    is_used_otherwise = _count_names(body, (kernel.first, kernel.last), pointer.name) > len(additions)
    return [] if is_used_otherwise else additions


def _count_names(body: Body, span: Span, name: str) -> int:
    """How often a parameter is named."""
    return sum(body.tokens[i].text == name and body.local(body.tokens[i]) < 0 for i in range(*span))


def _is_fixed(body: Body, loop: Statement, addition: AtomicAddition) -> bool:
    """Whether the address stays the same while the loop runs: it names nothing that the loop changes, and nothing in
    memory."""
    tokens, changed = body.tokens, body.changed(loop.span)
    assigned = {tokens[i].text for i in range(*loop.span) if tokens[i].identifier and body.assigns(i, loop.end)}
    words = tokens[slice(*addition.address)]
    texts = [token.text for token in words]
    follows = list(itertools.pairwise(words))
    is_call = any(a.identifier and b.text == "(" for a, b in follows)
    reads = texts.count("[") > 1 or "->" in texts or any(b.text == "*" and a.text in _OPERATORS for a, b in follows)
    is_changed = any(body.local(token) in changed for token in words)
    return not (is_call or reads or is_changed or assigned.intersection(texts) - {addition.pointer.name})


def _write_sums(body: Body, loop: Statement, additions: Sequence[AtomicAddition], in_block: bool) -> Iterator[Edit]:
    tokens, unit = body.tokens, body.program.unit
    names: dict[str, str] = {}  # by address
    before, after = [], []
    for addition in additions:
        address = text_between(unit, tokens, *addition.address)
        if address not in names:
            name = names[address] = f"{addition.pointer.name}_sum{len(names) or ''}"
            before.append(f"{addition.pointer.base} {name} = 0;")
            after.append(f"if ({name} != 0) {tokens[addition.call].text}({address}, {name});")
        closing = find_closing(tokens, addition.call + 1)
        cast = "" if _adds_as_written(body, addition) else f"static_cast<{addition.pointer.base}>("
        yield Edit(tokens[addition.call].start, tokens[addition.value[0]].start, f"{names[address]} += {cast}")
        yield Edit(tokens[closing].start, tokens[closing].end, ")" if cast else "")
    if {token.text for token in tokens}.intersection(names.values()):
        raise NotUnderstood("a name that the new code uses")
    yield from _write_around(body, loop, before, after, in_block)


def _adds_as_written(body: Body, addition: AtomicAddition) -> bool:
    """Whether a value needs no conversion, which atomics make of each one: a sum of integers and wider values would be
    rounded."""
    start, end = addition.value
    is_count = end - start == 1 and body.tokens[start].text.isdigit()
    is_floating = classify_pointer(f"{addition.pointer.base}*") not in (Elements.INTEGERS, Elements.UNKNOWN)
    return is_count or is_floating


def _write_around(body: Body, loop: Statement, before: list[str], after: list[str], in_block: bool) -> Iterator[Edit]:
    """Lines before and behind a loop, in braces if it is all that a condition or another loop has."""
    tokens, text = body.tokens, body.program.unit.text
    start, end = tokens[loop.start].start, tokens[loop.end - 1].end
    indent = read_indent(text, start)
    lines = "".join(f"{each}\n{indent}" for each in before)
    behind = "".join(f"\n{indent}{each}" for each in after)
    if in_block:
        yield Edit(start, start, lines)
        yield Edit(end, end, behind)
        return
    head_end = tokens[loop.start - 1].end
    if text[head_end:start].strip():
        raise NotUnderstood("a comment before the loop")
    yield Edit(head_end, start, f" {{\n{indent}{lines}")
    yield Edit(end, end, f"{behind}\n{read_indent(text, head_end)}}}")
