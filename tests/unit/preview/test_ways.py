"""How host code allocates and fills what kernels get: loops over pointers, containers, classes, objects."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from hipsynth.profiling.preview.host import host_launches
from hipsynth.profiling.preview.launching import HostLaunch
from hipsynth.profiling.preview.packing import GUESSED_BYTES, packed
from hipsynth.profiling.preview.values import UNKNOWN, HostAllocation, Vector, laid_out
from hipsynth.source.names import base_name

KERNEL = "__global__ void add(const float* a, float* b, int n) {}\n"


def only(text: str) -> HostLaunch:
    launches, unknown = host_launches(KERNEL + text, (), {"multiProcessorCount": 104})
    assert not unknown
    assert len(launches) == 1, launches
    return launches[0]


BUFFERS = {
    "a loop over addresses": """
      int main() { float *a = nullptr, *b = nullptr;
        for (float** p : {&a, &b}) if (hipMalloc(p, 4000) != hipSuccess) return 1;
        add<<<4, 256>>>(a, b, 1000); }
    """,
    "a loop that continues": """
      int main() { float *a = nullptr, *b = nullptr;
        for (float** p : {&a, &b}) { if (hipMalloc(p, 4000) == hipSuccess) continue; return 2; }
        add<<<4, 256>>>(a, b, 1000); }
    """,
    "a class": """
      struct Matrix {
        Matrix(int rows, int n) : n(n), host(rows * n) { if (hipMalloc(&device, bytes()) != hipSuccess) throw 1; }
        std::size_t bytes() const { return host.size() * sizeof(float); }
        int n; std::vector<float> host; float* device = nullptr;
      };
      int main() { Matrix a(10, 100), b(100, 10);
        for (auto* m : {&a, &b}) m->bytes();
        add<<<4, 256>>>(a.device, b.device, 1000); }
    """,
    "a template and its element": """
      template <typename T> T* to_device(const std::vector<T>& from) {
        T* p = nullptr; if (hipMalloc(&p, from.size() * sizeof(T)) != hipSuccess) exit(2); return p; }
      int main() { std::vector<float> x(1000); add<<<4, 256>>>(to_device(x), to_device(x), 1000); }
    """,
    "smart pointers": """
      using Floats = std::unique_ptr<float, Free>;
      static Floats on_device(size_t n) { float* p; if (hipMalloc(&p, n * 4) != hipSuccess) exit(2); return Floats(p); }
      std::shared_ptr<float> shared(size_t n) {
        float* p; hipMalloc(&p, n * 4); return {p, [](float* q) { hipFree(q); }}; }
      int main() { Floats a = on_device(1000); auto b = shared(1000); add<<<4, 256>>>(a.get(), b.get(), 1000); }
    """,
}


@pytest.mark.parametrize("way", BUFFERS)
def test_sizes_of_buffers(way: str) -> None:
    launch = only(BUFFERS[way])
    assert [value.bytes for value in launch.arguments[:2]] == [4000, 4000]
    assert (launch.grid, launch.arguments[2]) == ((4, 1, 1), 1000)


def test_a_loop_ends_at_its_break() -> None:
    text = "int main() { for (int i = 1; i < 9; ++i) { if (i > LIMIT) break; add<<<i, 64>>>(0, 0, i); } }"
    launches, _ = host_launches(KERNEL + text.replace("LIMIT", "3"))
    assert [launch.grid[0] for launch in launches] == [1, 2, 3]
    launches, _ = host_launches(KERNEL + text.replace("LIMIT", "limit()"))
    assert [launch.grid[0] for launch in launches] == [1]  # a loop that may end anywhere is followed once


def test_containers_grow_with_their_loops() -> None:
    """4 + 8 + 12 entries in turn, for 3 million rows of which only the first are followed."""
    launch = only("""
      int main() { const int n = 3000000; std::vector<int> start{0}, cols;
        for (int r = 0; r < n; ++r) {
          for (int k = 0; k < 4 + r % 3 * 4; ++k) cols.push_back(k);
          start.push_back(cols.size()); }
        add<<<(cols.size() + 255) / 256, 256>>>(0, 0, start.size()); }
    """)
    assert launch.grid[0] == (8 * 3000000 + 255) // 256
    assert launch.arguments[2] == 3000001


def test_containers_that_grow_in_ways_not_known_have_no_length() -> None:
    launch = only("""
      int main() { std::vector<int> found; for (int i = 0; i < limit(); ++i) found.push_back(i);
        add<<<4, 256>>>(0, 0, found.size()); }
    """)
    assert launch.arguments[2] is UNKNOWN


def test_enumerators_are_numbers() -> None:
    assert only("enum { W = 64, H = 16, NEXT }; int main() { add<<<dim3(W, H), NEXT>>>(0, 0, 1); }").block == (17, 1, 1)


def test_members_lie_where_the_compiler_puts_them() -> None:
    launch = only("""
      struct Inner { char c; double d; };
      struct All { int n; const float *a, *b; float w[3]; Inner inner; };
      int main() { float *p, *q; hipMalloc(&p, 64); hipMalloc(&q, 128);
        add<<<1, 64>>>(All{7, p, q, {1, 2}, Inner{5, 0.5}}, 0, 0); }
    """)
    sizes: list[int] = []

    def allocate(size: int, _: Any) -> int:
        sizes.append(size)
        return 1000 + size

    data = packed(launch.arguments[0], 56, False, allocate)
    assert data == struct.pack("<i4xQQfff4xb7xd", 7, 1064, 1128, 1, 2, 0, 5, 0.5)
    assert sizes == [64, 128]


def test_members_in_braces_fill_the_argument() -> None:
    value = Vector(3, 4, [9, HostAllocation(64), HostAllocation(None)])
    assert packed(value, 24, False, lambda size, _: size) == struct.pack("<i4xQQ", 9, 64, GUESSED_BYTES)
    assert packed(value, 40, False) is None
    assert packed(UNKNOWN, 4, False) is None


def test_layout_of_members() -> None:
    assert laid_out([(4, 1), (8, 1), (1, 3), (4, 2)]) == ([0, 8, 16, 20], 32)


def test_kernels_of_unnamed_namespaces() -> None:
    assert base_name("(anonymous namespace)::histogram(uint4 const*, unsigned int*, int)") == "histogram"
