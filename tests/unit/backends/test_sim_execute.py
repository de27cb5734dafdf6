"""When the default backend runs a program again: sampling too coarse, or a sample that made the program fail."""

from dataclasses import replace
from typing import Any

import pytest

from hipsynth.profiling.backends import sim
from hipsynth.profiling.sim.api import RunResult
from hipsynth.profiling.sim.limits import REFINED, SAMPLING_UNITS, Limits
from hipsynth.synth.core.kernel_record import KernelRecord, Sampling

COARSE = Limits(sampling_units=2, effort=0.03, largest_error=0.02)


def ran(error: float, status: str = "ok", reason: str = "") -> RunResult:
    kernel = KernelRecord(
        "k", 1, (64, 1, 1), (64, 1, 1), 1e3, {}, sampling=Sampling("sampled", 8, error={"Duration": error})
    )
    return RunResult(status, reason, kernels=(kernel,))


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> tuple[list[RunResult], list[Limits]]:
    """Results to hand out, in order, and the limits that each run was given."""
    results: list[RunResult] = []
    asked: list[Limits] = []

    def run(program: object, artefacts: object, table: object, limits: Limits) -> RunResult:
        asked.append(limits)
        return results[len(asked) - 1]

    monkeypatch.setattr(sim, "run_in_copy", run)
    return results, asked


def execute(limits: Limits) -> RunResult:
    nothing: Any = None
    return sim.execute(nothing, nothing, nothing, limits)


def test_a_coarse_duration_is_refined_once(runs: tuple[list[RunResult], list[Limits]]) -> None:
    results, asked = runs
    results += [ran(0.1), ran(0.03)]
    assert execute(COARSE) is results[1]
    assert asked == [COARSE, replace(COARSE, effort=REFINED * COARSE.effort, sampling_units=SAMPLING_UNITS)]


@pytest.mark.parametrize("limits", [COARSE, Limits()], ids=["fine enough", "any error will do"])
def test_a_run_that_is_good_enough_is_kept(limits: Limits, runs: tuple[list[RunResult], list[Limits]]) -> None:
    results, asked = runs
    results.append(ran(0.02 if limits is COARSE else 0.5))
    assert execute(limits) is results[0]
    assert asked == [limits]


def test_a_refinement_that_fails_is_dropped(runs: tuple[list[RunResult], list[Limits]]) -> None:
    results, asked = runs
    results += [ran(0.1), ran(0.0, "failed", "timeout")]
    assert execute(COARSE) is results[0]
    assert len(asked) == 2


def test_a_sample_that_fails_runs_in_full(runs: tuple[list[RunResult], list[Limits]]) -> None:
    results, asked = runs
    results += [ran(0.1, "failed", "illegal_access"), ran(0.0)]
    assert execute(COARSE) is results[1]
    assert [limits.sampling_units for limits in asked] == [2, 0]
