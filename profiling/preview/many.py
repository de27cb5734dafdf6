"""Evaluates host code for many command lines at once: a number that differs between them holds the value of each.

Operations act on every value. Where the code decides by such a number (a branch, a loop, a conversion to text), it is
run again for the command lines that decide alike, in the end for single ones. So the launches are those of one
evaluation per command line.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NoReturn

from hipsynth.profiling.preview.host import host_launches
from hipsynth.profiling.preview.launching import HostLaunch
from hipsynth.profiling.preview.values import HostAllocation, Object, Vector

Launches = tuple[list[HostLaunch], list[str]]  # as host_launches() returns them
MOST_DIGITS = 16  # of numbers that a double holds exactly


class Diverged(Exception):
    """The host code decides by a number that differs; `keys` are equal for command lines that decide alike."""

    def __init__(self, keys: Sequence[Hashable]) -> None:
        super().__init__("command lines take different paths")
        self.keys = keys


class Many(int):
    """An integer that differs between command lines. It is an int, so that it counts as a known value; every operation
    on it acts on all values or raises Diverged. Indexing and range() do not ask it: convert with int() before."""

    values: tuple[int, ...]

    def _differ(self, *_: object) -> NoReturn:
        raise Diverged(self.values)

    def __bool__(self) -> bool:
        truths = [value != 0 for value in self.values]
        if len(set(truths)) > 1:
            raise Diverged(truths)
        return truths[0]

    def __hash__(self) -> int:
        return hash(self.values)

    __int__ = __float__ = __index__ = __repr__ = __str__ = __format__ = _differ
    __ceil__ = __floor__ = __round__ = __trunc__ = _differ


def many(values: Sequence[Any]) -> Any:
    """One value for all command lines if they agree, else a Many; raises Diverged if some are not integers."""
    first = values[0]
    if all(value == first and type(value) is type(first) for value in values):
        return first
    if not all(isinstance(value, int) for value in values):
        raise Diverged(tuple(values))
    made = Many()
    made.values = tuple(values)
    return made


def _binary(of: Callable[[Any, Any], Any], swapped: bool) -> Callable[[Many, Any], Any]:
    def apply(self: Many, other: Any) -> Any:
        if not isinstance(other, int | float):
            return NotImplemented
        others = other.values if isinstance(other, Many) else (other,) * len(self.values)
        pairs = zip(others, self.values, strict=True) if swapped else zip(self.values, others, strict=True)
        return many([of(a, b) for a, b in pairs])

    return apply


def _unary(of: Callable[[Any], Any]) -> Callable[[Many], Any]:
    return lambda self: many([of(value) for value in self.values])


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "lshift", "rshift", "and", "or", "xor"):
    _of = getattr(operator, f"__{_name}__")
    setattr(Many, f"__{_name}__", _binary(_of, swapped=False))
    setattr(Many, f"__r{_name}__", _binary(_of, swapped=True))
for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    setattr(Many, f"__{_name}__", _binary(getattr(operator, f"__{_name}__"), swapped=False))
for _name in ("neg", "pos", "abs", "invert"):
    setattr(Many, f"__{_name}__", _unary(getattr(operator, f"__{_name}__")))


def launches_of_many(text: str, lines: Sequence[Sequence[str]], properties: Mapping[str, int]) -> list[Launches]:
    """What host_launches() says for each command line of a program, in their order."""
    found: list[Launches | None] = [None] * len(lines)
    todo = [list(places) for places in _alike(range(len(lines)), [len(line) for line in lines])]
    while todo:
        places = todo.pop()
        if len({tuple(lines[i]) for i in places}) == 1:
            made = host_launches(text, lines[places[0]], properties)
            for i in places:
                found[i] = made
            continue
        try:
            given = [_argument([lines[i][n] for i in places]) for n in range(len(lines[places[0]]))]
            launches, shapeless = host_launches(text, given, properties)
            for k, i in enumerate(places):
                found[i] = [_one(launch, k) for launch in launches], shapeless
        except Diverged as differ:
            todo += _alike(places, differ.keys)
    return [one for one in found if one is not None]


def _alike(places: Sequence[int], keys: Sequence[Hashable]) -> list[list[int]]:
    groups: dict[Hashable, list[int]] = {}
    for place, key in zip(places, keys, strict=True):
        groups.setdefault(key, []).append(place)
    return list(groups.values())


def _argument(texts: Sequence[str]) -> Any:
    """One word of the command lines; a number where all are canonical integers."""
    if len(set(texts)) == 1:
        return texts[0]
    if not all(len(text) < MOST_DIGITS and text.isdecimal() and str(int(text)) == text for text in texts):
        raise Diverged(tuple(texts))
    return many([int(text) for text in texts])


def _one(value: Any, place: int) -> Any:
    """A value as the command line at `place` has it."""
    if isinstance(value, Many):
        return value.values[place]
    if isinstance(value, tuple):
        return tuple(_one(part, place) for part in value)
    if isinstance(value, HostLaunch):
        parts = {name: _one(getattr(value, name), place) for name in ("grid", "block", "dynamic_lds", "arguments")}
        return replace(value, **parts)
    if isinstance(value, HostAllocation):
        return HostAllocation(_one(value.bytes, place))
    if isinstance(value, Vector):
        return Vector(_one(value.length, place), _one(value.element, place), value.items)
    if isinstance(value, Object):
        return Object(value.of, {name: _one(part, place) for name, part in value.fields.items()}, value.layout)
    return value
