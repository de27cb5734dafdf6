"""One target for each case in `make test`: a test that runs on several architectures or devices runs on one of them."""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Sequence

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
