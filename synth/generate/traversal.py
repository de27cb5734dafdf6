"""Walks over the statements of a kernel: what they compute and read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hipsynth.synth.generate.ir import (
    Assign,
    Atomic,
    Break,
    Expr,
    For,
    If,
    Let,
    MatrixFma,
    Statement,
    Store,
)


def walk_statements(body: Sequence[Statement]) -> Iterator[Statement]:
    """All statements, also those inside branches and loops."""
    for s in body:
        yield s
        if isinstance(s, If):
            yield from walk_statements([*s.then, *s.otherwise])
        elif isinstance(s, For):
            yield from walk_statements(s.body)


def values_of(s: Statement) -> list[Expr]:
    """The values that a statement computes itself, without those of statements inside it."""
    match s:
        case Let(_, value) | Assign(_, value):
            return [value]
        case Store(_, index, value) | Atomic(_, _, index, value):
            return [*index, value]
        case MatrixFma(_, _, left, right):
            return [left, right]
        case If(condition) | Break(condition):
            return [condition]
        case For(_, _, start, stop, step):
            return [start, stop, step]
    return []


def names_in(*values: Expr) -> set[str]:
    """The names of locals that values read."""
    names, work = set(), list(values)
    while work:
        value = work.pop()
        if value.op == "name":
            names.add(value.attr[0])
        else:
            work.extend(value.args)
    return names


def live_names(body: Sequence[Statement]) -> frozenset[str]:
    """The locals that a side effect or a branch depends on."""
    live: set[str] = set()
    pending: dict[str, Expr] = {}
    for s in walk_statements(body):
        if isinstance(s, Let) and not s.mutable:
            pending[s.target.attr[0]] = s.value
        else:
            live |= names_in(*values_of(s))
    work = list(live)
    while work:
        value = pending.pop(work.pop(), None)
        if value is not None:
            names = names_in(value) - live
            live |= names
            work += names
    return frozenset(live)
