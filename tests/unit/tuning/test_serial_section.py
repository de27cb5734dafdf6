"""Sections that one work-item of a group executes alone: what is shared, what is refused, and that programs do the
same."""

from __future__ import annotations

import needs
import pytest

from hipsynth.core.reasons import Reason
from hipsynth.tuning.optimize.analysis.program_model import read_program
from hipsynth.tuning.optimize.evaluate import CandidateMeasurement
from hipsynth.tuning.optimize.source_changes.serial_section import list_changes
from hipsynth.tuning.trial import Conditions, Tolerance, compare_trials, run_trial, target_of

TEXT = r"""
#include <hip/hip_runtime.h>
#include <vector>
constexpr int kLanes = 128;
__global__ void rows(const float* x, float* sums, float* least, int* where, int n) {
  __shared__ float parts[kLanes];
  __shared__ float mean;
  const int tid = threadIdx.x;
  const float* row = x + blockIdx.x * n;
  if (tid == 0) {
    float sum = 0;
    for (int i = 0; i < n; ++i) sum += row[i];
    mean = sum / n;
  }
  __syncthreads();
  float own = 0;
  for (int i = tid; i < n; i += kLanes) own += (row[i] - mean) * (row[i] - mean);
  parts[tid] = own;
  __syncthreads();
  if (0 == threadIdx.x) {
    float sum = 0, best = row[0];
    int at = 0;
    for (int i = 0; i < blockDim.x; ++i) sum += parts[i];
    for (int i = 1; i < n; ++i) {
      if (row[i] < best) { best = row[i]; at = i; }
    }
    sums[blockIdx.x] = sum;
    least[blockIdx.x] = best;
    where[blockIdx.x] = at;
  }
}
int main() {
  const int groups = 9, n = 300;
  std::vector<float> host(groups * n);
  for (int i = 0; i < groups * n; ++i) host[i] = i * 37 % 101;
  float *x, *sums, *least;
  int* where;
  if (hipMalloc(&x, groups * n * 4) || hipMalloc(&sums, groups * 4) || hipMalloc(&least, groups * 4)) return 1;
  if (hipMalloc(&where, groups * 4)) return 1;
  (void)hipMemcpy(x, host.data(), groups * n * 4, hipMemcpyHostToDevice);
  dim3 block(kLanes);
  rows<<<groups, block>>>(x, sums, least, where, n);
  return hipDeviceSynchronize();
}
"""
SECTION = "  if (tid == 0) {\n    float sum = 0;"
LAUNCH = "  rows<<<groups, 64>>>(x, sums, least, where, n);\n"


def change(text: str, arch: str = "gfx942") -> list[str]:
    timed = CandidateMeasurement("ok", Reason.NONE, "", 0, (), 1.0)
    return [each.text for each in list_changes(read_program(text, arch), timed, target_of(arch))]


@pytest.mark.parametrize("arch", ["gfx90a", "gfx942"])
@pytest.mark.parametrize("lanes", [64, 128, 1024])
def test_the_group_shares_what_one_work_item_did(lanes: int, arch: str) -> None:
    needs.simulator()
    needs.compiler()
    text = TEXT.replace("kLanes = 128", f"kLanes = {lanes}")
    text = text.replace("    for (int i = 0; i < n;", "#pragma unroll 4\n    for (int i = 0; i < n;")
    (changed,) = change(text, arch)
    assert "if (tid == 0)" not in changed and "if (0 ==" not in changed and changed.count("if (lane_part == 0) ") == 4
    assert "first_of_lanes" in changed and "largest_of_lanes" not in changed
    runs = [run_trial(one, target_of(arch), Conditions(exact=True, record_bytes=1 << 20)) for one in (text, changed)]
    assert runs[0].ok and compare_trials(*runs, Tolerance("float", 1e-6, "sums in another order")).equal
    assert runs[1].duration_ns < 0.5 * runs[0].duration_ns


REFUSED = {
    "work-items that may have returned": TEXT.replace(SECTION, f"  if (n < tid) return;\n{SECTION}"),
    "groups of several sizes": TEXT.replace("  return hip", f"{LAUNCH}  return hip"),
    "a size that is computed": TEXT.replace("block(kLanes)", "block(groups * 64)"),
    "a name of two numbers": TEXT.replace(
        "int main() {", "int half() { const int size = 64; return size; }\nint main() {\n  const int size = 128;"
    ).replace("block(kLanes)", "block(size)"),
    "a size that changes": TEXT.replace("  rows<<<", "  if (groups > 8) block.x = 64;\n  rows<<<"),
    "a part of a wavefront": TEXT.replace("kLanes = 128", "kLanes = 96"),
    "groups of two dimensions": TEXT.replace("block(kLanes)", "block(64, 2)"),
    "a variable of the work-item": TEXT.replace("    mean = sum", "    row = x;\n    mean = sum"),
    "a value that is stored and read": TEXT.replace(
        "    mean = sum / n;",
        "    mean = sum / n;\n    float more = 0;\n    for (int i = 0; i < n; ++i) more += mean;\n    sums[0] = more;",
    ),
    "a bound of the work-item's own": TEXT.replace("i < n; ++i) sum += row", "i < n - tid; ++i) sum += row"),
    "a number of the work-item's own": TEXT.replace(SECTION, f"  float scale = x[tid];\n{SECTION}").replace(
        "sum += row[i];", "sum += scale * row[i];"
    ),
    "a number that changes": TEXT.replace(SECTION, f"  float scale = 1;\n  scale += n;\n{SECTION}").replace(
        "sum += row[i];", "sum += scale * row[i];"
    ),
    "a call that may store": TEXT.replace(
        "__global__ void rows", "__device__ float take(int* p) { return *p += 1; }\n__global__ void rows"
    ).replace("sum += row[i];", "sum += take(where);"),
    "a loop that stores": TEXT.replace("sum += row[i];", "sums[i] = row[i];"),
    "a recurrence": TEXT.replace("sum += row[i];", "sum = 0.5f * sum + row[i];"),
    "another branch": TEXT.replace("  }\n  __syncthreads();\n  float own", "  } else mean = 0;\n  float own"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_other_sections_stay(what: str) -> None:
    assert all(SECTION in text for text in change(REFUSED[what]))
