"""When the default backend runs a program again: sampling too coarse, or a sample that made the program fail."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hipsynth.core.errors import CompileFailed
from hipsynth.core.kernel_record import KernelRecord, Sampling
from hipsynth.core.program import Expected, Program, ProgramRun
from hipsynth.profiling.backends import equal_builds, sim
from hipsynth.profiling.backends.equal_builds import ProgramBuild
from hipsynth.simulator import devices
from hipsynth.simulator.api import Artefacts, RunResult
from hipsynth.simulator.limits import RunLimits
from hipsynth.toolchain import CompileLimits

COARSE = RunLimits(sampling_units=2, effort=0.03, largest_error=0.02)


DEVICE = devices.device_of("gfx942", "mi300x")


def ran(error: float, status: str = "ok", reason: str = "", **further: Any) -> RunResult:
    sampling = Sampling(further.pop("strategy", "sampled"), 8, error={"Duration": error})
    kernel = KernelRecord("k", 1, (64, 1, 1), (64, 1, 1), 1e3, {"TCC_REQ": 1e6}, sampling=sampling, **further)
    return RunResult(status, reason, kernels=(kernel,))


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> tuple[list[RunResult], list[RunLimits]]:
    """Results to hand out, in order, and the limits that each run was given."""
    results: list[RunResult] = []
    asked: list[RunLimits] = []

    def run(program: object, artefacts: object, table: object, limits: RunLimits) -> RunResult:
        asked.append(limits)
        return results[len(asked) - 1]

    monkeypatch.setattr(sim, "run_in_copy", run)
    return results, asked


def execute(limits: RunLimits) -> RunResult:
    nothing: Any = None
    return sim.execute_program(nothing, nothing, DEVICE, limits)


@pytest.mark.parametrize("limits", [COARSE, RunLimits()])
def test_a_run_that_is_good_is_kept(limits: RunLimits, runs: tuple[list[RunResult], list[RunLimits]]) -> None:
    results, asked = runs
    results.append(ran(0.5))
    assert execute(limits) is results[0]
    assert asked == [limits]


def test_a_sample_that_fails_runs_in_full(runs: tuple[list[RunResult], list[RunLimits]]) -> None:
    results, asked = runs
    results += [ran(0.1, "failed", "illegal_access"), ran(0.0)]
    assert execute(COARSE) is results[1]
    assert [limits.sampling_units for limits in asked] == [2, 0]


@pytest.fixture
def built(tmp_path: Path) -> ProgramBuild:
    files = [tmp_path / name for name in ("program", "program.co", "program.s")]
    for path in files:
        path.write_text(path.name)
    return ProgramBuild(Artefacts(*files), {})


PROGRAM = Program("", "synthetic", "", "program").with_runs([ProgramRun(("64",))])


def test_equal_files_run_once_within_a_job(built: ProgramBuild) -> None:
    with equal_builds.share_equal_work():
        key = equal_builds.key_of(PROGRAM, built, DEVICE, COARSE)
        assert equal_builds.find_equal_run(key) is None
        equal_builds.keep_run(key, replace(ran(0.0), cpu_s=2.0, device_s=1.0))
        again = equal_builds.find_equal_run(equal_builds.key_of(PROGRAM, built, DEVICE, COARSE))
        assert again == ran(0.0), "it takes no time"
    with equal_builds.share_equal_work():
        assert equal_builds.find_equal_run(key) is None, "another job runs by itself"


def test_what_differs_runs_again(built: ProgramBuild) -> None:
    with equal_builds.share_equal_work():
        first = equal_builds.key_of(PROGRAM, built, DEVICE, COARSE)
        others = [
            equal_builds.key_of(PROGRAM.with_runs([ProgramRun(("65",))]), built, DEVICE, COARSE),
            equal_builds.key_of(PROGRAM, built, devices.device_of("gfx942", "mi300a"), COARSE),
            equal_builds.key_of(PROGRAM, built, DEVICE, replace(COARSE, effort=1.0)),
        ]
        for path in (built.artefacts.executable, *built.artefacts.modules[0]):
            path.write_text("other")
            others.append(equal_builds.key_of(PROGRAM, ProgramBuild(built.artefacts, {}), DEVICE, COARSE))
        assert None not in (first, *others)
        assert len({first, *others}) == 7


def test_a_failed_run_is_not_kept_and_outside_of_a_job_nothing_is(built: ProgramBuild) -> None:
    with equal_builds.share_equal_work():
        key = equal_builds.key_of(PROGRAM, built, DEVICE, COARSE)
        equal_builds.keep_run(key, ran(0.0, "failed", "timeout"))
        assert equal_builds.find_equal_run(key) is None
    assert equal_builds.key_of(PROGRAM, built, DEVICE, COARSE) is None
    equal_builds.keep_run(key, ran(0.0))
    assert equal_builds.find_equal_run(key) is None


def test_a_job_builds_once_and_expects_once(tmp_path: Path) -> None:
    folders: list[Path] = []

    def make(folder: Path) -> tuple[Artefacts, dict[str, str]]:
        folders.append(folder)
        folder.mkdir(parents=True)
        (folder / "program").write_text("at " + str(folder))
        return Artefacts(folder / "program"), {"arch": "gfx942"}

    def build(program: Program, flags: str = "-O3") -> ProgramBuild:
        return equal_builds.build_once(program, "gfx942", flags, CompileLimits(), tmp_path, make)

    asked: list[tuple[str, ...]] = []

    def oracle(program: Program, run: ProgramRun) -> Expected:
        asked.append(run.arguments)
        return Expected((" ".join(run.arguments),))

    other_size = PROGRAM.with_runs([ProgramRun(("65",))])
    with equal_builds.share_equal_work():
        first = build(PROGRAM)
        assert build(other_size) is first and build(PROGRAM, "-O1") is not first
        assert len(folders) == 2 and not any(folder.is_relative_to(tmp_path) for folder in folders)
        text = equal_builds.hide_build_folders(first.artefacts.executable.read_text())
        assert text == "at <scratch>/build", "names of folders are random"
        programs = [replace(one, oracle=oracle) for one in (PROGRAM, other_size, PROGRAM)]
        expected = [equal_builds.expect_once(one) for one in programs]
        assert expected == [Expected((size,)) for size in ("64", "65", "64")]
        assert asked == [("64",), ("65",)]
    assert not any(folder.exists() for folder in folders)
    assert build(PROGRAM).artefacts.executable.parent == tmp_path / "build", "outside of a job nothing is shared"


def test_a_failed_build_is_not_remembered(tmp_path: Path) -> None:
    def refuse(_: Path) -> tuple[Artefacts, dict[str, str]]:
        raise CompileFailed("it does not compile")

    with equal_builds.share_equal_work():
        for _ in range(2):
            with pytest.raises(CompileFailed):
                equal_builds.build_once(PROGRAM, "gfx942", "-O3", CompileLimits(), tmp_path, refuse)
