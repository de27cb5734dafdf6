"""Facts of architectures: every row is sourced, and code that states one agrees with the table."""

from __future__ import annotations

from pathlib import Path

import pytest

from hipsynth.core.errors import BadInput, UsageError
from hipsynth.simulator import devices
from hipsynth.synth.generate.builder import WAVE


def test_every_architecture_has_a_default_device_of_its_own() -> None:
    assert devices.list_architectures() == ["gfx90a", "gfx942", "gfx950"]
    for arch in devices.list_architectures():
        assert devices.load_device(devices.default_device(arch)).arch == arch


def test_an_architecture_without_recordings_is_meant_only_by_name() -> None:
    assert devices.recorded_architectures() == ["gfx90a", "gfx942"]


def test_generated_programs_know_the_wavefront() -> None:
    assert {devices.architecture_fact(arch, "wave_lanes") for arch in devices.list_architectures()} == {WAVE}


def test_an_unknown_architecture_is_refused() -> None:
    with pytest.raises(UsageError, match="gfx1"):
        devices.architecture_fact("gfx1", "images")


@pytest.mark.parametrize(
    "text",
    [
        "[a]\nx = { value = 1 }\n",
        '[a]\nx = { value = 1, source = "" }\n',
        '[a]\nx = { value = 1, source = "s" }\n[b]\n',
        '[a]\nx = { value = 1, source = "s" }\n[b]\nx = { value = true, source = "s" }\n',
    ],
)
def test_a_broken_table_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "architectures.toml"
    path.write_text(text)
    with pytest.raises(BadInput):
        devices.load_architectures(path)
