"""The shapes of work-groups and grids that host code gives, in texts that need not compile."""

from __future__ import annotations

import pytest

from hipsynth.core.kernel_record import Dim
from hipsynth.source.harness import HarnessChoices, add_harness, choose_launches
from hipsynth.source.launch_shapes import (
    count_groups,
    find_indexed_block,
    find_launch_block,
    find_launch_grid,
)
from hipsynth.source.outline import outline_kernels

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
        (f"k<<<n, {'+'.join(['1'] * 5000)}>>>(x);", None),
        ("k<<<n, 0400>>>(x);", (256, 1, 1)),
        ("k<<<n, 2u * 0x40u>>>(x);", (128, 1, 1)),
        ("int threads = -5 / 2 * -32; k<<<n, threads>>>(x);", (64, 1, 1)),
        ("int threads = ROWS > 4 ? 512 : 256; k<<<n, threads>>>(x);", (512, 1, 1)),
        (f"k<<<n, {'(' * 5000}1{')' * 5000}>>>(x);", None),
    ],
)
def test_shapes_in_numbers_and_constants_are_read(body: str, shape: Dim | None) -> None:
    assert find_launch_block(HOST.replace("BODY", body), "k") == shape


def test_a_harness_launches_groups_as_the_host_code_does() -> None:
    kernel = "__global__ void k(float* x) { x[blockIdx.x * blockDim.x + threadIdx.x] = 1; }\n"
    for body, shape in (("k<<<n, 64>>>(x);", "64, 1, 1"), ("k<<<n, m>>>(x);", "256, 1, 1")):
        assert f", 1), dim3({shape})>>>" in add_harness(kernel + HOST.replace("BODY", body), HarnessChoices()).text
    chosen = add_harness(kernel + HOST.replace("BODY", "k<<<n, 64>>>(x);"), HarnessChoices(block=(32, 1, 1))).text
    assert "dim3(32, 1, 1)>>>" in chosen


GRID = """#define DIVUP(m, n) ((m) / (n) + ((m) % (n) > 0))
#define TILE 16
#define LESS(a, b) ((a) < (b) ? (a) : (b))
#define TIMES(TILE_COUNT) (TILE * TILE_COUNT)
__global__ void k(const float* a, float* b, int n, int m, float f) { b[blockIdx.x] = a[threadIdx.x] * f; }
void forward(torch::Tensor x, int rows, int cols) {
  BODY
}
"""


@pytest.mark.parametrize(
    ("body", "extents"),
    [
        ("k<<<rows, 128>>>(x, y, rows, cols, 1.0f);", ("n",)),
        ("int total = rows * cols; k<<<total, 128, 0, s>>>(x.data_ptr<float>(), y, rows, cols, f(2));", ("n * m",)),
        ("dim3 grid(DIVUP(rows, TILE), cols); k<<<grid, TILE>>>(x, y, rows, cols, 1);", ("n / 16 + (n % 16 > 0)", "m")),
        (
            "const int side = 64; hipLaunchKernelGGL(k, dim3((cols + side - 1) / side, 2, (unsigned)rows), side, 0, 0, "
            "x, y, (int)rows, static_cast<int>(cols), 1.0f);",
            ("(m + 64 - 1) / 64", "2", "n"),
        ),
        ("int most = std::min(rows * 2, 65535); k<<<most, 64>>>(x, y, rows, cols, 1);", ("min(n * 2, 65535)",)),
        ("k<<<x.size(0), 64>>>(x, y, rows, cols, 1); k<<<7u, 64>>>(x, y, rows, cols, 1);", ("7",)),
        ("int g = rows; if (g > 9) g = 9; k<<<g, 64>>>(x, y, rows, cols, 1);", None),
        ("k<<<other, 64>>>(x, y, rows, cols, 1);", None),
        ("k<<<rows, 64>>>(x, y, rows);", None),
        ("k<<<p->rows, 64>>>(x, y, rows, cols, 1);", None),
        ("// k<<<rows, 64>>>(x, y, rows, cols, 1);", None),
        ("k<<<LESS(rows * 2, 65535u), 64>>>(x, y, rows, cols, 1);", ("n * 2 < 65535 ? n * 2 : 65535",)),
        ("k<<<TIMES(cols), 64>>>(x, y, rows, cols, 1);", ("16 * m",)),
        ("int g = 1 << rows; k<<<g - (rows - cols), 64>>>(x, y, rows, cols, 1);", ("(1 << n) - (n - m)",)),
    ],
)
def test_grids_of_the_kernels_arguments_are_read(body: str, extents: tuple[str, ...] | None) -> None:
    text = GRID.replace("BODY", body)
    (kernel,) = outline_kernels(text)
    assert find_launch_grid(text, kernel) == extents


def test_groups_are_counted_as_the_host_counts_them() -> None:
    numbers = {"n": 33.0, "m": 5.0}
    assert count_groups(("n / 16 + (n % 16 > 0)", "m"), numbers) == (3, 5, 1)
    assert count_groups(("min(n * 2, 50)", "max(m, 2)", "n - m"), numbers) == (50, 5, 28)
    for wrong in ("n - 33", "n / (m - 5)", "other", "n +", "min(n)"):
        assert count_groups((wrong,), numbers) is None


def test_definitions_that_multiply_are_not_written_out() -> None:
    sums = "".join(f"#define {a} {'+'.join([b] * 40)}\n" for a, b in ("AB", "BC", "CD", ("D", "rows")))
    assert find_launch_block(f"{sums.replace('rows', '1')}void f() {{ k<<<n, A>>>(x); }}", "k") is None
    nested = f"#define TWICE(x) (x + x)\n{sums}"
    for grid in ("A", "TWICE(" * 25 + "rows" + ")" * 25):
        text = GRID.replace("#define TILE", f"{nested}#define TILE").replace(
            "BODY", f"k<<<{grid}, 64>>>(x, y, rows, cols, 1);"
        )
        (kernel,) = outline_kernels(text)
        assert find_launch_grid(text, kernel) is None


def test_a_harness_has_the_grid_of_the_host_code() -> None:
    text = GRID.replace("BODY", "k<<<dim3(DIVUP(cols, TILE), rows), TILE>>>(x, y, rows, cols, 1);")
    (launch,) = choose_launches(text, HarnessChoices())
    assert launch.grid == (64, 1024, 1) and launch.elements == 1 << 20
    made = add_harness(text, HarnessChoices()).text
    assert "k<<<dim3(m_value / 16 + (m_value % 16 > 0), n_value, 1), dim3(16, 1, 1)>>>" in made
    (chosen,) = choose_launches(text, HarnessChoices(values={"m": 40}, block=(32, 1, 1)))
    assert chosen.grid == (3, 1024, 1)
    (shaped,) = choose_launches(text, HarnessChoices(grid=(5, 1, 1)))
    assert shaped.grid == (5, 1, 1) and not shaped.extents


def test_sizes_shrink_until_the_grid_of_the_host_code_fits() -> None:
    text = GRID.replace("BODY", "int all = rows * cols * cols; k<<<all, 256>>>(x, y, rows, cols, 1);")
    (launch,) = choose_launches(text, HarnessChoices())
    assert launch.numbers == {"n": 32.0, "m": 32.0} and launch.grid == (32768, 1, 1)
    assert choose_launches(text, HarnessChoices(values={"n": 9e9, "m": 9e9}))[0].extents == ()


def test_numbers_of_the_host_code_are_those_of_the_kernel() -> None:
    text = GRID.replace("BODY", "const int n = 1 << 12; k<<<n / 64, 64>>>(x, y, n, cols, 1.5f);")
    (launch,) = choose_launches(text, HarnessChoices())
    assert launch.numbers == {"n": 4096.0, "m": 1024.0} and launch.grid == (64, 1, 1)
    (chosen,) = choose_launches(text, HarnessChoices(values={"n": 128}))
    assert chosen.numbers["n"] == 128


@pytest.mark.parametrize(
    ("body", "shape"),
    [
        ("x[blockIdx.x * 64 + threadIdx.x] = 1;", (64, 1, 1)),
        ("int i = threadIdx.x + TILE * blockIdx.x;", (32, 1, 1)),
        ("int r = blockIdx.y * ROWS + threadIdx.y, c = blockIdx.x * TILE + threadIdx.x;", (32, 8, 1)),
        ("int i = blockIdx.x * N + threadIdx.x;", (128, 1, 1)),
        ("int i = blockIdx.x * blockDim.x + threadIdx.x;", None),
        ("int i = blockIdx.x * 1024 + threadIdx.x; i += blockDim.x;", None),
        ("int i = blockIdx.x * 64 + threadIdx.x, j = blockIdx.x * 32 + threadIdx.x;", None),
        ("int i = blockIdx.x * 64 + threadIdx.y;", None),
        ("int i = blockIdx.x * M + threadIdx.x;", None),
        ("int i = blockIdx.x * 4096 + threadIdx.x;", None),
        ("int i = blockIdx.x * n + threadIdx.x;", None),
    ],
)
def test_kernels_say_what_work_groups_their_indices_are_for(body: str, shape: Dim | None) -> None:
    head = "#define ROWS 8\nconstexpr int TILE = 32;\ntemplate <int N, int M>\n"
    named = "template __global__ void k<128, 2>(float*, int);\ntemplate __global__ void k<128, 4>(float*, int);\n"
    text = f"{head}__global__ void k(float* x, int n) {{ {body} }}\n{named}"
    (kernel,) = [found for found in outline_kernels(text) if found.defined]
    assert find_indexed_block(text, kernel) == shape
    usual = (16, 16, 1) if "threadIdx.y" in body else (256, 1, 1)
    assert choose_launches(text, HarnessChoices())[0].block == (shape or usual)


@pytest.mark.parametrize(
    ("bounds", "body", "shape"),
    [
        ("128", "x[blockIdx.x * blockDim.x + threadIdx.x] = 1;", (128, 1, 1)),
        ("2 * WAVE, 4", "x[blockIdx.x * blockDim.x + threadIdx.x] = 1;", (128, 1, 1)),
        ("1024", "x[blockIdx.x * blockDim.x + threadIdx.x] = 1;", (256, 1, 1)),
        ("100", "x[threadIdx.y * 16 + threadIdx.x] = 1;", (16, 6, 1)),
        ("8", "x[threadIdx.y * 16 + threadIdx.x] = 1;", (8, 1, 1)),
        ("unknown", "x[threadIdx.x] = 1;", (256, 1, 1)),
    ],
)
def test_chosen_work_groups_keep_within_launch_bounds(bounds: str, body: str, shape: Dim) -> None:
    text = f"#define WAVE 64\n__global__ void __launch_bounds__({bounds}) k(float* x) {{ {body} }}\n"
    assert choose_launches(text, HarnessChoices())[0].block == shape
