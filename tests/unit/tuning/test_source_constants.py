"""Programs whose sizes are constants of the source, or options, are verified at other sizes, too."""

from __future__ import annotations

from pathlib import Path

import pytest

from hipsynth.tuning.optimize.confirm import draw_shapes
from hipsynth.tuning.optimize.optimize import OptimizeRequest, optimize_program
from hipsynth.tuning.optimize.verification.check_sizes import candidate_arguments, draw_sizes
from hipsynth.tuning.trial import target_of
from hipsynth.tuning.trial.source_constants import ConstantSetting, apply_settings, list_constants

FIXED = """#include <hip/hip_runtime.h>
#include <cstdlib>
#include <vector>
__global__ void transpose(float* to, const float* from, unsigned width) {
  const unsigned x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  to[y * width + x] = from[x * width + y];
}
int main() {
  constexpr unsigned int width = 512;  // rows, too
  constexpr unsigned int block = 8;
  std::vector<float> host(width * width), back(width * width);
  for (unsigned i = 0; i < width * width; ++i) host[i] = float(i % 251);
  float *from, *to;
  hipMalloc(&from, host.size() * 4);
  hipMalloc(&to, host.size() * 4);
  hipMemcpy(from, host.data(), host.size() * 4, hipMemcpyHostToDevice);
  transpose<<<dim3(width / block, width / block), dim3(block, block)>>>(to, from, width);
  hipMemcpy(back.data(), to, host.size() * 4, hipMemcpyDeviceToHost);
  for (unsigned y = 0; y < width; ++y)
    for (unsigned x = 0; x < width; ++x)
      if (back[y * width + x] != host[x * width + y]) return 1;
  return 0;
}
"""
OPTIONS = 'parser.set_optional<int>("x", "width", 4096, "Width");\nparser.set_optional<int>("i", "passes", 10, "");\n'


def test_constants_that_are_sizes_are_set_for_a_run() -> None:
    assert list_constants(FIXED) == (ConstantSetting("width", 512, 512),), "not the group's shape"
    text, words = apply_settings(FIXED, ("7", ConstantSetting("width", 512, 32)))
    assert "width = 32;  // rows" in text and "block = 8" in text and words == ("7",)
    with pytest.raises(ValueError, match="does not set width to 512"):
        apply_settings(FIXED.replace("512", "WIDTH"), (ConstantSetting("width", 512, 32),))


def test_sizes_to_verify_come_from_constants_and_options() -> None:
    assert [list(words) for words in candidate_arguments(FIXED)] == [
        ["width := 32"], ["width := 35"], ["width := 8"], [],
    ]  # fmt: skip
    assert candidate_arguments(OPTIONS)[0] == ("-x", "256", "-i", "10")
    assert draw_shapes(OPTIONS, ()) == [("-x", "512", "-i", "10")]
    assert draw_shapes(FIXED, ()) == [("width := 64",)]
    drawn = draw_sizes(candidate_arguments(FIXED)[0], 3)
    assert all(isinstance(word, ConstantSetting) and 16 <= word.value <= 64 for words in drawn for word in words)


@pytest.mark.full
def test_a_program_of_one_size_is_optimized_with_sizes_it_never_had(tmp_path: Path) -> None:
    result = optimize_program(OptimizeRequest(FIXED, target_of("gfx942"), 8.0, clock_s=400.0, journal=tmp_path))
    assert result.status == "improved" and result.speedup > 1.1
    assert [list(shape.arguments) for shape in result.shapes] == [
        [],
        ["width := 32"],
        ["width := 8"],
        [],
        ["width := 64"],
    ]
    checks = {check.name: check.passed for check in result.verification.checks}
    assert checks["other_sizes"] is True and checks["timed_size"] is True
