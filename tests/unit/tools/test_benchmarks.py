"""Do the benchmarks measure what they say?"""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks import label_error, sim_speed


class CountingDevice:
    """Stands in for a SimDevice; a launch that is like the one before it executes nothing, unless `reuse` is off."""

    def __init__(self, *_: object, reuse: bool = True) -> None:
        self.core = SimpleNamespace(allocate=lambda size: size)
        self.reuse, self.executed = reuse, Counter[str]()

    def launch(self, kernel: str, *_: Any) -> dict[str, dict[str, float]]:
        if self.reuse and self.executed[kernel]:
            raise AssertionError(f"{kernel} is timed without being executed")
        self.executed[kernel] += 1
        return {"counters": {"SQ_INSTS": 1e6}}


def test_every_timed_launch_of_the_simulator_is_executed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sim_speed, "SimDevice", CountingDevice)
    ticks = iter(range(1000))
    monkeypatch.setattr("time.process_time", lambda: float(next(ticks)))
    assert sim_speed.measure_rates("mi250", Path()) == dict.fromkeys([*sim_speed.STEPS, "streaming"], 1.0)
    assert sim_speed.time_vector_add(Path()) == 1


def test_corpora_in_which_some_programs_have_no_label_are_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    codes = {"generate": 0, "profile": 5}

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(command, codes[command[3]])

    monkeypatch.setattr("subprocess.run", run)
    assert label_error.make_corpora(tmp_path, 2, 1) == (tmp_path / "sampled", tmp_path / "exact")
    codes["profile"] = 1
    with pytest.raises(subprocess.CalledProcessError):
        label_error.make_corpora(tmp_path, 2, 1)
