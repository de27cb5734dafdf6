"""Extensions of PyTorch: which of their code stays, and that their kernels are launched without PyTorch."""

from __future__ import annotations

from pathlib import Path

import pytest

import hipsynth
from hipsynth.core.errors import BadInput
from hipsynth.serving.handlers import answer
from hipsynth.source.harness import HarnessChoices, add_harness
from hipsynth.source.torch_sources import HIP_HEADER, keep_device_code, uses_pytorch

EXTENSION = """#include <torch/extension.h>
#include <ATen/hip/HIPContext.h>
#include <cmath>
#ifdef FAST
#define SCALE 2
#else
#define SCALE 3
#endif
namespace py = pybind11;
constexpr int kBlock = 256;
namespace detail {
struct Pair { float a, b; };
static inline int count_blocks(int n) { return (n + kBlock - 1) / kBlock; }
template <typename T> __device__ T twice(T x) { return x * SCALE; }
}
template <typename scalar_t>
__global__ void scale(const scalar_t* x, scalar_t* y, int n) {
  extern __shared__ float part[];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  part[threadIdx.x] = i;
  if (i < n) y[i] = detail::twice(x[i]);
}
// Launches it.
static void launch(const torch::Tensor& x, torch::Tensor& y) {
  TORCH_CHECK(x.is_cuda(), "x: {not on a device;");
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "scale", [&] {
    scale<scalar_t><<<detail::count_blocks(x.numel()), kBlock>>>(x.data_ptr<scalar_t>(), y.data_ptr<scalar_t>(), n);
  });
}
void again(float* x) { launch(x, x); }
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("scale", &launch);
}
"""


def test_host_code_of_pytorch_goes_and_lines_stay() -> None:
    text = keep_device_code(EXTENSION)
    before, after = EXTENSION.splitlines(), text.splitlines()
    assert len(before) == len(after)
    left = [number for number, line in enumerate(after) if line.strip() and line == before[number]]
    gone = [before[number] for number, line in enumerate(after) if not line.strip() and before[number].strip()]
    assert gone[0].startswith("#include <ATen") and gone[1] == "namespace py = pybind11;"
    assert after[0] == HIP_HEADER and {2, 3, 7, 9, 12, 13, 16, 21} <= set(left)
    assert "launch" not in text and "again" not in text and "PYBIND11" not in text
    assert uses_pytorch(EXTENSION) and not uses_pytorch(text) and not uses_pytorch("// #include <torch/extension.h>\n")


def test_the_kernels_are_launched_without_pytorch(tmp_path: Path) -> None:
    made = add_harness(EXTENSION, HarnessChoices())
    assert made.notes[0].startswith("no main(): scale<float> is launched with 4096 x 1 x 1 work-groups")
    assert made.notes[1] == "host code that uses PyTorch is left out"
    assert ", 16384>>>" in made.text, "the LDS that its launch would choose"
    path = tmp_path / "scale.hip"
    path.write_text(EXTENSION)
    with pytest.warns(UserWarning, match="PyTorch is left out"):
        [result] = hipsynth.profile(path, arch="gfx942", lines=True).measured
    [kernel] = result.kernels
    assert kernel.name == "scale<float>" and kernel.counters["EXACT_READ_BYTES"] == 4 << 20
    lines = {line.line for line in result.lines[0].lines if Path(line.file).name == "scale.hip"}
    assert 21 in lines and EXTENSION.splitlines()[20].startswith("  if (i < n)") and lines <= set(range(14, 23)) | {0}


def test_a_search_does_not_take_its_launches_away() -> None:
    with pytest.raises(BadInput, match="extension of PyTorch"):
        answer("optimize", {"arch": "gfx942", "source": EXTENSION, "budget_s": 5.0})
