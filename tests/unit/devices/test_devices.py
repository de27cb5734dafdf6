"""Architecture tables: complete, sourced, and clear about unknown names."""

from __future__ import annotations

import pytest

from hipsynth.core.errors import UsageError
from hipsynth.simulator import devices


@pytest.mark.parametrize("name", devices.list_devices())
def test_every_table_has_the_same_constants_and_a_source_for_each(name: str) -> None:
    table = devices.load_device(name)
    assert set(table.constants) == set(devices.load_device("mi250").constants)
    assert all(constant.source for constant in table.constants.values())


def test_defaults_are_devices_of_their_architecture() -> None:
    for arch in devices.list_architectures():
        assert devices.default_device(arch) in devices.devices_of(arch)


def test_an_inherited_table_restates_only_differences() -> None:
    base, derived = devices.load_device("mi300x"), devices.load_device("mi300a")
    assert derived["topology.cus"] == 228 != base["topology.cus"]
    assert derived["l2.bytes"] == base["l2.bytes"]


@pytest.mark.parametrize("name", ["h100", "../mi250", ""])
def test_unknown_devices_are_refused_with_the_list(name: str) -> None:
    with pytest.raises(UsageError, match="mi300x"):
        devices.load_device(name)


def test_compute_units_divide_evenly_over_xcds() -> None:
    for name in devices.list_devices():
        table = devices.load_device(name)
        assert table["topology.cus"] % table["topology.xcds"] == 0
