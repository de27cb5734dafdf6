"""Which programs' moves are valued again, and in which split a program is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hipsynth.core.program import Program, ProgramRun
from hipsynth.core.reasons import Reason
from hipsynth.core.store.splits import splits_of
from hipsynth.core.workers import ItemOutcome
from hipsynth.source.skeletons import control_skeleton
from hipsynth.training.analytic import preview_journal
from hipsynth.tuning.optimize import move_paths
from hipsynth.tuning.optimize.move_paths import ValuationJob, collect_move_values
from hipsynth.tuning.optimize.move_values import ValuedProgram, read_jobs
from hipsynth.tuning.trial import target_of
from tests.support.fake_tuning import TEXT, without_simulator

TARGET = target_of("gfx942")


def test_programs_are_split_by_the_control_skeleton_of_their_base() -> None:
    """The second of two alike programs with different splits by id is in that of both their skeletons."""
    texts = [TEXT.replace("2.0f", f"{n}.0f") for n in range(40)]
    assert len({control_skeleton(text) for text in texts}) == 1
    [split] = splits_of(["x"], [control_skeleton(TEXT)])
    programs = [Program(text, "synthetic", "x") for text in texts]
    assert len({splits_of(["x"], [program.id])[0] for program in programs}) > 1
    assert {ValuationJob(program, TARGET).split for program in programs} == {split}
    copies = [replace(program, text=f"{TEXT}void f() {{ g(); }}", lineage=program.id) for program in programs]
    assert {ValuationJob(copy, TARGET, text).split for copy, text in zip(copies, texts, strict=True)} == {split}


def test_a_job_is_its_program_arguments_and_target() -> None:
    program = Program(TEXT, "synthetic", "x", runs=(ProgramRun(("64",)), ProgramRun(("128",))))
    other_run = replace(program, runs=program.runs[1:])
    targets = [TARGET, target_of("gfx942", "-O3 -ffast-math"), target_of("gfx942", device="mi300a")]
    jobs = [ValuationJob(each, target) for each in (program, other_run) for target in targets]
    assert len({job.key for job in jobs}) == len(jobs)


def test_other_tools_value_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_simulator(monkeypatch)
    jobs, path = [ValuationJob(Program("int main() {}", "synthetic", "x"), TARGET)], tmp_path / "moves.jsonl"
    for _ in range(2):
        collect_move_values(jobs, path, workers=1)
        assert len(path.read_text().splitlines()) == 1
    monkeypatch.setattr(preview_journal, "preview_version", lambda: "labels-0-preview-0")
    collect_move_values(jobs, path, workers=1)
    assert len(path.read_text().splitlines()) == 2 and len(list(read_jobs(path))) == 1


def test_what_the_machine_failed_at_is_valued_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs, path, notes = [ValuationJob(Program(TEXT, "synthetic", "x"), TARGET)], tmp_path / "moves.jsonl", list[str]()
    full = ValuedProgram(jobs[0].key, "synthetic", TEXT, (), Reason.DISK_FULL, "tools")
    monkeypatch.setattr(move_paths, "map_unordered", lambda *_: iter([ItemOutcome(0, full)]))
    collect_move_values(jobs, path, 1, notes.append)
    assert not path.exists() and Reason.DISK_FULL.meaning in notes[0]
