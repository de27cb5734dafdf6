"""What the model of words learns from: labels of HIP kernels that their program's text has."""

from __future__ import annotations

from dataclasses import replace

from hipsynth.source.outline import outline_kernels
from hipsynth.training.analytic.text_model import find_kernel, kernel_features
from hipsynth.training.data.dataset import LabelledSample

TEXT = """#include <hip/hip_runtime.h>
__global__ void scale(float* a) { a[threadIdx.x] *= 2; }
template <typename T> __global__ void scale_rows(T* a) { a[blockIdx.x] *= 2; }
int main() {}
"""
SAMPLE = LabelledSample(
    program_id="p", lineage="l", family="f", origin="user", text=TEXT, arch="gfx942", flags="-O3", device="mi300x",
    kernel="scale", metrics={},
)  # fmt: skip


def name_of(sample: LabelledSample) -> str | None:
    kernel = find_kernel(sample)
    return None if kernel is None else kernel.name


def test_a_label_is_of_the_kernel_with_its_name() -> None:
    assert name_of(SAMPLE) == "scale"
    assert name_of(replace(SAMPLE, kernel="void scale_rows<float>(float*)")) == "scale_rows"


def test_kernels_that_the_text_does_not_have_are_left_out() -> None:
    assert name_of(replace(SAMPLE, kernel="made_by_a_macro")) is None
    triton = "import triton\n@triton.jit\ndef scale(a):\n    pass\n"
    assert name_of(replace(SAMPLE, text=triton)) is None


def test_sizes_are_those_of_the_kernels_own_launch() -> None:
    text = """#include <hip/hip_runtime.h>
namespace ops { template <typename T> __global__ void add(T* a, int n) { if (threadIdx.x < n) a[threadIdx.x] += 1; } }
__global__ void vec_add(float* a, int n) { if (threadIdx.x < n) a[threadIdx.x] += 2; }
int main() { float* p = 0; vec_add<<<1, 64>>>(p, 7); ops::add<float><<<1, 64>>>(p, 1023); }
"""
    sizes = {
        kernel.name: 2 ** kernel_features(text, kernel, "gfx942", "-O3", "mi300x")["argument 0"] - 1
        for kernel in outline_kernels(text)
    }
    assert sizes == {"add": 1023, "vec_add": 7}
