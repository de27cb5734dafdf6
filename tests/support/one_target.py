"""What `make test` leaves to `make test-full`.

A test that runs on several architectures or devices runs on one of them, one with the mark `one_in(n)` runs a part of
its cases, and one with the cases of first_of_each() runs one of each kind.
"""

from __future__ import annotations

import zlib
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import pytest

from hipsynth.simulator.devices import list_architectures, list_devices

EVERY_TARGET = ("differential", "golden")  # folders of tests that are quick, and whose tables differ by architecture


def mark_other_targets(items: Sequence[pytest.Item]) -> None:
    """Marks as `full` all but one of the tests that differ in their target alone. Which one depends on the other
    parameters, so that all tests together cover all targets."""
    targets = {*list_architectures(), *list_devices()}
    alike: dict[tuple[str, ...], list[pytest.Item]] = defaultdict(list)
    for item in items:
        if (
            isinstance(item, pytest.Function)
            and item.path.parent.name not in EVERY_TARGET
            and hasattr(item, "callspec")
        ):
            words = item.callspec.id.split("-")
            if targets & set(words):
                others = "-".join(word for word in words if word not in targets)
                alike[str(item.path), item.originalname, others].append(item)
    for key, group in alike.items():
        chosen = zlib.crc32("".join(key[1:]).encode()) % len(group)
        for number, item in enumerate(group):
            if number != chosen:
                item.add_marker(pytest.mark.full)


def mark_other_cases(items: Sequence[pytest.Item]) -> None:
    """Marks as `full` all but one in n cases of each test with the mark `one_in(n)`: of the first n the first, of the
    next n the second, and so on, so that all values of two parameters are among them."""
    cases: Counter[tuple[str, str]] = Counter()
    for item in items:
        mark = item.get_closest_marker("one_in")
        if mark is None or item.get_closest_marker("full") or not isinstance(item, pytest.Function):
            continue
        test, [share] = (str(item.path), item.originalname), mark.args
        block, place = divmod(cases[test], share)
        if place != block % share:
            item.add_marker(pytest.mark.full)
        cases[test] += 1


def first_of_each(cases: Iterable[tuple[str, Hashable]]) -> list[Any]:
    """Parameters of a test: the names of (name, kind) pairs, marked as `full` if an earlier one is of the same kind."""
    kinds: set[Hashable] = set()
    parameters = []
    for name, kind in cases:
        parameters.append(pytest.param(name, marks=pytest.mark.full if kind in kinds else ()))
        kinds.add(kind)
    return parameters
