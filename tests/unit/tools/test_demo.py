"""The demonstration: which stages a repeated call skips."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import demo


def test_only_stages_of_the_same_programs_and_code_are_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    titles: list[str] = []
    monkeypatch.setattr(demo, "digest_package", lambda: "one")
    monkeypatch.setattr(demo, "run_stage", lambda stage, *_: titles.append(stage.title) or 1.0)

    def count_stages(programs: int) -> int:
        titles.clear()
        demo.run_demo(tmp_path, programs)
        return len(titles)

    stages = len(demo.list_stages(tmp_path, 30))
    assert [count_stages(programs) for programs in (30, 30, 60)] == [stages, 0, stages - 3]
    assert "write the report" in titles and "fine-tune the base that ships, with LoRA" in titles
    assert count_stages(30) == stages - 3, "the report is of 60 programs"
    monkeypatch.setattr(demo, "digest_package", lambda: "another")
    assert count_stages(30) == stages
