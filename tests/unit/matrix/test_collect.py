"""The matrix run: every item ends up in the corpus once, with its reason where it failed."""

from __future__ import annotations

import errno
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from child_processes import child_process
from profiling_samples import captures, failure, kernel, program, result, target

from hipsynth.core import scratch, stop_signal
from hipsynth.core.errors import BadInput, CompileFailed, MissingDependency, UsageError
from hipsynth.core.kernel_record import Sampling
from hipsynth.core.languages import HIP
from hipsynth.core.program import Program, ProgramRun, Project, SourceFile, write_programs
from hipsynth.core.reasons import TRANSIENT
from hipsynth.core.store import Corpus
from hipsynth.core.workers import ItemOutcome
from hipsynth.profiling import backends
from hipsynth.profiling.backends.protocol import Availability, Target, TargetResult
from hipsynth.profiling.backends.recorded import capture_result
from hipsynth.profiling.matrix import collect, job
from hipsynth.profiling.matrix.collect import MatrixOptions
from hipsynth.simulator import label_model
from hipsynth.simulator.limits import RunLimits

TARGETS = [target("gfx90a"), target("gfx90a", "-O3 -ffast-math"), target("gfx942")]
PROGRAMS = [program(n, lineage="base" if n < 2 else "") for n in range(4)]


def content(path: Path) -> dict[str, bytes]:
    return {str(f.relative_to(path)): f.read_bytes() for f in [*path.rglob("*.parquet"), path / "manifest.json"]}


@pytest.fixture
def recorded(tmp_path: Path) -> str:
    folder = captures(tmp_path / "captures", PROGRAMS[:3], TARGETS)
    capture_result(folder, PROGRAMS[3].id, failure(TARGETS[0], "illegal_access"))
    return f"recorded:{folder}"


def test_the_corpus_records_everything_that_affects_a_result(tmp_path: Path, recorded: str) -> None:
    notes: list[Any] = []

    def progress(total: int) -> Any:
        notes.append(total)
        return notes.append

    summary = collect.collect_matrix(
        [*PROGRAMS, PROGRAMS[0]], TARGETS, tmp_path / "c", MatrixOptions(recorded), progress
    )
    assert (summary.programs, summary.targets, summary.planned, summary.duplicates) == (4, 3, 12, 1)
    assert (summary.measured, summary.failed) == (9, {"illegal_access": 1, "not_recorded": 2})
    assert notes[0] == 12 and len(notes) == 13
    stored = Corpus.open(tmp_path / "c")
    rows = stored.measurements().to_pylist()
    assert len(rows) == 9 and stored.failures().num_rows == 3 and stored.programs().num_rows == 4
    row = next(r for r in rows if r["program_id"] == PROGRAMS[0].id and r["flags"] == "-O3 -ffast-math")
    assert (row["arch"], row["device"], row["lineage"], row["backend"]) == ("gfx90a", "mi250", "base", "recorded")
    assert row["backend_version"] == backends.open_backend(recorded).version()
    assert dict(row["provenance"])["measured_by"] == "rocprof recorded"
    assert row["L1_Cache_Hit_Rate"] == 50.0 and row["duration_ns"] == 15840.0


def test_metrics_with_a_large_sampling_error_are_no_labels() -> None:
    part = replace(kernel(), sampling=Sampling("sampled", error={"TCC_MISS": 1.0, "Duration": 0.02}))
    kept = collect.with_sure_labels(part, "gfx90a")
    assert kept.metrics["L2_Cache_Hit_Rate"] is None
    assert kept.metrics["L1_Cache_Bandwidth"] == part.metrics["L1_Cache_Bandwidth"] is not None
    assert replace(kept, metrics=part.metrics) == part
    assert collect.with_sure_labels(kernel(), "gfx90a") == kernel()


def test_running_again_does_nothing_new(tmp_path: Path, recorded: str) -> None:
    collect.collect_matrix(PROGRAMS, TARGETS, tmp_path / "c", MatrixOptions(recorded))
    before = content(tmp_path / "c")
    again = collect.collect_matrix(PROGRAMS, TARGETS, tmp_path / "c", MatrixOptions(recorded))
    assert (again.measured, again.already_done, again.failed) == (0, 12, {"illegal_access": 1, "not_recorded": 2})
    assert content(tmp_path / "c") == before


def test_limits_that_affect_results_change_the_version(tmp_path: Path, recorded: str) -> None:
    limits = [
        RunLimits(),
        RunLimits(sampling_units=0),
        RunLimits(sampling_units=24, effort=8),
        RunLimits(largest_error=0.02),
    ]
    for one in limits:
        collect.collect_matrix(PROGRAMS[:1], TARGETS[:1], tmp_path / "c", MatrixOptions(recorded, limits=one))
    version = backends.open_backend(recorded).version()
    found = set(Corpus.open(tmp_path / "c").measurements()["backend_version"].to_pylist())
    assert found == {version, f"{version}+exact", f"{version}+sample24+effort8", f"{version}+error0.02"}


def test_other_captures_change_the_version(tmp_path: Path, recorded: str) -> None:
    collect.collect_matrix(PROGRAMS[:1], TARGETS[:1], tmp_path / "c", MatrixOptions(recorded))
    capture_result(Path(recorded.partition(":")[2]), PROGRAMS[3].id, result(TARGETS[1]))
    again = collect.collect_matrix(PROGRAMS[:1], TARGETS[:1], tmp_path / "c", MatrixOptions(recorded))
    assert again.measured == 1
    assert len(set(Corpus.open(tmp_path / "c").measurements()["backend_version"].to_pylist())) == 2


def test_files_besides_the_text_are_part_of_an_item(tmp_path: Path, recorded: str) -> None:
    project = Project((SourceFile(tmp_path / "main.hip"),), tmp_path)
    built = [replace(PROGRAMS[0], project=replace(project, digest=digest)) for digest in ("", "a", "b")]
    for programs, measured in ((built[:2], 2), (built[:2], 0), (built[1:], 1), (PROGRAMS[:1], 0)):
        summary = collect.collect_matrix(programs, TARGETS[:1], tmp_path / "c", MatrixOptions(recorded))
        assert (summary.measured, summary.duplicates) == (measured, 0)
    assert Corpus.open(tmp_path / "c").programs().num_rows == 1


def test_items_of_an_older_version_with_equal_labels_are_done(
    tmp_path: Path, recorded: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    older = "dev-c93b8a40-fbdc18fc"  # of release v1
    present = label_model.current_version(older)
    for version, measured in ((older, 1), (present, 0), ("labels-0", 1)):
        monkeypatch.setattr("hipsynth.profiling.backends.recorded.RecordedBackend.version", lambda _, v=version: v)
        assert (
            collect.collect_matrix(PROGRAMS[:1], TARGETS[:1], tmp_path / "c", MatrixOptions(recorded)).measured
            == measured
        )


def test_workers_and_engines_do_not_change_a_byte(tmp_path: Path, recorded: str) -> None:
    collect.collect_matrix(PROGRAMS, TARGETS, tmp_path / "one", MatrixOptions(recorded, workers=1))
    collect.collect_matrix(PROGRAMS[::-1], TARGETS[::-1], tmp_path / "two", MatrixOptions(recorded, workers=2))
    assert content(tmp_path / "one") == content(tmp_path / "two")


def test_failed_items_are_tried_again_on_request(
    tmp_path: Path, recorded: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    collect.collect_matrix(PROGRAMS[3:], TARGETS[:1], tmp_path / "c", MatrixOptions(recorded))
    version = backends.open_backend(recorded).version()
    monkeypatch.setattr("hipsynth.profiling.backends.recorded.RecordedBackend.version", lambda self: version)
    capture_result(Path(recorded.partition(":")[2]), PROGRAMS[3].id, result(TARGETS[0]))
    assert collect.collect_matrix(PROGRAMS[3:], TARGETS[:1], tmp_path / "c", MatrixOptions(recorded)).failed == {
        "illegal_access": 1
    }
    again = collect.collect_matrix(
        PROGRAMS[3:], TARGETS[:1], tmp_path / "c", MatrixOptions(recorded, retry_failed=True)
    )
    assert (again.measured, again.failed) == (1, {})
    assert Corpus.open(tmp_path / "c").failures().num_rows == 0


class ScriptedBackend:
    """A backend whose outcome is given by the program's name."""

    name = "scripted"

    def version(self) -> str:
        return "1"

    def available(self) -> Availability:
        return Availability(True, "here")

    def supports(self, target: Target) -> bool:
        return True

    def environment(self, target: Target, language: str = HIP) -> dict[str, str]:
        return {"compiler": f"clang for {target.arch}", "headers": "7.1", "rocm": "none"}

    def profile(self, program: Program, target: Target, scratch: Path, limits: RunLimits) -> TargetResult:
        if program.name == "compile":
            raise CompileFailed("clang refused it", diagnostics=f"{scratch}/program.hip:1:1: error")
        if program.name == "bug":
            raise ZeroDivisionError("a bug of the backend")
        if program.name == "missing":
            raise MissingDependency("no compiler", remedy="install one")
        if program.name == "empty":
            return TargetResult(target.arch, target.flags, target.device, "ok", stdout=f"in {scratch}")
        return result(target, kernel(target.arch))


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(
        backends.REGISTRY, "scripted", backends.BackendEntry(__name__, "ScriptedBackend", takes_path=False)
    )
    job._open_cached.cache_clear()


def named(name: str) -> Program:
    return Program(f"// {name}", "handwritten", "test", name=name)


def task(name: str) -> job.MatrixJob:
    return job.MatrixJob("scripted", named(name), ((TARGETS[0], ProgramRun()),), RunLimits())


def only(one: job.MatrixJob) -> TargetResult:
    (found,) = job.run_job(one)
    return found


@pytest.mark.usefixtures("scripted")
def test_every_outcome_of_a_program_is_recorded() -> None:
    compiled = only(task("compile"))
    assert (compiled.status, compiled.reason) == ("failed", "compile_failed")
    assert "<scratch>/program.hip:1:1: error" in compiled.message, "the scratch folder's random name must not be kept"
    bug = only(task("bug"))
    assert bug.reason == "internal_error" and re.fullmatch(r"\w+: .*, at .*\.py:\d+", bug.message)
    empty = only(task("empty"))
    assert (empty.status, empty.reason, empty.stdout) == ("failed", "no_dispatch", "in <scratch>")
    with pytest.raises(MissingDependency):
        job.run_job(task("missing"))


SEVERAL = (ProgramRun(), ProgramRun(("128",), {"n": 128}), ProgramRun(("4096", "a b")))


@pytest.mark.usefixtures("scripted")
def test_each_run_is_measured_once_on_every_target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs: list[job.MatrixJob] = []

    def engine(function: Any, items: Any, *_: Any, **__: Any) -> Any:
        return in_process(function, jobs_of(items, jobs))

    monkeypatch.setattr(collect, "map_unordered", engine)
    several = named("good").with_runs(SEVERAL)
    devices = [*TARGETS, replace(TARGETS[2], device="mi300a")]
    first = collect.collect_matrix([several.with_runs(SEVERAL[:2])], devices, tmp_path / "c", MatrixOptions("scripted"))
    assert (first.planned, first.measured) == (8, 8)
    again = collect.collect_matrix([several], devices, tmp_path / "c", MatrixOptions("scripted"))
    assert (again.planned, again.measured, again.already_done) == (12, 4, 8)
    rows = Corpus.open(tmp_path / "c").measurements().to_pylist()
    assert Counter(row["arguments"] for row in rows) == {"": 4, "128": 4, "4096 'a b'": 4}
    builds = [[(target.arch, target.flags) for target, _ in one.cells] for one in jobs]
    assert all(len({arch for arch, _ in cells}) == 1 for cells in builds), "a job is of one architecture"
    assert [len(set(cells)) for cells in builds] == [2, 1, 2, 1]
    assert [len(cells) for cells in builds] == [4, 4, 2, 2]


def jobs_of(items: Any, seen: list[job.MatrixJob]) -> Any:
    for one in items:
        seen.append(one)
        yield one


@pytest.mark.usefixtures("scripted")
def test_a_run_is_profiled_with_its_arguments_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, ...]] = []

    def profile(self: ScriptedBackend, program: Program, target: Target, *_: Any) -> TargetResult:
        assert len(program.runs) == 1
        seen.append(program.arguments)
        return result(target, kernel(target.arch))

    monkeypatch.setattr(ScriptedBackend, "profile", profile)
    cells = tuple((TARGETS[0], run) for run in SEVERAL)
    found = job.run_job(job.MatrixJob("scripted", named("good").with_runs(SEVERAL), cells, RunLimits()))
    assert seen == [(), ("128",), ("4096", "a b")] and [one.status for one in found] == ["ok"] * 3


@pytest.mark.usefixtures("scripted")
def test_what_does_not_compile_is_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Target] = []

    def refused(self: ScriptedBackend, program: Program, target: Target, *_: Any) -> TargetResult:
        calls.append(target)
        provenance = {"device": target.device, "compiler": "clang"}
        return replace(failure(target, "compile_failed"), provenance=provenance)

    monkeypatch.setattr(ScriptedBackend, "profile", refused)
    targets = [TARGETS[2], replace(TARGETS[2], device="mi300a")]
    cells = tuple((target, run) for target in targets for run in SEVERAL)
    found = job.run_job(job.MatrixJob("scripted", named("x"), cells, RunLimits()))
    assert calls == targets[:1] and {one.reason for one in found} == {"compile_failed"}
    assert [one.device for one in found] == ["mi300x"] * 3 + ["mi300a"] * 3
    assert [one.provenance["device"] for one in found] == [one.device for one in found]


@pytest.mark.usefixtures("scripted")
def test_a_failed_run_does_not_stop_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def profile(self: ScriptedBackend, program: Program, target: Target, *_: Any) -> TargetResult:
        return failure(target, "timeout") if program.arguments == ("128",) else result(target, kernel(target.arch))

    monkeypatch.setattr(ScriptedBackend, "profile", profile)
    cells = tuple((TARGETS[0], run) for run in SEVERAL)
    found = job.run_job(job.MatrixJob("scripted", named("good"), cells, RunLimits()))
    assert [one.reason for one in found] == ["", "timeout", ""]


def test_recorded_results_belong_to_one_run(tmp_path: Path) -> None:
    folder, where = tmp_path / "captures", TARGETS[0]
    for scale, arguments in ((1.0, ()), (2.0, ("128",))):
        capture_result(folder, PROGRAMS[0].id, result(where, kernel(where.arch, scale=scale)), arguments)
    assert len(list(folder.iterdir())) == 2
    backend = backends.open_backend(f"recorded:{folder}")
    found = [backend.profile(PROGRAMS[0].with_runs([run]), where, tmp_path, RunLimits()) for run in SEVERAL]
    assert [one.reason for one in found] == ["", "", "not_recorded"]
    assert found[1].kernels[0].duration_ns == 2 * found[0].kernels[0].duration_ns
    assert backend.supports(where) and not backend.supports(TARGETS[2])


@pytest.mark.usefixtures("scripted")
def test_the_environment_is_part_of_the_identity(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collect, "map_unordered", in_process)
    assert collect.collect_matrix([named("good")], TARGETS[:1], tmp_path / "c", MatrixOptions("scripted")).measured == 1
    assert collect.collect_matrix([named("good")], TARGETS[:1], tmp_path / "c", MatrixOptions("scripted")).measured == 0
    newer = {"compiler": "clang 23", "headers": "7.1"}
    monkeypatch.setattr(ScriptedBackend, "environment", lambda self, target, language: newer)
    assert collect.collect_matrix([named("good")], TARGETS[:1], tmp_path / "c", MatrixOptions("scripted")).measured == 1
    compilers = Corpus.open(tmp_path / "c").measurements()["compiler"].to_pylist()
    assert sorted(compilers) == ["clang 23", "clang for gfx90a"]


def in_process(function: Any, items: Any, *_: Any, **__: Any) -> Any:
    """The engine without processes: a class patched in this process is not patched in workers."""
    for index, one in enumerate(items):
        yield ItemOutcome(index, function(one))


@pytest.mark.usefixtures("scripted")
def test_transient_failures_are_tried_again_and_lasting_ones_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collect, "map_unordered", in_process)
    programs = [named("compile"), named("bug"), named("good")]
    first = collect.collect_matrix(programs, TARGETS[:1], tmp_path / "c", MatrixOptions("scripted"))
    assert (first.measured, first.failed) == (1, {"compile_failed": 1, "internal_error": 1})
    again = collect.collect_matrix(programs, TARGETS[:1], tmp_path / "c", MatrixOptions("scripted"))
    assert (again.already_done, again.failed) == (2, {"compile_failed": 1, "internal_error": 1})


def test_unusable_backends(tmp_path: Path) -> None:
    with pytest.raises(MissingDependency) as caught:
        collect.collect_matrix(PROGRAMS, TARGETS, tmp_path / "c", MatrixOptions(f"recorded:{tmp_path / 'nothing'}"))
    assert "recorded:FOLDER" in caught.value.remedy
    with pytest.raises(UsageError, match="h100"):
        collect.collect_matrix(PROGRAMS, TARGETS, tmp_path / "c", MatrixOptions("h100"))
    assert not (tmp_path / "c").exists()


@pytest.mark.usefixtures("scripted")
def test_what_ended_in_an_unfinished_job_is_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    profile_whole = ScriptedBackend.profile

    def profile_one(self: ScriptedBackend, *how: Any) -> TargetResult:
        stop_signal.remember_signal(signal.SIGUSR1)
        return profile_whole(self, *how)

    def run_one_job(function: Any, jobs: Any, *_: Any, **__: Any) -> Any:
        yield ItemOutcome(0, function(jobs[0]))
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(stop_signal, "_received", [])
        patch.setattr(ScriptedBackend, "profile", profile_one)
        patch.setattr(collect, "map_unordered", run_one_job)
        with pytest.raises(KeyboardInterrupt):
            collect.collect_matrix([named("good")], TARGETS, tmp_path / "c", MatrixOptions("scripted"))
    stored = Corpus.open(tmp_path / "c")
    assert stored.measurements().num_rows == 1 and stored.failures().num_rows == 0
    monkeypatch.setattr(collect, "map_unordered", in_process)
    summary = collect.collect_matrix([named("good")], TARGETS, tmp_path / "c", MatrixOptions("scripted"))
    assert (summary.already_done, summary.measured, summary.failed) == (1, 2, {})


@pytest.mark.usefixtures("scripted")
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_a_full_disk_is_a_transient_failure(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: ScriptedBackend, *_: Any) -> TargetResult:
        raise OSError(number, "No space left on device")

    monkeypatch.setattr(ScriptedBackend, "profile", full)
    assert only(task("good")).reason == "disk_full" in TRANSIENT


@pytest.mark.usefixtures("scripted")
def test_temporary_files_that_do_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(**_: Any) -> str:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(tempfile, "mkdtemp", full)
        assert only(task("good")).reason == "disk_full"
    monkeypatch.setattr(scratch, "_own", None)
    monkeypatch.setenv("TMPDIR", "/nowhere")
    with pytest.raises(MissingDependency, match="/nowhere"):
        job.run_job(task("good"))


def test_nothing_to_do_is_an_error(tmp_path: Path, recorded: str) -> None:
    with pytest.raises(BadInput, match="no programs"):
        collect.collect_matrix([], TARGETS, tmp_path / "c", MatrixOptions(recorded))
    with pytest.raises(UsageError, match="no targets"):
        collect.collect_matrix(PROGRAMS, [], tmp_path / "c", MatrixOptions(recorded))


def test_a_capture_that_cannot_be_read_is_named(tmp_path: Path, recorded: str) -> None:
    folder = Path(recorded.partition(":")[2])
    broken = next(folder.glob(f"{PROGRAMS[0].id}-*"))
    broken.write_text("{")
    with pytest.raises(BadInput, match=broken.name):
        for where in TARGETS:
            backends.open_backend(recorded).profile(PROGRAMS[0], where, tmp_path, RunLimits())
    summary = collect.collect_matrix(PROGRAMS[:1], TARGETS, tmp_path / "c", MatrixOptions(recorded))
    assert (summary.measured, summary.failed) == (2, {"bad_input": 1})


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_ending_the_command_loses_nothing(tmp_path: Path, recorded: str, how: signal.Signals) -> None:
    programs = [program(n) for n in range(60)]
    folder = captures(tmp_path / "many", programs, TARGETS)
    write_programs(tmp_path / "programs", programs)
    command = [sys.executable, "-m", "hipsynth.cli.main", "profile", str(tmp_path / "programs"), "--workers", "2"]
    command += [
        "--out",
        str(tmp_path / "c"),
        "--backend",
        f"recorded:{folder}",
        "--flags=-O3",
        "--flags=-O3 -ffast-math",
    ]
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[3])}
    journal = tmp_path / "c" / "journal.log"
    with child_process(command, env=env, stdout=subprocess.DEVNULL) as child:
        while child.poll() is None and not (journal.exists() and journal.stat().st_size > 100_000):
            time.sleep(0.005)
        assert child.returncode is None, "it ended before enough was written"
        os.killpg(child.pid, how)
        assert child.wait(timeout=60) == (130 if how == signal.SIGINT else -how)
    kept = Corpus.open(tmp_path / "c").measurements()["measurement_id"].to_pylist()
    done = subprocess.run([*command, "--json"], env=env, capture_output=True, text=True)
    assert done.returncode == 5, done.stderr  # gfx942 was recorded for -O3 only
    whole = Corpus.open(tmp_path / "c").measurements()["measurement_id"].to_pylist()
    assert set(kept) <= set(whole) and len(whole) == len(set(whole)) == 180
