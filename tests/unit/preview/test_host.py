"""Launches that the evaluation of host code finds, for the ways in which people write them."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from hipsynth.profiling.preview.host import host_launches
from hipsynth.profiling.preview.launching import HostLaunch
from hipsynth.profiling.preview.tokens import split
from hipsynth.profiling.preview.values import HostAllocation, Vector

KERNEL = "__global__ void add(const float* a, float* b, int n) { b[threadIdx.x] = a[threadIdx.x] + n; }\n"
DEVICE = {"multiProcessorCount": 104, "warpSize": 64}


def only(text: str, *arguments: str, **defines: str) -> HostLaunch:
    launches, unknown = host_launches(KERNEL + text, arguments, DEVICE, defines)
    assert not unknown
    assert len(launches) == 1, launches
    return launches[0]


def test_an_object_made_where_it_is_passed() -> None:
    launch = only("struct Args { int n; float f; }; int main() { add<<<4, 256>>>(a, b, Args{1000 * 2, 0.5f}); }")
    assert list(launch.arguments[2].fields.values()) == [2000, 0.5]


WAYS = {
    "literals": """
      int main() { add<<<4, 256>>>(a, b, 1000); }
    """,
    "a constant": """
      constexpr int N = 1000; int main() { int block = 256;
        add<<<(N + block - 1) / block, block>>>(a, b, N); }
    """,
    "macros": """
      #define N 1000
      #define CEIL(x, y) (((x) + (y) - 1) / (y))
      int main() { add<<<CEIL(N, 256), 256>>>(a, b, N); }
    """,
    "dim3": """
      int main() { const int n = 1000; dim3 block(256), grid; grid.x = (n + block.x - 1) / block.x;
        add<<<grid, block>>>(a, b, n); }
    """,
    "GGL": """
      int main() { hipLaunchKernelGGL(add, dim3(4), dim3(256), 0, 0, a, b, 1000); }
    """,
    "GGL in brackets": """
      int main() { hipLaunchKernelGGL((add), dim3(4), dim3(256), 0, nullptr, a, b, 1000); }
    """,
    "a function": """
      void run(float* a, float* b, size_t n) { add<<<(n + 255) / 256, 256>>>(a, b, n); }
      int main() { run(a, b, 1000); }
    """,
    "a template": """
      template <int B> void run(int n) { add<<<(n + B - 1) / B, B>>>(a, b, n); }
      int main() { run<256>(1000); }
    """,
    "a lambda": """
      int main() { const unsigned t = 256u; auto go = [&](int n) { add<<<(n + t - 1) / t, t>>>(a, b, n);
        }; go(1000); }
    """,
    "an argument's default": """
      int main(int argc, char** argv) { int n = argc > 1 ? atoi(argv[1]) : 1000;
        add<<<(n + 255) / 256, 256>>>(a, b, n); }
    """,
    "std::min and casts": """
      int main() { auto n = static_cast<int>(1e3); add<<<std::min(4, 7), (unsigned)(1 << 8)>>>(a, b, n); }
    """,
    "floating point": """
      int main() { int n = 1000; add<<<(int)ceil(n / 256.0), 256>>>(a, b, n); }
    """,
    "an enumeration of names": """
      namespace { const int kBlock = 256; }
      int main() { int n = 1000, g = (n + kBlock - 1) / kBlock; add<<<g, kBlock>>>(a, b, n); }
    """,
    "an error check": """
      int main() { int n; if (hipGetDevice(&n) != hipSuccess) { return 1; } n = 1000;
        add<<<4, 256>>>(a, b, n); }
    """,
    "a condition": """
      int main() { int n = 1000; if (n > 500) add<<<4, 256>>>(a, b, n); else add<<<1, 1>>>(a, b, 1); }
    """,
    "conditional compilation": """
      #ifdef SMALL
      #define N 10
      #else
      #define N 1000
      #endif
      int main() { add<<<(N + 255) / 256, 256>>>(a, b, N); }
    """,
    "comments and strings": """
      int main() { /* add<<<1, 1>>>(a, b, 1); */ puts("add<<<2, 2>>>"); add<<<4, 256>>>(a, b, 1000); }
    """,
}


@pytest.mark.parametrize("way", WAYS)
def test_launches_are_found(way: str) -> None:
    launch = only(WAYS[way])
    assert (launch.kernel, launch.grid, launch.block, launch.arguments[2]) == ("add", (4, 1, 1), (256, 1, 1), 1000)


def test_the_command_line_counts() -> None:
    text = """int main(int argc, char** argv) {
      int n = argc > 1 ? std::stoi(argv[1]) : 1000;
      add<<<n / 64, 64>>>(a, b, n);
    }"""
    assert only(text, "6400").grid == (100, 1, 1)


def test_definitions_of_the_command_line_count() -> None:
    text = "#ifndef N\n#define N 64\n#endif\nint main() { add<<<N, 64>>>(a, b, N); }"
    assert only(text, N="7").grid == (7, 1, 1)
    assert only(text).grid == (64, 1, 1)


def test_the_device_counts() -> None:
    text = """int main() {
      hipDeviceProp_t p; hipGetDeviceProperties(&p, 0);
      add<<<2 * p.multiProcessorCount, 64>>>(a, b, 1);
    }"""
    assert only(text).grid == (208, 1, 1)


def test_allocations_have_sizes() -> None:
    text = """
    template <typename T> struct Device {
      T* p = nullptr;
      explicit Device(size_t n) { hipMalloc(&p, n * sizeof(T)); }
      T* get() const { return p; }
    };
    int main() {
      const size_t n = 1 << 20;
      float* a; HIP_CHECK(hipMalloc((void**)&a, n * sizeof(float)));
      Device<double> b(n);
      add<<<n / 256, 256>>>(a, b.get(), n);
    }"""
    launch = only(text)
    assert launch.arguments == (HostAllocation(4 << 20), HostAllocation(8 << 20), 1 << 20)


def test_containers_have_sizes() -> None:
    text = """int main() {
      thrust::device_vector<double> v(500);
      add<<<1, 64>>>(thrust::raw_pointer_cast(v.data()), b, v.size());
    }"""
    first, _, count = only(text).arguments
    assert isinstance(first, Vector)
    assert (first.length, first.element, count) == (500, 8, 500)


def test_a_loop_launches_each_shape_once() -> None:
    text = KERNEL + "int main() { for (int s = 1024; s > 64; s /= 2) add<<<s / 64, 64>>>(a, b, s); }"
    launches, _ = host_launches(text)
    assert [launch.grid[0] for launch in launches] == [16, 8, 4, 2]
    same = KERNEL + "int main() { for (int i = 0; i < 50; ++i) add<<<8, 64>>>(a, b, 7); }"
    assert len(host_launches(same)[0]) == 1


def test_template_arguments_are_kept() -> None:
    launch = only("int main() { constexpr int T = 16; add<float, T><<<1, 64>>>(a, b, 1); }")
    assert launch.template == ("float", "16")


def test_a_shape_that_only_running_shows_is_named() -> None:
    launches, unknown = host_launches(KERNEL + "int main() { int n; std::cin >> n; add<<<read(), 64>>>(a, b, n); }")
    assert not launches
    assert unknown == ["add"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "int main() {",
        "int main() { add<<<",
        "int main() { add<<<1, 64>>>(",
        "}}}} ))) >>> <<<",
        "int main() { for (;;) { while (1) { x++; } } }",
        "int f(int n) { return f(n); } int main() { f(1); add<<<1, 64>>>(a, b, 1); }",
        "#define A B\n#define B A\nint main() { A; }",
        "#if 1 / 0\n#endif\n#if (((\nint main() {}",
        "int main() { int a[" + "(" * 3000 + "; }",
        "int main() { int n = 1 << 30 << 30 << 30; add<<<n * n, 64>>>(a, b, 9 / 0); }",
        '"unterminated\nR"x(never',
    ],
)
def test_half_written_code_is_no_obstacle(text: str) -> None:
    launches, unknown = host_launches(KERNEL + text)
    assert isinstance(launches, list)
    assert isinstance(unknown, list)


def test_mutilated_programs_are_no_obstacle() -> None:
    """Tokens of real programs left out, repeated and swapped."""
    root = Path(__file__).resolve().parents[3] / "corpus" / "handwritten"
    texts = [path.read_text() for path in sorted(root.rglob("*.hip"))[::9]]
    rng = random.Random(11)
    for _ in range(150):
        words = split(rng.choice(texts))
        for _ in range(rng.randrange(1, 6)):
            words[rng.randrange(len(words))] = rng.choice([rng.choice(words), "", "(", "}", "<<<", ",", ";"])
        host_launches(" ".join(words[: rng.randrange(len(words))]), (), DEVICE)
