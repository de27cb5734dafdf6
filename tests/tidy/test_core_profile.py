"""The recorded profile for compiling the core matches the sources; if not: `python -m tools.profile_core`."""

from __future__ import annotations

import re

import needs
import pytest

from tools import profile_core

# Nine tenths of what is recorded, and few enough to compile in seconds.
BUSY = ("execute/vmem.cpp", "core/engine.cpp", "memory/hierarchy.cpp", "execute/lds.cpp", "execute/bank_costs.cpp")
REMEDY = "the core's profile is out of date: run `python -m tools.profile_core`"


@pytest.fixture(scope="module")
def text() -> str:
    needs.compiler()
    return profile_core.PROFILE.read_text()


def test_busy_functions_are_compiled_by_the_profile(text: str) -> None:
    lost = profile_core.find_outdated(text, [profile_core.NATIVE / name for name in BUSY])
    assert profile_core.sum_shares(lost) < 0.25, REMEDY


@pytest.mark.full
def test_the_core_is_compiled_by_the_profile(text: str) -> None:
    lost = profile_core.find_outdated(text, profile_core.list_sources())
    assert profile_core.sum_shares(lost) < 0.1, (REMEDY, [function.name for function, _ in lost[:10]])


def test_functions_that_changed_are_found(text: str) -> None:
    """With one function's hash another than its source's, as after an edit, that one is named and no other."""
    source = profile_core.NATIVE / "execute" / "bank_costs.cpp"
    fits = {function.name for function, _ in profile_core.find_outdated(text, [source])}
    edited = next(f for f in profile_core.read_profile(text) if f.name not in fits and not f.name.startswith("_ZNS"))
    hash_line = re.search(r"# Func Hash:\n(\d+)\n", edited.text)
    assert hash_line
    other = edited.text.replace(hash_line[1], str(int(hash_line[1]) + 1), 1)
    lost = {function.name for function, _ in profile_core.find_outdated(text.replace(edited.text, other), [source])}
    assert lost - fits == {edited.name}


def test_the_profile_is_small_and_omits_functions_that_never_ran(text: str) -> None:
    functions = profile_core.read_profile(text)
    assert all(function.weight for function in functions)
    assert len({function.name for function in functions}) == len(functions)
    assert len(text) < 300_000
