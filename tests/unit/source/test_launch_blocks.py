"""The shape of work-groups that host code gives in numbers, in texts that need not compile."""

from __future__ import annotations

import pytest

from hipsynth.source.harness import HarnessChoices, add_harness
from hipsynth.source.launch_blocks import Shape, find_launch_block

HOST = "#define ROWS 8  // of a tile\nconstexpr int WIDTH = 32;\nvoid forward(torch::Tensor x) {\n  BODY\n}\n"


@pytest.mark.parametrize(
    ("body", "shape"),
    [
        ("k<<<n, 128>>>(x);", (128, 1, 1)),
        ("k<float><<<dim3(n, f(a, b)), dim3(WIDTH, ROWS)>>>(x);", (32, 8, 1)),
        ("dim3 block((unsigned)WIDTH, static_cast<int>(ROWS / 2), 2); k<<<grid, block, 0, s>>>(x);", (32, 4, 2)),
        ("dim3 block{64}; hipLaunchKernelGGL(HIP_KERNEL_NAME(k<T, 4>), grid, block, 0, s, x);", (64, 1, 1)),
        ("const dim3 block = dim3(WIDTH); { hipLaunchKernelGGL((k<T>), dim3(g), block, 0, s, x); }", (32, 1, 1)),
        ("int threads = 64; int other = threads * 2; k<<<n, other>>>(x);", (128, 1, 1)),
        ("k<<<n, m>>>(x); k<<<n, ROWS * WIDTH>>>(x);", (256, 1, 1)),
        ("int threads = 64; if (n > 9) threads = 512; k<<<n, threads>>>(x);", None),
        ("int threads = n >= 8192 ? 512 : 256; k<<<n, threads>>>(x);", None),
        ("k<<<n, 2048>>>(x);", None),
        ("// k<<<n, 64>>>(x);\n", None),
        ("other_k<<<n, 64>>>(x); f(k, 64);", None),
        ("k<<<n, 0 / 0>>>(x); hipLaunchKernelGGL(k", None),
    ],
)
def test_shapes_in_numbers_and_constants_are_read(body: str, shape: Shape | None) -> None:
    assert find_launch_block(HOST.replace("BODY", body), "k") == shape


def test_a_harness_launches_groups_as_the_host_code_does() -> None:
    kernel = "__global__ void k(float* x) { x[blockIdx.x * blockDim.x + threadIdx.x] = 1; }\n"
    for body, shape in (("k<<<n, 64>>>(x);", "64, 1, 1"), ("k<<<n, m>>>(x);", "256, 1, 1")):
        assert f", 1), dim3({shape})>>>" in add_harness(kernel + HOST.replace("BODY", body), HarnessChoices()).text
    chosen = add_harness(kernel + HOST.replace("BODY", "k<<<n, 64>>>(x);"), HarnessChoices(block=(32, 1, 1))).text
    assert "dim3(32, 1, 1)>>>" in chosen
