"""Architecture tables: complete, sourced, and clear about unknown names."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hipsynth.core.errors import UsageError
from hipsynth.profiling.metrics.roofline import matrix_peaks
from hipsynth.simulator import devices


@pytest.mark.parametrize("name", devices.list_devices())
def test_every_table_has_the_same_constants_and_a_source_for_each(name: str) -> None:
    table = devices.load_device(name)
    assert set(table.constants) == set(devices.load_device("mi250").constants)
    assert all(constant.source for constant in table.constants.values())


def test_defaults_are_devices_of_their_architecture() -> None:
    assert "gfx90a" in devices.list_architectures()
    for arch in devices.list_architectures():
        assert devices.default_device(arch) in devices.devices_of(arch)


def test_an_inherited_table_restates_only_differences() -> None:
    base, derived = devices.load_device("mi300x"), devices.load_device("mi300a")
    assert derived["topology.cus"] == 228 != base["topology.cus"]
    assert derived["l2.bytes"] == base["l2.bytes"]


def test_what_a_device_of_another_architecture_inherits_is_a_guess() -> None:
    base, derived = devices.load_device("mi300x"), devices.load_device("mi350x")
    assert (base.arch, derived.arch) == ("gfx942", "gfx950")
    inherited = derived.constants["l2.latency_cycles"]
    assert inherited.value == base["l2.latency_cycles"] and inherited.source.startswith("guess: as on the mi300x")
    assert not any(constant.fitted for constant in derived.constants.values())


@pytest.mark.parametrize(("name", "tera"), [("mi350x", 2306.9), ("mi355x", 2516.6), ("mi325x", 1307.4)])
def test_matrix_peaks_are_those_of_the_data_sheets_at_their_clock(name: str, tera: float) -> None:
    """Dense FP16: 2.3, 2.5 and 1.3 PFLOP/s; eight bits twice, six and four bits four times as much on CDNA4."""
    table = devices.load_device(name)
    nominal = table["clock.core_mhz"] / table["clock.matrix_mhz"]
    peaks = {precision: nominal * rate for precision, rate in matrix_peaks(name).items()}
    assert peaks["FP16 matrix"] == pytest.approx(1000 * tera, rel=1e-3)
    assert peaks["FP8 matrix"] == 2 * peaks["FP16 matrix"]
    if table.arch == "gfx950":
        assert peaks["FP6, FP4 matrix"] == 4 * peaks["FP16 matrix"]
        assert peaks["FP64 matrix"] == pytest.approx(78.6e3 * peaks["FP16 matrix"] / 2516.6e3, rel=1e-3)
        assert "TF32 matrix" not in peaks


@pytest.mark.parametrize("name", ["h100", "../mi250", ""])
def test_unknown_devices_are_refused_with_the_list(name: str) -> None:
    with pytest.raises(UsageError, match="mi300x"):
        devices.load_device(name)


@pytest.mark.parametrize(
    ("find", "name", "says"),
    [
        (devices.default_device, "mi300x", ["mi300x is a device", "--device mi300x"]),
        (devices.load_device, "gfx942", ["gfx942 is an architecture", "--arch gfx942"]),
        (devices.default_device, "gfx1100", ["gfx1100 is not supported", "known: gfx90a, gfx942, gfx950"]),
        (devices.default_device, "gfx94", ["did you mean gfx942?"]),
        (devices.load_device, "mi300", ["did you mean mi300"]),
    ],
)
def test_a_wrong_name_is_told_what_it_is(find: Callable[[str], object], name: str, says: list[str]) -> None:
    with pytest.raises(UsageError) as caught:
        find(name)
    text = str(caught.value)
    assert all(part in text for part in says) and ("did you mean" in text) == ("did you mean" in says[0])


def test_compute_units_divide_evenly_over_xcds() -> None:
    assert "mi210" in devices.list_devices()
    for name in devices.list_devices():
        table = devices.load_device(name)
        assert table["topology.cus"] % table["topology.xcds"] == 0
