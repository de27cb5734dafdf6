"""Code that does not compile is answered, and the answer says what it is of."""

from __future__ import annotations

from pathlib import Path

import needs
import pytest

from hipsynth.core.errors import CompileFailed
from hipsynth.profiling.preview.completed import complete_program
from hipsynth.profiling.preview.programs import device_code
from hipsynth.training.analytic.documents import predict_each
from hipsynth.training.analytic.half_written import (
    compiled_text_of,
    keep_compiled_text,
    predict_half_written,
)
from hipsynth.training.analytic.predict import AnalyticPredictor, LaunchAssumptions
from hipsynth.training.analytic.prediction_text import prediction_lines

TARGET = "gfx942", "-O3", "mi300x"
WHOLE = """#include <hip/hip_runtime.h>
__global__ void axpy(const float* x, const float* y, float* out, float alpha, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = alpha * x[i] + y[i];
}
int main() {
  const int n = 1 << 20;
  float *x, *y, *out;
  hipMalloc(&x, n * 4);
  hipMalloc(&y, n * 4);
  hipMalloc(&out, n * 4);
  axpy<<<n / 256, 256>>>(x, y, out, 2.0f, n);
  hipDeviceSynchronize();
  return 0;
}
"""
HALF = WHOLE.replace("alpha * x[i] + y[i];", "alpha * x[i] +")
HOPELESS = WHOLE.replace("#include <hip/hip_runtime.h>", "#include <hip/hip_runtime.h>\n#include <no_such_header.h>")


@pytest.fixture(scope="module")
def predictor() -> AnalyticPredictor:
    needs.simulator()
    return AnalyticPredictor.load()


def failure_of(text: str) -> CompileFailed:
    with pytest.raises(CompileFailed) as caught:
        device_code(text, "gfx942", "-O3")
    return caught.value


def test_a_completed_text_is_predicted_like_the_whole(predictor: AnalyticPredictor) -> None:
    (whole,) = predict_each(WHOLE, [TARGET], LaunchAssumptions(), predictor, 60)
    (found,) = predict_each(HALF, [TARGET], LaunchAssumptions(), predictor, 60)
    assert (whole.source, found.source) == ("program", "completed")
    (kernel,), (same,) = found.kernels, whole.kernels
    assert kernel.duration_ns == pytest.approx(same.duration_ns, rel=0.01)
    assert kernel.metrics["HBM_GFLOPS"] == pytest.approx(same.metrics["HBM_GFLOPS"], rel=0.01)
    low, high = kernel.intervals["L2_Fabric_Read_BW"]
    inner = same.intervals["L2_Fabric_Read_BW"]
    assert low < inner[0] and high > inner[1], "a guess is less sure"
    assert "guessed completion" in found.notes[0] and found.notes[1].startswith("the compiler, line ")
    lines = prediction_lines(found)
    assert lines[:2] == [f"note: {note}" for note in found.notes] and lines.count(lines[0]) == 1, "before any figure"


def test_statements_that_nothing_completes_are_left_out(predictor: AnalyticPredictor) -> None:
    text = WHOLE.replace("  if (i < n)", "  nothing(i) @ 3;\n  if (i < n)")
    completed = complete_program(text, "gfx942", "-O3", failure_of(text))
    assert completed is not None and completed.deleted and "out[i] = alpha" in completed.text


def test_what_a_left_out_statement_does_is_not_known_to_be_nothing(predictor: AnalyticPredictor) -> None:
    (found,) = predict_each(
        WHOLE.replace("if (i < n) out[i]", "nothing(i) @ out[i]"), [TARGET], LaunchAssumptions(), predictor, 60
    )
    (kernel,) = found.kernels
    assert kernel.metrics["L2_Fabric_Write_BW"] == 0 and "L2_Fabric_Write_BW" not in kernel.intervals
    assert all(low < high for low, high in kernel.intervals.values())
    row = next(line for line in prediction_lines(found) if "L2_Fabric_Write_BW" in line)
    assert row.split()[-2:] == ["0", "?"]


def test_a_text_that_cannot_be_completed(predictor: AnalyticPredictor) -> None:
    failure = failure_of(HOPELESS)
    assert complete_program(HOPELESS, "gfx942", "-O3", failure) is None
    earlier = predict_half_written(HOPELESS, TARGET, LaunchAssumptions(), predictor, failure, WHOLE)
    assert earlier.source == "last_compiled" and earlier.kernels[0].grid == (4096, 1, 1)
    words = predict_half_written(HOPELESS, TARGET, LaunchAssumptions(), predictor, failure)
    (kernel,) = words.kernels
    assert words.source == "text" and kernel.name == "axpy"
    low, high = kernel.intervals["duration_ns"]
    assert low < (kernel.duration_ns or 0) < high and high / low > 2, "words do not say how long a kernel takes"
    again = predict_half_written(HOPELESS, TARGET, LaunchAssumptions(), predictor, failure, HALF)
    assert again.source == "text", "what never compiled is no earlier text"


def test_the_text_that_compiled_last_is_kept_by_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIPSYNTH_CACHE", str(tmp_path / "cache"))
    first, second = tmp_path / "a.hip", tmp_path / "b.hip"
    assert compiled_text_of(first) == ""
    keep_compiled_text(first, WHOLE)
    assert compiled_text_of(first) == WHOLE and compiled_text_of(second) == ""


def test_host_code_that_does_not_compile_and_has_no_kernel_is_an_error(predictor: AnalyticPredictor) -> None:
    text = """#include <hip/hip_runtime.h>
int main() {
  hipModule_t module;
  hipModuleLoad(&module, "kernels.co");
  return undeclared;
}
"""
    with pytest.raises(CompileFailed, match="undeclared"):
        predict_half_written(text, TARGET, LaunchAssumptions(), predictor, failure_of(text))
