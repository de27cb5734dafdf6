"""The commands that write folders survive kills, their processes do not. The long version: `python -m tools.faults`."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import needs
import pytest

from hipsynth.core.cache import cache_dir
from tools import faults

SEED = "5"


def test_a_few_kills_of_generate(capsys: pytest.CaptureFixture[str]) -> None:
    assert faults.main(["--quick", "--kills", "4", "--only", "generate"]) == 0
    table = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| ")][1:]
    cases = [[cell.strip() for cell in line.split("|")[1:7]] for line in table]
    assert [(case[0], case[5]) for case in cases] == [
        ("generate", "yes"), ("two writers, generate", "yes"), ("full disk, generate", "yes"),
    ]  # fmt: skip
    assert all(case[2:5] == ["0", "0", "0"] for case in cases)


@pytest.mark.full
def test_kills_of_every_command() -> None:
    needs.simulator()
    assert faults.main(["--kills", "60"]) == 0


def test_a_difference_is_a_failure() -> None:
    row = faults.FaultRow("case", faults=3)
    assert row.is_clean and faults.format_line(row) == "| case | 3 | 0 | 0 | 0 | yes |  |"
    assert not faults.FaultRow("case", lost=1).is_clean
    assert not faults.FaultRow("case", left=1).is_clean
    assert not faults.FaultRow("case", survivors=1).is_clean
    assert not faults.FaultRow("case", identical=False).is_clean


@pytest.fixture
def bench(tmp_path: Path) -> faults.FaultBench:
    made = faults.FaultBench(tmp_path, random.Random(0), quick=True)
    made.scratch.mkdir()
    return made


@pytest.mark.parametrize("name", ["generate", "augment", "profile"])
def test_no_process_outlives_its_killed_parent(bench: faults.FaultBench, name: str) -> None:
    """Only the first process is killed: its workers, and what they run, have to notice."""
    if name != "generate":
        needs.simulator()
    count = "100000" if name == "generate" else "30"
    programs = bench.folder / "programs"
    making = faults.SynthCommand(
        "generate", ("generate", "--count", "30", "--seed", SEED), faults.list_generated, faults.read_files
    )
    assert bench.run_command(making, programs, cache_dir())[0] == 0
    words = ("generate", "--count", count, "--seed", SEED) if name == "generate" else (name, str(programs))
    verb = faults.SynthCommand(name, (*words, "--workers", "2"), faults.list_generated, faults.read_files)
    process = bench.start_command(verb, bench.folder / "out", cache_dir())
    try:
        while process.poll() is None and len(faults.find_processes(bench.scratch)) < 3:
            time.sleep(0.01)
        assert process.poll() is None
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        assert faults.end_survivors(bench.scratch) == 0
    finally:
        faults.end_process(process)
        assert process.stderr is not None
        process.stderr.close()
