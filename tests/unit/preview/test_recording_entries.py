"""Where recordings of launches are kept: another entry for whatever they depend on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import needs
import pytest

from hipsynth.core.languages import SourceLanguage
from hipsynth.core.program import Project, SourceFile
from hipsynth.profiling.preview.record import MOST_FILES, HostRun, data_files
from hipsynth.profiling.preview.script_launches import _entry_of
from hipsynth.simulator import devices
from hipsynth.simulator.identity import build_identity
from hipsynth.simulator.scripts import compiled_kernels
from hipsynth.simulator.scripts.compiled_kernels import MOST_BESIDE


@pytest.fixture
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of the device tables that build_identity() reads."""
    folder = tmp_path / "tables"
    folder.mkdir()
    for path in devices.FOLDER.glob("*.toml"):
        (folder / path.name).write_bytes(path.read_bytes())
    monkeypatch.setattr(devices, "FOLDER", folder)
    build_identity.cache_clear()
    yield folder
    build_identity.cache_clear()


def test_recordings_depend_on_the_device_table(tables: Path, tmp_path: Path) -> None:
    needs.simulator()
    needs.compiler()
    table = devices.load_device("mi300x")
    source, script = tmp_path / "k.hip", tmp_path / "k.py"
    source.write_text("int main() {}\n")
    script.write_text("print(1)\n")
    run = HostRun(source, "-O3", (), table, tmp_path / "k.co", tmp_path / "k.s")
    project = Project((SourceFile(script, SourceLanguage.PYTHON),), tmp_path / "none")

    def list_entries() -> list[Path | None]:
        build_identity.cache_clear()
        return [run.entry(), _entry_of(project, table)]

    before = list_entries()
    assert list_entries() == before
    with (tables / "mi300x.toml").open("a") as file:
        file.write("# another figure\n")
    assert all(first != second for first, second in zip(before, list_entries(), strict=True))


def test_files_that_no_run_sees_do_not_count(tmp_path: Path) -> None:
    """Those of a git checkout are more than are kept track of."""
    script = tmp_path / "k.py"
    project = Project((SourceFile(script, SourceLanguage.PYTHON),), tmp_path)
    (tmp_path / "data.bin").touch()
    (tmp_path / "link.bin").symlink_to("data.bin")
    (tmp_path / ".git").mkdir()
    for number in range(max(MOST_FILES, MOST_BESIDE)):
        (tmp_path / f".git/{number}").touch()
    script.touch()
    files = data_files(project)
    assert files is not None and [Path(name).name for name, *_ in files] == ["data.bin", "link.bin"]
    assert compiled_kernels._entry_of(project) is not None
