"""`synth predict --check` compares launches of one kernel shape by shape; scores are of every kernel of a run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from hipsynth.cli.main import cli
from hipsynth.profiling.preview.programs import MOST_PREVIEWS
from hipsynth.training.data.dataset import load_samples
from studies.preview_errors import compare_samples

# A kernel launched in three shapes, two of them longer, and another instance, which is much lighter.
SHAPES = """#include <hip/hip_runtime.h>
template <int N> __global__ void scale(const float* in, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = N * in[i];
}
int main() {
  const int n = 1 << 20;
  float *in, *out;
  (void)hipMalloc(&in, n * sizeof(float));
  (void)hipMalloc(&out, n * sizeof(float));
  scale<2><<<64, 256>>>(in, out, n);
  scale<2><<<n / 256, 256>>>(in, out, n);
  scale<2><<<n / 1024, 1024>>>(in, out, n);
  scale<3><<<1, 64>>>(in, out, n);
  return hipDeviceSynchronize();
}
"""
LAUNCHED = [
    ("scale<2>", [64, 1, 1], [256, 1, 1]),
    ("scale<2>", [4096, 1, 1], [256, 1, 1]),
    ("scale<2>", [1024, 1, 1], [1024, 1, 1]),
    ("scale<3>", [1, 1, 1], [64, 1, 1]),
]


@pytest.fixture
def shapes(tmp_path: Path) -> Path:
    path = tmp_path / "programs" / "shapes.hip"
    path.parent.mkdir()
    path.write_text(SHAPES)
    return path


def invoke(*words: object) -> str:
    done = CliRunner().invoke(cli, [str(word) for word in words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def test_each_shape_is_beside_its_own_execution(shapes: Path) -> None:
    document = json.loads(invoke("predict", shapes, "--arch", "gfx90a", "--check", "--json"))["results"][0]
    predicted, executed = document["kernels"], document["executed"]
    for rows in (predicted, executed):
        assert [(row["instance"], row["grid"], row["block"]) for row in rows] == LAUNCHED
    for guess, true in zip(predicted, executed, strict=True):
        assert guess["duration_ns"] == pytest.approx(true["duration_ns"], rel=0.15)
    assert executed[1]["duration_ns"] > 1.5 * executed[0]["duration_ns"]
    lines = invoke("predict", shapes, "--arch", "gfx90a", "--check").splitlines()
    errors = [float(line.split()[-2]) for line in lines if line.startswith("  Duration")]
    assert len(errors) == len(LAUNCHED) and all(abs(error) < 15 for error in errors)


def test_every_kernel_of_a_run_is_scored(shapes: Path, tmp_path: Path) -> None:
    invoke("profile", shapes.parent, "--out", tmp_path / "corpus", "--arch", "gfx90a", "--flags=-O3", "--workers", "1")
    assert [sample.kernel for sample in load_samples(tmp_path / "corpus")] == ["scale<2>"]
    samples = load_samples(tmp_path / "corpus", every_kernel=True)
    assert [sample.kernel for sample in samples] == ["scale<2>", "scale<3>"]
    rows = compare_samples(samples, workers=1)
    assert {row.kernel for row in rows} == {"scale<2>", "scale<3>"}
    assert all(row.duration_factor < 1.15 for row in rows), rows


def test_launches_beyond_the_most_are_counted_in_a_note(shapes: Path) -> None:
    shapes.write_text(
        SHAPES.replace(
            "scale<3><<<1, 64>>>(in, out, n);", "for (int i = 0; i < 40; ++i) scale<3><<<1, 64>>>(in, out, i);"
        )
    )
    (result,) = json.loads(invoke("predict", shapes, "--arch", "gfx90a", "--json"))["results"]
    assert len(result["kernels"]) == MOST_PREVIEWS
    assert sum(row["launches"] for row in result["kernels"]) == 43
    assert result["notes"] == ["11 further launches are taken to be like those of their shape before them"]


def test_each_shape_has_a_prediction_however_late_it_is_launched(shapes: Path) -> None:
    many = "for (int i = 1; i <= 40; ++i) scale<2><<<i, 64>>>(in, out, n);\n  scale<3><<<1, 64>>>(in, out, n);"
    shapes.write_text(SHAPES.replace("scale<3><<<1, 64>>>(in, out, n);", many))
    (result,) = json.loads(invoke("predict", shapes, "--arch", "gfx90a", "--json"))["results"]
    assert [row["grid"][0] for row in result["kernels"] if row["block"][0] == 64] == [*range(1, 41), 1]
    assert result["kernels"][-1]["instance"] == "scale<3>" and not result["notes"]
