"""What a training run writes down, without a trainer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hipsynth.training.models import monitor
from hipsynth.training.models.monitor import Throughput, TrainingLog


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time in seconds, as its only element."""
    now = [100.0]
    monkeypatch.setattr(monitor.time, "monotonic", lambda: now[0])
    return now


def test_a_resumed_run_drops_later_rows_and_counts_its_own_steps(tmp_path: Path, clock: list[float]) -> None:
    (tmp_path / "log.jsonl").write_text('{"step": 4, "loss": 3.0}\n{"step": 6, "loss": 2.5}\n')
    shown: list[tuple[int, int, str]] = []
    log = TrainingLog(tmp_path, lambda *step: shown.append(step), Throughput())
    log.begin(4, writes=True)
    clock[0] += 10
    log.add_row(6, {"loss": 2.0})
    log.report_step(6, 10)
    clock[0] += 600
    log.report_step(8, 10)
    log.end()
    rows = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [(row["step"], row["loss"]) for row in rows] == [(4, 3.0), (6, 2.0)]
    # Two steps took 10 s, so four more take 20; four took 610 s, so two more take 305.
    assert shown == [(6, 10, "loss 2.000  20 s left"), (8, 10, "loss 2.000  5 min left")]


def test_another_process_of_a_run_writes_nothing(tmp_path: Path) -> None:
    log = TrainingLog(tmp_path / "model", None, Throughput())
    log.begin(0, writes=False)
    log.report_step(1, 2)
    log.end()
    assert not (tmp_path / "model").exists()
