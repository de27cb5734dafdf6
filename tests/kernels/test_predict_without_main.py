"""Kernels without main() are predicted as `synth profile` launches them."""

from __future__ import annotations

from pathlib import Path

import needs
import pytest

import hipsynth
from hipsynth.core.errors import UsageError

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
    assert not any("--grid and --block" in note for note in answer.notes)


def test_a_value_of_no_argument_is_refused(tmp_path: Path) -> None:
    needs.simulator()
    path = tmp_path / "scale.hip"
    path.write_text(KERNEL)
    with pytest.raises(UsageError, match="m: no kernel has an argument of this name"):
        hipsynth.predict(path, arch="gfx942", values={"m": 3})
