"""Branches that assign variables: which become choices, that programs do the same, and what is left alone."""

from __future__ import annotations

import needs
import pytest

from hipsynth.tuning.optimize.analysis.program_model import read_program
from hipsynth.tuning.optimize.evaluate import CandidateMeasurement, KernelTime
from hipsynth.tuning.optimize.source_changes.branch_free import list_changes
from hipsynth.tuning.trial import Conditions, Tolerance, compare_trials, run_trial, target_of

TARGET = target_of("gfx942")
PROGRAM = r"""#include <hip/hip_runtime.h>
#include <vector>
__global__ void k(const float* in, double* out, int* places, int n, float edge) {
  const int lane = blockIdx.x * blockDim.x + threadIdx.x;
  double best = 1e40, second = 1e40;
  int at = 0, next = -1;
  float low = edge, high = -edge;
  for (int i = 0; i < n; ++i) {
    const float d = in[(lane * 7 + i * 5) % 640];
    BODY
  }
  out[2 * lane] = best + low;
  out[2 * lane + 1] = second + high;
  places[lane] = at * 1000 + next;
}
int main() {
  const int lanes = 256;
  std::vector<float> host(640);
  std::vector<double> back(2 * lanes);
  std::vector<int> found(lanes);
  for (int i = 0; i < 640; ++i) host[i] = i % 97 == 0 ? 0.0f / 0.0f : i * 131 % 257;
  float* in;
  double* out;
  int* places;
  if (hipMalloc(&in, 640 * sizeof(float)) || hipMalloc(&out, 2 * lanes * 8) || hipMalloc(&places, lanes * 4)) return 1;
  (void)hipMemcpy(in, host.data(), 640 * sizeof(float), hipMemcpyHostToDevice);
  k<<<4, 64>>>(in, out, places, 50, 100.0f);
  (void)hipMemcpy(back.data(), out, 2 * lanes * 8, hipMemcpyDeviceToHost);
  (void)hipMemcpy(found.data(), places, lanes * 4, hipMemcpyDeviceToHost);
  return 0;
}
"""
TWO_LEAST = """if (d < best) {
      second = best;
      next = at;
      best = d;
      at = i;
    } else if (d < second) {
      second = d;
      next = i;
    }"""
SAME = {
    "the two least": TWO_LEAST,
    "one branch of three assignments": "if (in[i] < best) { best = d; at = i; next = 7; }",
    "a chain with an else": "if (d < low) low = d; else if (d > high) high = d; else { at = i; next = n; }",
    "without braces around": "if (n > 3)\n      if (d < low) { low = d; at = 3; next = i; }",
    "an else that keeps nothing": "if (d < low) { at = i; next = 2; } else { at = next; next = 3; }",
}


def write(body: str) -> str:
    return PROGRAM.replace("BODY", body)


def change(text: str) -> list[str]:
    kernel = KernelTime("k", 100.0, 1, "lds", "", (4, 1, 1), (64, 1, 1), True)
    timed = CandidateMeasurement("ok", "", "", 0, (kernel,), 100.0)  # type: ignore[arg-type]
    return [each.text for each in list_changes(read_program(text, "gfx942"), timed, TARGET)]


@pytest.mark.parametrize("name", SAME)
@pytest.mark.one_in(3)
def test_changed_programs_do_the_same(name: str) -> None:
    needs.simulator()
    needs.compiler()
    text = write(SAME[name])
    alone, unrolled = change(text)
    assert "first_case ?" in alone and "#pragma unroll 4\n  for (int i = 0;" in unrolled
    runs = [run_trial(one, TARGET, Conditions(exact=True, record_bytes=1 << 20)) for one in (text, alone, unrolled)]
    for run in runs:
        assert run.ok, run.message
        assert compare_trials(runs[0], run, Tolerance()).equal


def test_variables_are_chosen_before_their_old_values_go() -> None:
    alone, _ = change(write(TWO_LEAST))
    assert (
        "    const bool first_case = d < best, second_case = d < second;\n"
        "    second = first_case ? best : second_case ? d : second;\n"
        "    next = first_case ? at : second_case ? i : next;\n"
        "    best = first_case ? d : best;\n"
        "    at = first_case ? i : at;\n  }\n"
    ) in alone


LEFT_ALONE = {
    "one branch that compilers choose for": "if (d < best) { best = d; at = i; }",
    "a store": TWO_LEAST.replace("next = i;", "out[i] = d;"),
    "a call": TWO_LEAST.replace("next = i;", "next = abs(i);"),
    "a jump": TWO_LEAST.replace("next = i;", "break;"),
    "a value that the branch changed": TWO_LEAST.replace("second = best;\n", "").replace(
        "at = i;", "at = i;\n      second = best;"
    ),
    "variables that are exchanged": "if (d < low) { low = high; at = 1; } else if (d > 3) { high = low; at = 2; }",
    "a condition that loads only after another": TWO_LEAST.replace("(d < second)", "(in[next] < second)"),
    "a condition that counts": TWO_LEAST.replace("(d < best)", "(at++ < best)"),
    "an integer that gets a float": "if (d < best) { best = d; at = d; next = i; }",
    "a float that gets a double": "if (d < low) { low = best; at = 3; next = i; }",
}


@pytest.mark.parametrize("name", LEFT_ALONE)
def test_other_branches_are_left_alone(name: str) -> None:
    assert change(write(LEFT_ALONE[name])) == []
