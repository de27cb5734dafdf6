"""Predictions of real programs beside their execution, and the questions that `synth predict` takes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from hipsynth.cli.main import cli
from hipsynth.core.errors import CompileFailed, UsageError
from hipsynth.profiling.preview import record
from hipsynth.training.analytic import predict as analytic_predict

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = {
    "grid_stride/vector_add.hip": 0.05,
    "per_thread/fma_chain.hip": 0.10,
    "transpose/transpose_padded.hip": 0.15,
}
ASKS = """int main() {
  int n = 0;
  std::cin >> n;
  float* p;
  (void)hipMalloc(&p, 1 << 20);
  scale<<<64, 256>>>(p, p, n);
}
"""
FRAGMENT = """#include <hip/hip_runtime.h>
__global__ void scale(const float* in, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = 2.0f * in[i];
}
"""
ROUNDS = """#include <hip/hip_runtime.h>
__global__ void spread(const int* in, int* out, int round) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = 3 * in[i] + round;
}
__global__ void gather(const int* index, int* out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = index[index[i] & 1023];
}
int main() {
  int *a, *b;
  if (hipMalloc(&a, 1 << 21) || hipMalloc(&b, 1 << 21)) return 1;
  for (int round = 0; round < 8; ++round) {
    spread<<<2048, 256>>>(a, b, round);
    gather<<<2048, 256>>>(b, a);
  }
  return hipDeviceSynchronize();
}
"""


def predict(*words: object) -> dict[str, Any]:
    done = CliRunner().invoke(cli, ["predict", "--json", *map(str, words)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return dict(json.loads(done.stdout)["results"][0])


@pytest.mark.parametrize("arch", ["gfx90a", "gfx942"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_predictions_are_near_what_execution_gives(name: str, arch: str) -> None:
    found = predict(ROOT / "corpus/handwritten" / name, "--arch", arch, "--check")
    kernel, executed = found["kernels"][0], found["executed"][0]
    assert not kernel["abstained"], kernel["reason"]
    assert (kernel["name"], kernel["grid"]) == (executed["name"], executed["grid"])
    assert kernel["duration_ns"] == pytest.approx(executed["duration_ns"], rel=PROGRAMS[name])
    assert kernel["metrics"]["HBM_GFLOPS"] == pytest.approx(executed["metrics"]["HBM_GFLOPS"], rel=PROGRAMS[name])
    low, high = kernel["intervals"]["duration_ns"]
    assert 0 < low <= kernel["duration_ns"] <= high


NAIVE_PRODUCT = ROOT / "corpus/handwritten/gemm/gemm_naive.hip"


def test_equal_work_groups_are_predicted_as_they_execute() -> None:
    """Those of a naive product fall in step slowly, which windows of a sample do not show."""
    found = predict(NAIVE_PRODUCT, "--arch", "gfx942", "--check", "--", 512)
    kernel, executed = found["kernels"][0], found["executed"][0]
    assert kernel["duration_ns"] == pytest.approx(executed["duration_ns"], rel=1e-6)
    assert kernel["metrics"]["L1_Cache_Hit_Rate"] == pytest.approx(executed["metrics"]["L1_Cache_Hit_Rate"], abs=0.01)


def test_equal_work_groups_too_many_to_replay_are_unsure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(analytic_predict, "REPLAYABLE", 1)
    found = predict(NAIVE_PRODUCT, "--arch", "gfx90a", "--check", "--", 512)
    kernel, executed = found["kernels"][0], found["executed"][0]
    for name in ("L1_Cache_Hit_Rate", "L2_Cache_Hit_Rate", "L2_Cache_Bandwidth", "HBM_GFLOPS"):
        low, high = kernel["intervals"][name]
        assert low <= executed["metrics"][name] <= high, name
    low, high = kernel["intervals"]["duration_ns"]
    assert low <= executed["duration_ns"] < kernel["duration_ns"] / 1.05


def test_kernels_on_unknown_data_find_what_others_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`gather` reads where `spread` says; from the second round on, the Infinity Cache has their arrays."""
    monkeypatch.setattr(record, "KERNEL_SECONDS", 1e-9)  # none runs while launches are recorded
    path = tmp_path / "rounds.hip"
    path.write_text(ROUNDS)
    result = predict(path, "--arch", "gfx942", "--check")
    executed = {kernel["name"]: kernel["duration_ns"] for kernel in result["executed"]}
    predicted: dict[str, list[float]] = {}
    for kernel in result["kernels"]:
        predicted.setdefault(kernel["name"], []).extend([kernel["duration_ns"]] * kernel["launches"])
    for name in ("spread", "gather"):
        assert len(predicted[name]) == 8
        assert sum(predicted[name]) / 8 == pytest.approx(executed[name], rel=0.03), name


def test_a_kernel_without_host_code_is_asked_by_its_shape(tmp_path: Path) -> None:
    path = tmp_path / "scale.hip"
    path.write_text(FRAGMENT)
    small, large = (
        predict(path, "--arch", "gfx942", "--grid", grid, "--block", "256", "--value", f"n={256 * grid}")["kernels"][0]
        for grid in (4096, 131072)
    )
    assert small["grid"] == [4096, 1, 1]
    assert large["duration_ns"] > 5 * small["duration_ns"]
    assumed = predict(path, "--arch", "gfx942")
    assert assumed["notes"][0].startswith("no main(): scale is launched with 4096 x 1 x 1 work-groups of 256 x 1 x 1")
    assert assumed["kernels"][0]["grid"] == [4096, 1, 1]


def test_standard_input_is_empty_and_values_can_be_given(tmp_path: Path) -> None:
    path = tmp_path / "scale.hip"
    path.write_text("#include <iostream>\n" + FRAGMENT + ASKS)
    empty = predict(path, "--arch", "gfx90a")["kernels"][0]
    assert empty["duration_ns"] > 0
    answered = predict(path, "--arch", "gfx90a", "--value", "n=16384")["kernels"][0]
    assert answered["metrics"]["HBM_GFLOPS"] > empty["metrics"]["HBM_GFLOPS"]


def test_several_kernels_are_all_answered(tmp_path: Path) -> None:
    path = tmp_path / "two.hip"
    text = FRAGMENT + FRAGMENT.replace("scale", "triple").replace("2.0f", "3.0f").split("\n", 1)[1]
    path.write_text(text + "int main() { scale<<<64, 256>>>(0, 0, 9); triple<<<9, 64>>>(0, 0, 9); }")
    assert [kernel["name"] for kernel in predict(path, "--arch", "gfx942")["kernels"]] == ["scale", "triple"]


@pytest.mark.parametrize("words", [["--grid", "0"], ["--block", "1,2,3,4"], ["--value", "n"], ["--value", "n=many"]])
def test_wrong_questions_are_usage_errors(words: list[str], tmp_path: Path) -> None:
    path = tmp_path / "scale.hip"
    path.write_text(FRAGMENT)
    done = CliRunner().invoke(cli, ["predict", str(path), "--arch", "gfx942", *words])
    assert done.exit_code == 2 or isinstance(done.exception, UsageError)
    assert "Traceback" not in done.output


@pytest.mark.parametrize("start", ["", "\ufeff", "\ufeff#include <hip/hip_runtime.h>\n"])
def test_a_kernel_needs_no_header_and_a_text_may_begin_with_a_mark(start: str, tmp_path: Path) -> None:
    path = tmp_path / "scale.hip"
    path.write_text(start + FRAGMENT.split("\n", 1)[1])
    for verb in ("predict", "profile"):
        done = CliRunner().invoke(cli, [verb, str(path), "--arch", "gfx942", "--json"], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        (result,) = json.loads(done.stdout)["results"]
        assert result["kernels"][0]["name"].startswith("scale") and result["kernels"][0]["grid"] == [4096, 1, 1]


def test_what_does_not_compile_is_not_executed(tmp_path: Path) -> None:
    path = tmp_path / "scale.hip"
    path.write_text(FRAGMENT.replace("in[i];", "in[missing];"))
    words = ["predict", str(path), "--arch", "gfx942"]
    done = CliRunner().invoke(cli, [*words, "--check", "--json"], catch_exceptions=False, standalone_mode=False)
    (result,) = json.loads(done.stdout)["results"]
    assert done.return_value == 5 and result["source"] == "completed"
    assert [row["reason"] for row in result["executed"]] == ["compile_failed"]
    with pytest.raises(CompileFailed) as error:
        CliRunner().invoke(cli, [*words, "--sweep", "block=64,128"], catch_exceptions=False)
    assert error.value.what == "scale.hip does not compile" and "scale.hip:4:" in error.value.diagnostics
