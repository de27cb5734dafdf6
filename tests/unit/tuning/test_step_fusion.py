"""Steps of halving distances: from which one on groups keep to themselves, and that one launch does the same."""

from __future__ import annotations

import pytest

from hipsynth.tuning.optimize.analysis.program_model import read_program
from hipsynth.tuning.optimize.kernel_fusion.halving_steps import find_steps
from hipsynth.tuning.trial import Conditions, compare_trials, run_trial, target_of

PAIR = "2 * t - (t & (distance - 1))"
TEXT = """#include <hip/hip_runtime.h>
#include <cstdio>
#include <vector>
__global__ void exchange(unsigned* keys, const int* flags, const int distance, int size, int n) {
  const int t = blockIdx.x * blockDim.x + threadIdx.x;
  if (t >= n / 2) return;
  const int i = PAIR, j = i + distance;
  const unsigned a = keys[i], b = keys[j];
  if ((a > b) == ((i & size) == flags[0])) {
    keys[i] = b;
    keys[j] = a;
  }
}
int main() {
  const int n = 4096;
  std::vector<unsigned> host(n);
  for (int i = 0; i < n; ++i) host[i] = i * 2654435761u;
  unsigned* d;
  int* flags;
  if (hipMalloc(&d, n * sizeof(unsigned)) || hipMalloc(&flags, 4)) return 1;
  (void)hipMemset(flags, 0, 4);
  (void)hipMemcpy(d, host.data(), n * sizeof(unsigned), hipMemcpyHostToDevice);
  for (int size = 2; size <= n; size *= 2) {
    for (int distance = size / 2; distance > 0; distance /= 2) {
      exchange<<<n / 256, 128>>>(d, flags, distance, size, n);
    }
  }
  (void)hipMemcpy(host.data(), d, n * sizeof(unsigned), hipMemcpyDeviceToHost);
  std::printf("%u %u\\n", host[0], host[n / 2]);
  return 0;
}
""".replace("PAIR", PAIR)


def fused(text: str) -> str:
    """The changed program, "" if nothing is joined."""
    return next((found.text for found in find_steps(read_program(text, "gfx942"))), "")


def test_one_launch_takes_the_steps_that_are_left() -> None:
    changed = fused(TEXT)
    assert "if (distance <= 128) {\n        exchange_rest<<<n / 256, 128>>>(d, flags, distance, size, n);" in changed
    assert "        break;\n      }\n      exchange<<<n / 256, 128>>>(d, flags, distance, size, n);" in changed
    assert "void exchange_rest(unsigned* keys, const int* flags, int distance, int size, int n) {" in changed
    assert "    if (!(t >= n / 2)) {" in changed, "no work-item leaves before the barrier"


@pytest.mark.parametrize("arch", ["gfx942", "gfx90a"])
def test_it_leaves_the_same_memory_without_races(arch: str) -> None:
    alone = TEXT.replace("distance /= 2) {\n", "distance >>= 1)\n").replace("size, n);\n    }\n", "size, n);\n")
    for text in (TEXT, alone):
        conditions = Conditions(exact=True, races=True)
        before, after = (run_trial(one, target_of(arch), conditions) for one in (text, fused(text)))
        found = compare_trials(before, after)
        assert found.equal and found.exact, found.reason
        assert not after.races, after.races
        launches = [sum(kernel.dispatches for kernel in trial.kernels) for trial in (before, after)]
        assert launches == [78, 22], "sizes above 256 have steps of their own, and one launch for the rest"


OTHERS = [
    (PAIR, "2 * t - (t & (distance - 1)) + 1"),  # the last work-item of a group leaves it
    (PAIR, "t"),  # the other element is another group's
    (PAIR, "(t * distance) & 4095"),
    ("keys[i] = b;", "keys[a & 4095] = b;"),
    ("keys[i] = b;", "keys[i] = b; flag = 1;"),
    ("keys[i] = b;", "{ unsigned* p = keys; p[i] = b; }"),
    ("keys[i] = b;", "atomicAdd(&keys[i], b);"),
    ("(d, flags, distance, size, n)", "(d, flags, distance, size, distance)"),
    ("(d, flags, distance, size, n)", "(d, flags, 2 * distance, size, n)"),
    ("<<<n / 256, 128>>>", "<<<distance, 128>>>"),
    ("<<<n / 256, 128>>>", "<<<n / 256, 0200>>>"),  # 128, but not as its digits read
    ("distance /= 2", "distance /= 4"),
    ("distance > 0", "distance > 1"),
    ("size, n);\n    }", "size, n);\n      std::printf(\"%d\\n\", distance);\n    }"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new"), OTHERS)
def test_steps_across_groups_stay(old: str, new: str) -> None:
    text = TEXT.replace("__global__", "__device__ int flag;\n__global__", 1)
    assert text.count(old) == 1 and fused(text)
    assert not fused(text.replace(old, new))


@pytest.mark.parametrize(("value", "joined"), [("n > 9 ? flags : reinterpret_cast<int*>(d)", False), ("flags", True)])
def test_steps_whose_arrays_may_be_one_stay(value: str, joined: bool) -> None:
    text = TEXT.replace("  for (int size", f"  int* seen = {value};\n  for (int size").replace(
        "(d, flags,", "(d, seen,"
    )
    assert bool(fused(text)) == joined
