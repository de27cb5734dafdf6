"""Host code evaluated for many command lines at once says what single evaluations say."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from hipsynth.profiling.preview.host import host_launches
from hipsynth.profiling.preview.many import Diverged, launches_of_many, many

ROOT = Path(__file__).resolve().parents[3]
PROPERTIES = {"warpSize": 64, "multiProcessorCount": 304}
BRANCHES = """__global__ void small(int n) {}
__global__ void large(int n, float* p) {}
int main(int argc, char** argv) {
  const int n = argc > 1 ? atoi(argv[1]) : 64, m = argc > 2 ? atoi(argv[2]) : n / 3;
  float* p;
  hipMalloc(&p, n * m * sizeof(float));
  if (n % 7 == 0) small<<<n, 64>>>(n);
  for (int i = n; i > 100; i /= 2) large<<<dim3((n + 255) / 256, -(-m / 2)), 256>>>(i, p);
  const float half = 0.5f * n;
  large<<<std::min(n, 500), 1 << (n > 200)>>>(half, p);
}
"""


@pytest.mark.parametrize("name", ["bfs/bfs_all_vertices", "gemm/gemm_naive", "transpose/transpose_naive"])
def test_many_command_lines_launch_what_single_ones_do(name: str) -> None:
    text = (ROOT / f"corpus/handwritten/{name}.hip").read_text()
    lines = [(str(n),) for n in (64, 65, 100, 1000, 1024, 4095)] + [("96", "48"), ("7.5",), ("x",), ()]
    assert repr(launches_of_many(text, lines, PROPERTIES)) == repr([host_launches(text, x, PROPERTIES) for x in lines])


def test_branches_loops_and_fractions_part_the_command_lines() -> None:
    lines = [(str(n),) for n in range(90, 260)] + [(str(n), "77") for n in range(90, 140)]
    found = launches_of_many(BRANCHES, lines, PROPERTIES)
    assert repr(found) == repr([host_launches(BRANCHES, line, PROPERTIES) for line in lines])
    assert len({tuple(launch.grid for launch in launches) for launches, _ in found}) > 100


def test_a_number_that_differs_never_stands_for_one_of_its_values() -> None:
    number = many([4, 5, 6])
    assert repr((number * 2 - number).values) == "(4, 5, 6)"
    assert (1 << number).values == (16, 32, 64)
    assert (number > 3) == 1 and number - number == 0
    for use in (int, float, str, repr, math.floor, lambda n: bool(n > 4), lambda n: min(n, 5)):
        with pytest.raises(Diverged):
            use(number)
