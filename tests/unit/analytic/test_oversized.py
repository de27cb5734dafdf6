"""Kernels with more static LDS than the device has: the others of their file are predicted, these are named."""

from __future__ import annotations

import json
from pathlib import Path

import needs
import pytest
from click.testing import CliRunner

from hipsynth.cli.main import cli
from hipsynth.core.errors import CompileFailed
from hipsynth.profiling.preview import record
from hipsynth.training.analytic.batch import Variant, predict_variants
from hipsynth.training.analytic.documents import predict_each
from hipsynth.training.analytic.predict import AnalyticPredictor, LaunchAssumptions, compile_for_preview
from hipsynth.training.models.documents import PredictionResult

TARGET = "gfx90a", "-O3", "mi250"
KERNELS = """#include <hip/hip_runtime.h>
#include <cstdlib>
#define CHECK(call) if ((call) != hipSuccess) exit(1)
__global__ void twice(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2 * x[i];
}
template <int N>
__global__ void turn(const float* x, float* y) {
  __shared__ float a[N];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  a[threadIdx.x * (N / 256)] = x[i];
  __syncthreads();
  y[i] = a[(255 - threadIdx.x) * (N / 256)];
}
#define TURNS(name) __global__ void name(const float* x, float* y) { \\
  __shared__ float a[20000]; int i = threadIdx.x; a[i * 70] = x[i]; __syncthreads(); y[i] = a[(255 - i) * 70]; }
TURNS(turns)
"""
PLAIN = """__global__ void turned(const float* x, float* y) {
  __shared__ float a[20000];
  a[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  y[threadIdx.x] = a[255 - threadIdx.x];
}
"""
MAIN = """int main() {
  const int n = 1 << 20;
  float *x, *y;
  CHECK(hipMalloc(&x, n * 4)); CHECK(hipMalloc(&y, n * 4));
  LAUNCHES
  CHECK(hipDeviceSynchronize());
}
"""
TWICE = "twice<<<n / 256, 256>>>(x, y, n); CHECK(hipGetLastError());\n  "
SMALL = "turn<1024><<<n / 256, 256>>>(x, y); CHECK(hipGetLastError());\n  "
LARGE, HUGE = SMALL.replace("1024", "20000"), SMALL.replace("1024", "100000")
TURNS = "turns<<<1, 256>>>(x, y); CHECK(hipGetLastError());\n  "


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needs.simulator()
    needs.sandbox()
    monkeypatch.setattr(record, "cache_dir", lambda: tmp_path / "cache")


def program(*launches: str) -> str:
    return KERNELS + MAIN.replace("LAUNCHES", "".join(launches).strip())


def predict(text: str) -> PredictionResult:
    (result,) = predict_each(text, [TARGET], LaunchAssumptions(), AnalyticPredictor.load(), 60)
    return result


def test_the_other_kernels_are_predicted_as_without_it() -> None:
    alone = predict(program(TWICE, SMALL).replace("TURNS(turns)", ""))
    beside = predict(program(LARGE, TWICE, TURNS, SMALL))
    assert beside.source == "program"
    assert beside.kernels[:2] == alone.kernels and not any(kernel.abstained for kernel in alone.kernels)
    refused = [(kernel.name, kernel.reason_code, kernel.reason) for kernel in beside.kernels[2:]]
    why = "the device does not start it: 80000 bytes of LDS; at most 65536"
    assert refused == [("turn<20000>", "bad_configuration", why), ("turns", "bad_configuration", why)]
    (note,) = beside.notes
    assert note.startswith("it does not compile for ") and "turn<20000> (80000 bytes of LDS; at most 65536)" in note


def test_a_template_beyond_any_limit_is_left_out() -> None:
    result = predict(program(TWICE, SMALL, HUGE).replace("TURNS(turns)", ""))
    twice, small, huge = result.kernels
    assert not twice.abstained and twice.grid == (4096, 1, 1)
    assert small.reason == "the device does not start it: its template was left out for turn<100000>"
    assert huge.reason == "the device does not start it: 400000 bytes of LDS; at most 65536"


def test_a_kernel_that_is_not_launched_is_named_in_a_note() -> None:
    result = predict(program(TWICE))
    (twice,) = result.kernels
    assert not twice.abstained and "turns (80000 bytes" in result.notes[0]


def test_a_file_with_another_error_is_half_written() -> None:
    assert predict(program(TWICE, LARGE).replace("2 * x[i];", "2 * x[i] +")).source != "program"
    with pytest.raises(CompileFailed):
        compile_for_preview(program(LARGE).replace("hip_runtime.h>", "hip_runtime.h>\n#include <no_such.h>"), *TARGET)


def test_assumed_launches_are_refused_too() -> None:
    twice, turned = predict(KERNELS.replace("TURNS(turns)", PLAIN) + "int main() {}").kernels
    assert not twice.abstained and twice.assumed
    assert turned.name == "turned" and turned.reason.endswith("80000 bytes of LDS; at most 65536")


def test_each_variant_names_it() -> None:
    questions = [LaunchAssumptions(block=(block, 1, 1)) for block in (64, 256)]
    variants = [Variant(*TARGET, question) for question in questions]
    answers = predict_variants(AnalyticPredictor.load(), program(TWICE, LARGE), variants)
    names = [[kernel.name for kernel in answer.prediction.kernels] for answer in answers]
    assert names == [["twice", "turn<20000>"]] * 2


def test_the_command_ends_with_the_code_of_a_missing_answer(tmp_path: Path) -> None:
    path = tmp_path / "large.hip"
    path.write_text(KERNELS.replace("TURNS(turns)", PLAIN))
    done = CliRunner().invoke(cli, ["predict", str(path), "--arch", "gfx90a", "--json"], standalone_mode=False)
    (result,) = json.loads(done.stdout)["results"]
    reasons = {kernel["name"]: kernel["reason"] for kernel in result["kernels"]}
    assert done.return_value == 5 and reasons["twice"] == "" and "80000 bytes of LDS" in reasons["turned"], reasons
