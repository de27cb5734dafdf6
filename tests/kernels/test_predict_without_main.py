"""Kernels without main() are predicted as `synth profile` launches them."""

from __future__ import annotations

import json
from pathlib import Path

import needs
import pytest
from click.testing import CliRunner

import hipsynth
from hipsynth.cli.main import cli
from hipsynth.core.documents import from_json
from hipsynth.core.errors import UsageError
from hipsynth.profiling.preview.record import HostCode
from hipsynth.training.analytic.predict import AnalyticPredictor, LaunchAssumptions
from hipsynth.training.models.documents import VariantDocument

KERNEL = """#include <hip/hip_runtime.h>
__global__ void scale(const float* x, float* y, float a, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i];
}
"""


@pytest.mark.parametrize("values", [{}, {"n": 5000}])
def test_the_launch_is_that_of_a_profile(tmp_path: Path, values: dict[str, float]) -> None:
    needs.simulator()
    path = tmp_path / "scale.hip"
    path.write_text(KERNEL)
    (answer,) = hipsynth.predict(path, arch="gfx942", values=values).results
    (executed,) = hipsynth.profile(path, arch="gfx942", values=values).measured
    (predicted,), (measured,) = answer.kernels, executed.kernels
    assert tuple(predicted.grid) == tuple(measured.grid) and tuple(predicted.block) == tuple(measured.block)
    assert predicted.duration_ns == pytest.approx(measured.duration_ns, rel=0.2)
    assert answer.notes[0].startswith("no main(): scale is launched with")
    assert predicted.assumed == answer.notes[0]


def test_a_value_of_no_argument_is_refused(tmp_path: Path) -> None:
    needs.simulator()
    path = tmp_path / "scale.hip"
    path.write_text(KERNEL)
    with pytest.raises(UsageError, match="m: no kernel has an argument of this name"):
        hipsynth.predict(path, arch="gfx942", values={"m": 3})


def test_a_sweep_launches_each_row_as_the_prediction_of_its_values_alone(tmp_path: Path) -> None:
    needs.simulator()
    path = tmp_path / "scale.hip"
    path.write_text(KERNEL)
    done = CliRunner().invoke(cli, ["predict", str(path), "--arch", "gfx942", "--sweep", "n=5000,4000000", "--json"])
    rows = [from_json(VariantDocument, json.loads(line)) for line in done.stdout.splitlines()]
    assert [row.kernels[0].grid for row in rows] == [(20, 1, 1), (15625, 1, 1)]
    assert rows[0].notes[0].endswith("is launched with 20 x 1 x 1 work-groups of 256 x 1 x 1; n = 5000")
    for row in rows:
        (alone,) = hipsynth.predict(path, arch="gfx942", values=row.values).results
        assert row.duration_ns == pytest.approx(alone.kernels[0].duration_ns, rel=0.02)


def test_host_code_that_may_not_run_leaves_launches_of_the_signatures(tmp_path: Path) -> None:
    """In grids and groups of the shapes that its text gives."""
    needs.simulator()
    text = KERNEL + "int main() { scale<<<3, 64>>>(nullptr, nullptr, 1, 9); }\n"
    question = LaunchAssumptions(host=HostCode.KNOWN, values={"n": 1000})
    answer = AnalyticPredictor.load().predict(text, "gfx942", "-O3", None, question)
    (kernel,) = answer.kernels
    assert (kernel.grid, kernel.block) == ((3, 1, 1), (64, 1, 1))
    assert kernel.assumed == answer.notes[0] and "has not been run: scale is launched with" in kernel.assumed


def test_arguments_of_the_command_line_are_noted_as_the_sizes(tmp_path: Path) -> None:
    needs.simulator()
    path = tmp_path / "scale.hip"
    path.write_text(KERNEL)
    words = ["predict", str(path), "--arch", "gfx942"]
    usual, sized = (CliRunner().invoke(cli, [*words, *more]) for more in ((), ("--", "5000")))
    assert "choose with --grid" in usual.stderr and "choose with --grid" not in sized.stderr
    assert "20 x 1 x 1 work-groups of 256 x 1 x 1; n = 5000; x, y of 5,120 elements" in sized.stdout
    assert "scale  grid 20x1x1" in sized.stdout
