"""The version that labels of previews carry."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from hipsynth.profiling.backends import preview


def test_a_change_in_any_module_of_the_preview_changes_its_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "preview"
    shutil.copytree(preview.SOURCES, copy)
    monkeypatch.setattr(preview, "SOURCES", copy)
    seen = {preview.sources_hash.__wrapped__()}
    modules = sorted(copy.rglob("*.py"))
    assert any(path.parent != copy for path in modules)
    for path in modules:
        path.write_text(path.read_text() + "# changed\n")
        seen.add(preview.sources_hash.__wrapped__())
    assert len(seen) == len(modules) + 1
