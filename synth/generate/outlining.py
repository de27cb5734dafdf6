"""Moves part of a kernel's arithmetic into a `__device__` function: the same program, written differently."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from hipsynth.synth.generate import ir
from hipsynth.synth.generate.ir import Expr, Kernel, Statement
from hipsynth.synth.generate.traversal import values_of, walk_statements
from hipsynth.synth.generate.types import BOOL, DType

LEAST = 3  # operations that are worth a function
MOST = 6  # parameters
IMPURE = frozenset({"load", "shuffle", "ballot", "builtin", "inside"})


@dataclass(frozen=True)
class OutlinedFunction:
    """`result f(parameters) { body; return value; }`"""

    name: str
    parameters: tuple[tuple[str, DType], ...]
    body: tuple[Statement, ...]
    value: Expr


def outline_arithmetic(kernel: Kernel, name: str) -> tuple[Kernel, OutlinedFunction | None]:
    """The kernel with its largest suitable piece of arithmetic replaced by a call, and the function; None if it has no
    such piece."""
    pieces = [
        piece
        for body in _walk_bodies(kernel.body)
        for piece in (*_declaration_runs(kernel, body), *_candidate_assignments(body))
    ]
    fixed = {constant for constant, _ in kernel.constants}
    best: tuple[int, OutlinedFunction, tuple[Statement, ...], Statement] | None = None
    for run, value, replaced in pieces:
        function = _make_function(name, run, value, fixed)
        size = sum(_count_operations(s.value) for s in run if isinstance(s, ir.Let)) + _count_operations(value)
        if function is not None and size >= LEAST and (best is None or size > best[0]):
            call = Expr("call", value.dtype, (), (name, tuple(p for p, _ in function.parameters)), value.lo, value.hi)
            best = size, function, (*run, replaced), replace(replaced, value=call)
    if best is None:
        return kernel, None
    _, function, old, new = best
    return replace(kernel, body=tuple(_replace_statements(kernel.body, old, new))), function


Piece = tuple[tuple[Statement, ...], Expr, ir.Let | ir.Assign]


def _walk_bodies(body: Sequence[Statement]) -> Iterator[Sequence[Statement]]:
    yield body
    for s in body:
        if isinstance(s, ir.If):
            yield from _walk_bodies(s.then)
            yield from _walk_bodies(s.otherwise)
        elif isinstance(s, ir.For):
            yield from _walk_bodies(s.body)


def _declaration_runs(kernel: Kernel, body: Sequence[Statement]) -> Iterator[Piece]:
    """Runs of declarations, in each of which only the last is read after it."""
    start = 0
    while start < len(body):
        stop = start
        while stop < len(body) and _is_movable(body[stop]):
            stop += 1
        run = [s for s in body[start:stop] if isinstance(s, ir.Let)]
        if len(run) > 1:
            for last in range(len(run), 1, -1):
                if not _escapes_run(kernel, run[:last]):
                    yield tuple(run[: last - 1]), run[last - 1].value, run[last - 1]
                    break
        start = max(stop, start + 1)


def _is_movable(s: Statement) -> bool:
    return isinstance(s, ir.Let) and not s.mutable and s.target.dtype.lanes == 1 and _is_pure(s.value)


def _escapes_run(kernel: Kernel, run: list[ir.Let]) -> bool:
    """Whether anything but the last value of the run is read outside it."""
    names_defined = {s.target.attr[0] for s in run[:-1]}
    inside = [name for s in run for name in _name_leaves(s.value) if name in names_defined]
    everywhere = [name for value in _walk_values(kernel.body) for name in _name_leaves(value) if name in names_defined]
    return len(everywhere) != len(inside)


def _candidate_assignments(body: Sequence[Statement]) -> Iterator[Piece]:
    for s in body:
        if isinstance(s, ir.Assign) and not s.compound and s.value.dtype.lanes == 1 and _is_pure(s.value):
            yield (), s.value, s


def _make_function(name: str, body: tuple[Statement, ...], value: Expr, fixed: set[str]) -> OutlinedFunction | None:
    names_defined = {s.target.attr[0] for s in body if isinstance(s, ir.Let)}
    dtypes: dict[str, DType] = {}
    for part in (*(s.value for s in body if isinstance(s, ir.Let)), value):
        for leaf in _walk_leaves(part):
            label = leaf.attr.name if leaf.op == "size" else leaf.attr[0]
            if label not in names_defined and label not in fixed:
                dtypes.setdefault(label, leaf.dtype)
    usable = 0 < len(dtypes) <= MOST and all(t.lanes == 1 and t is not BOOL for t in dtypes.values())
    return OutlinedFunction(name, tuple(dtypes.items()), body, value) if usable else None


def _replace_statements(body: Sequence[Statement], old: tuple[Statement, ...], new: Statement) -> Iterator[Statement]:
    for s in body:
        if s is old[-1]:
            yield new
        elif any(s is removed for removed in old):
            continue
        elif isinstance(s, ir.If):
            yield replace(
                s,
                then=list(_replace_statements(s.then, old, new)),
                otherwise=list(_replace_statements(s.otherwise, old, new)),
            )
        elif isinstance(s, ir.For):
            yield replace(s, body=list(_replace_statements(s.body, old, new)))
        else:
            yield s


def _walk_values(body: Sequence[Statement]) -> Iterator[Expr]:
    for s in walk_statements(body):
        yield from values_of(s)


def _walk_leaves(value: Expr) -> Iterator[Expr]:
    if value.op in ("name", "size"):
        yield value
    for argument in value.args:
        yield from _walk_leaves(argument)


def _name_leaves(value: Expr) -> Iterator[str]:
    return (leaf.attr[0] for leaf in _walk_leaves(value) if leaf.op == "name")


def _is_pure(value: Expr) -> bool:
    return value.op not in IMPURE and all(_is_pure(a) for a in value.args)


def _count_operations(value: Expr) -> int:
    return sum(map(_count_operations, value.args)) + (value.op not in ("name", "size", "const", "inside"))
