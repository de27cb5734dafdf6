"""The exit codes of `synth predict`: what has no answer is a failed item."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hipsynth.cli.main import cli
from hipsynth.cli.predict import report_unanswered
from hipsynth.core.errors import BadInput
from hipsynth.core.reasons import Reason
from hipsynth.training.models.documents import FailedExecution, KernelPrediction, SimulatedKernel

METRICS = {"L2_Cache_Hit_Rate": 50.0}
SHAPE: dict[str, Any] = {"grid": (4, 1, 1), "block": (64, 1, 1)}
SURE = KernelPrediction(
    name="f", instance="f<int>", metrics=METRICS, duration_ns=1e3, intervals={}, occupancy=1.0, **SHAPE
)
UNSURE = replace(SURE, instance="f<float>", abstained=True, reason="it depends on data")
NONE = replace(UNSURE, instance="", metrics={}, duration_ns=None, grid=None, block=None)
EXECUTED = SimulatedKernel(name="f", instance="f<float>", metrics=METRICS, duration_ns=9e2, dispatches=1, **SHAPE)
FAILED = FailedExecution("failed", Reason.TIMEOUT, "")


@pytest.mark.parametrize(
    ("kernels", "executed", "code", "says"),
    [
        ([SURE], [], 0, ""),
        ([SURE, UNSURE], [], 0, ""),
        ([NONE, SURE], [], 5, "partial: 1 of 2 kernels have no answer"),
        ([NONE, UNSURE], [], 5, "partial: 1 of 2 kernels have no answer"),
        ([NONE, NONE], [], 3, "error: no kernel has an answer"),
        ([], [], 3, "error: no kernel has an answer"),
        ([NONE], [EXECUTED], 0, ""),
        ([replace(NONE, name="g")], [EXECUTED], 3, "error: no kernel"),
        ([replace(NONE, name="g"), SURE], [EXECUTED], 5, "partial: 1 of 2"),
        ([replace(NONE, name="")], [EXECUTED], 0, ""),
        ([SURE], [FAILED], 5, ""),
    ],
)
def test_exit_codes(
    kernels: list[KernelPrediction],
    executed: list[SimulatedKernel | FailedExecution],
    code: int,
    says: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert report_unanswered([(kernels, executed)]) == code
    printed = capsys.readouterr()
    assert printed.out == "" and printed.err.startswith(says) and bool(printed.err) == bool(says)


def test_one_answered_target_makes_the_others_a_partial_failure() -> None:
    assert report_unanswered([([NONE], []), ([SURE], [])]) == 5


def test_a_model_that_does_not_exist_is_bad_input(tmp_path: Path) -> None:
    (tmp_path / "k.hip").write_text("__global__ void k(int* x) { *x = 1; }\n")
    with pytest.raises(BadInput, match="no such file or folder") as caught:
        cli.main(["predict", str(tmp_path / "k.hip"), "--model", str(tmp_path / "none")], standalone_mode=False)
    assert (caught.value.exit_code, caught.value.reason) == (3, Reason.MISSING_FILE)
