"""Which instance of a kernel template `synth predict` answers for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from hipsynth.cli.main import cli

# Every launch means another instance than the first of its kernel in the code object.
SEVERAL = """#include <hip/hip_runtime.h>
#include <cstdint>
enum class Mode { slow, fast };
enum Way { up, down };
constexpr int TILE = 32;
using Real = double;
struct Twice { __device__ float operator()(float x) const { return 2 * x; } };
struct Half { __device__ float operator()(float x) const { return x / 2; } };
template <unsigned N> __global__ void sized(float* a) { a[threadIdx.x] = N; }
template <bool B> __global__ void flagged(float* a) { a[threadIdx.x] = B; }
template <Mode M> __global__ void scoped(float* a) { a[threadIdx.x] = float(M); }
template <Way W> __global__ void plain(float* a) { a[threadIdx.x] = W; }
template <typename T> __global__ void typed(T* a) { a[threadIdx.x] = T(1); }
template <typename T, int N = 4, int M = 2 * N> __global__ void filled(T* a) { a[threadIdx.x] = T(N * M); }
template <typename F> __global__ void applied(float* a, F f) { a[threadIdx.x] = f(a[threadIdx.x]); }
__global__ void apart(float* a) { a[threadIdx.x] = 1; }
__global__ void apart(float* a, int n) { a[threadIdx.x] = n; }
template <typename T, int N> void run(T* a) { sized<2 * N><<<1, 64>>>((float*)a); typed<T><<<1, 128>>>(a); }
int main() {
  float* a;
  (void)hipMalloc(&a, 1 << 16);
  if (0) {  // these instances exist, but are never launched
    sized<7><<<1, 64>>>(a); flagged<true><<<1, 64>>>(a); scoped<Mode::slow><<<1, 64>>>(a); plain<up><<<1, 64>>>(a);
    typed<char><<<1, 64>>>((char*)a); typed<long><<<1, 64>>>((long*)a); filled<float, 1><<<1, 64>>>(a);
    filled<double><<<1, 64>>>((double*)a); applied<Twice><<<1, 64>>>(a, Twice()); apart<<<1, 64>>>(a);
  }
  sized<128><<<1, 64>>>(a);
  sized<TILE * 2 + 1><<<1, 64>>>(a);
  flagged<false><<<1, 64>>>(a);
  flagged<(TILE > 4)><<<1, 128>>>(a);
  scoped<Mode::fast><<<1, 64>>>(a);
  plain<down><<<1, 64>>>(a);
  typed<Real><<<1, 64>>>((Real*)a);
  typed<std::uint32_t><<<1, 64>>>((unsigned*)a);
  typed<unsigned long><<<1, 64>>>((unsigned long*)a);
  filled<float><<<1, 64>>>(a);
  filled<float, 8><<<1, 64>>>(a);
  applied<Half><<<1, 64>>>(a, Half());
  apart<<<1, 64>>>(a, 3);
  run<float, 5>(a);
}
"""
LAUNCHED = [
    "sized<128u>", "sized<65u>", "flagged<false>", "flagged<true>", "scoped<(Mode)1>", "plain<(Way)1>", "typed<double>",
    "typed<unsigned int>", "typed<unsigned long>", "filled<float, 4, 8>", "filled<float, 8, 16>", "applied<Half>",
    "apart", "sized<10u>", "typed<float>",
]  # fmt: skip
UNCLEAR = """#include <hip/hip_runtime.h>
#include <vector>
namespace a { constexpr int SIZE = 64; }
namespace b { constexpr int SIZE = 256; }
template <int N> __global__ void sized(float* p) { p[threadIdx.x] = N; }
template <typename T> __global__ void typed(T* p) { p[threadIdx.x] = 1; }
template <typename T> void fill(const std::vector<T>& from) {
  T* p;
  (void)hipMalloc(&p, from.size() * sizeof(T));
  typed<T><<<1, 64>>>(p);
}
int main() {
  float* p;
  (void)hipMalloc(&p, 1 << 16);
  if (0) sized<64><<<1, 64>>>(p);
  CALLS
}
"""


def kernels(path: Path, text: str, *words: str) -> list[dict[str, Any]]:
    path.write_text(text)
    command = ["predict", str(path), "--arch", "gfx90a", "--json", *words]
    done = CliRunner().invoke(cli, command, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return list(json.loads(done.stdout)["results"][0]["kernels"])


def test_each_launch_is_answered_for_the_instance_that_it_names(tmp_path: Path) -> None:
    found = kernels(tmp_path / "several.hip", SEVERAL)
    assert [kernel["instance"] for kernel in found] == LAUNCHED
    assert all(kernel["duration_ns"] > 0 for kernel in found)


@pytest.mark.parametrize(
    ("calls", "names"),
    [
        ("sized<a::SIZE><<<1, 64>>>(p); sized<b::SIZE><<<1, 64>>>(p);", ["sized<64>", "sized<256>"]),
        ("fill(std::vector<float>(64)); fill(std::vector<int>(64));", ["typed<float>", "typed<int>"]),
        (
            "int* n; (void)hipMalloc(&n, 1 << 16); typed<<<1, 64>>>(p); typed<<<1, 64>>>(n);",
            ["typed<float>", "typed<int>"],
        ),
    ],
)
def test_instances_that_the_text_of_a_launch_does_not_name(tmp_path: Path, calls: str, names: list[str]) -> None:
    found = kernels(tmp_path / "unclear.hip", UNCLEAR.replace("CALLS", calls))
    assert [kernel["instance"] for kernel in found] == names
    assert all(kernel["duration_ns"] > 0 for kernel in found)


def test_without_host_code_every_instance_is_answered(tmp_path: Path) -> None:
    text = "template <int N> __global__ void sized(float* p) { for (int i = 0; i < N; ++i) p[i] += N; }\n"
    text += "template __global__ void sized<1>(float*);\ntemplate __global__ void sized<64>(float*);\n"
    found = kernels(tmp_path / "fragment.hip", text)
    assert [kernel["instance"] for kernel in found] == ["sized<1>", "sized<64>"]
    assert found[0]["duration_ns"] < found[1]["duration_ns"]
