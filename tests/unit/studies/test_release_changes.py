"""The page of what changed between two versions of a release."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from studies import release_changes


def label(program: str, **changes: Any) -> dict[str, Any]:
    one: dict[str, Any] = {"program": program, "arguments": "", "device": "mi250", "flags": "-O3", "kernel_index": 0}
    one |= {"family": "copy", "kernel": "copy", "arch": "gfx90a", "bottleneck": "hbm", "duration_ns": 1000.0}
    return one | {"TCC_MISS": 100, "L1_Cache_Hit_Rate": 0.0, "L2_Cache_Hit_Rate": 50.0} | changes


def release(folder: Path, *labels: dict[str, Any], version: str = "labels-1") -> Path:
    (folder / "labels").mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(list(labels)), folder / "labels" / "train-0000-0019.parquet")
    (folder / "release.json").write_text(json.dumps({"shards": {"0000": {"tools": {"version": version}}}}))
    return folder


def test_labels_that_both_have_are_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(release_changes, "PAGE", tmp_path / "page.md")
    monkeypatch.setattr(release_changes, "ROOT", tmp_path)
    old = release(tmp_path / "old", label("a"), label("b"), label("gone"))
    slower = label("b", duration_ns=2000.0, bottleneck="l2", TCC_MISS=250, L2_Cache_Hit_Rate=20.0)
    new = release(tmp_path / "new", label("a"), slower, label("more"), version="labels-2")
    assert release_changes.main([str(old), str(new)]) == 0
    text = (tmp_path / "page.md").read_text()
    assert "labelled by `labels-1`, and again by `labels-2`" in text
    assert "2 of 3 before" in " ".join(text.split()) and "3 now" in " ".join(text.split())
    (whole,) = [line for line in text.splitlines() if line.startswith("| all |")]
    assert [cell.strip() for cell in whole.split("|")[2:-1]] == ["2", "+41.4%", "41.4%", "50%", "0%", "50%", "50%"]
    assert "| `copy` (copy) | b | mi250 | 1.0 | 2.0 | hbm | l2 | x 2.50 |" in text


def test_releases_without_a_common_label(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old, new = release(tmp_path / "old", label("a")), release(tmp_path / "new", label("b"))
    assert release_changes.main([str(old), str(new)]) == 1
    assert release_changes.main([str(old), str(tmp_path)]) == 1
    assert "no label in common" in (said := capsys.readouterr().err) and "no release" in said
