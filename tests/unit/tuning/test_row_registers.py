"""Rows in registers: which loops keep their elements, what programs leave then, and what is left alone."""

from __future__ import annotations

import needs
import pytest

from hipsynth.tuning.optimize.analysis.program_model import read_program
from hipsynth.tuning.optimize.emit import emit_program
from hipsynth.tuning.optimize.evaluate import CandidateMeasurement, KernelTime
from hipsynth.tuning.optimize.source_changes.row_registers import list_changes
from hipsynth.tuning.optimize.transformation_plan import TransformationPlan
from hipsynth.tuning.trial import Conditions, Tolerance, compare_trials, run_trial, target_of

TARGET = target_of("gfx942")
HEAD = r"""#include <hip/hip_runtime.h>
#include <vector>
constexpr int kLanes = 64;
__device__ float sum_of_group(float value) {
  __shared__ float parts[64];
  parts[threadIdx.x] = value;
  __syncthreads();
  float sum = 0;
  for (int i = 0; i < 64; ++i) sum += parts[i];
  __syncthreads();
  return sum;
}
"""
KERNEL = "__global__ void NAME(const float* in, const float* weight, float* out, int rows, int columns) {\n"
HOST = r"""
int main() {
  const int rows = 6, columns = 1100;
  std::vector<float> host(rows * columns);
  for (int i = 0; i < rows * columns; ++i) host[i] = 0.25f * (i * 37 % 101) - 2 * (i / columns % 3);
  float *in, *weight, *out;
  for (float** p : {&in, &weight, &out})
    if (hipMalloc(p, host.size() * 4)) return 1;
  (void)hipMemcpy(in, host.data(), host.size() * 4, hipMemcpyHostToDevice);
  (void)hipMemcpy(weight, host.data(), host.size() * 4, hipMemcpyHostToDevice);
LAUNCHES
  return 0;
}
"""
ROW = "  const float* x = in + blockIdx.x * columns;\n  float* y = out + blockIdx.x * columns;\n"
LOOP = "  for (int c = threadIdx.x; c < columns; c += 64) "
KERNELS = {
    # Constants of an iteration, blocks, a barrier and a store between the loops.
    "centred": "  {\n    float s = 0;\n"
    "    for (int c = threadIdx.x; c < columns; c += kLanes) s += in[blockIdx.x * columns + c];\n"
    "    s = sum_of_group(s);\n    if (threadIdx.x == 0) out[blockIdx.x * columns] = s / columns;\n"
    "  }\n  __syncthreads();\n"
    "  {\n    const float mean = out[blockIdx.x * columns];\n    __syncthreads();\n"
    "    for (int c = threadIdx.x; c < columns; c += kLanes) {\n      const int i = blockIdx.x * columns + c;\n"
    "      out[i] = (in[i] - mean) * weight[c];\n    }\n  }\n",
    # A choice for the largest element; exponentials that are stored, then divided; pragmas.
    "stored": ROW + "  float m = -1e30f, s = 0;\n#pragma unroll 2\n" + LOOP + "if (x[c] > m) m = x[c];\n"
    "  m = sum_of_group(m) / 64;\n  for (unsigned k = threadIdx.x; k < columns; k += blockDim.x) s += k;\n"
    + LOOP + "{\n    y[c] = expf(x[c] - m);\n    s += y[c];\n  }\n"
    "  s = sum_of_group(s);\n" + LOOP + "y[c] /= s;\n",
    # Pairs of numbers, one array more in both loops, and a lane among two axes.
    "pairs": "  const float2* x = reinterpret_cast<const float2*>(in + blockIdx.x * columns);\n"
    "  const int lane = threadIdx.y * blockDim.x + threadIdx.x;\n  float s = 0;\n"
    "  for (unsigned c = lane; c < columns / 2; c += 64) s += x[c].x * weight[c] + x[c].y;\n  s = sum_of_group(s);\n"
    "  for (unsigned c = lane; c < columns / 2; c += 64) out[blockIdx.x * columns + c] = (x[c].y - weight[c]) / s;\n",
}  # fmt: skip
IN_PLACE = """__global__ void in_place(float* data, int rows, int columns) {
  for (int row = blockIdx.x; row < rows; row += gridDim.x) {
    double s = 0;
    for (int c = threadIdx.x; c < columns; c += blockDim.x) {
      data[row * columns + c] *= 0.5f;
      s += data[row * columns + c];
    }
    s = sum_of_group(s);
    for (int c = threadIdx.x; c < columns; c += blockDim.x) data[row * columns + c] -= s / columns;
  }
}
"""


def write(kernels: dict[str, str], others: str = "", arguments: str = "in, weight, out") -> str:
    """A program that launches kernels one after another, and copies what each leaves."""
    bodies = "".join(f"{KERNEL.replace('NAME', name)}{body}}}\n" for name, body in kernels.items())
    launches = "".join(
        f"  {name}<<<rows, 64>>>({arguments}, rows, columns);\n"
        "  (void)hipMemcpy(host.data(), out, host.size() * 4, hipMemcpyDeviceToHost);\n"
        for name in kernels
    )
    if others:
        launches += "  in_place<<<3, 64>>>(out, rows, columns);\n"
    return HEAD + bodies + others + HOST.replace("LAUNCHES\n", launches)


def change(text: str, number: int = 0) -> dict[str, str]:
    """By kernel, the program with its rows in registers, of the alternative with this number."""
    program = read_program(text, "gfx942")
    times = tuple(KernelTime(k.name, 100.0, 1, "hbm", "", (6, 1, 1), (64, 1, 1), True) for k in program.kernels)
    timed = CandidateMeasurement("ok", "", "", 0, times, 1.0)  # type: ignore[arg-type]
    texts: dict[str, list[str]] = {}
    for changed in list_changes(program, timed, TARGET):
        texts.setdefault(changed.kernel, []).append(changed.text)
    return {name: alternatives[number] for name, alternatives in texts.items()}


def test_changed_programs_do_the_same() -> None:
    needs.simulator()
    needs.compiler()
    original = text = write(KERNELS, IN_PLACE)
    for name in (*KERNELS, "in_place"):
        text = change(text, 0 if name != "pairs" else 1)[name]
    runs = [run_trial(one, TARGET, Conditions(exact=True, record_bytes=1 << 20)) for one in (original, text)]
    assert runs[0].ok and runs[1].ok, runs[1].message
    found = compare_trials(*runs, Tolerance("float", 1e-6, "other fused multiply-adds"))
    assert found.equal, found
    loads = [[kernel.counters["SQ_INSTS_VMEM_RD"] for kernel in run.kernels] for run in runs]
    assert all(after < 0.8 * before for before, after in zip(*loads, strict=True)), loads
    stores = [[kernel.counters["SQ_INSTS_VMEM_WR"] for kernel in run.kernels] for run in runs]
    assert [after < 0.6 * before for before, after in zip(*stores, strict=True)] == [False, True, False, True], stores


def test_elements_stay_in_an_array_from_loop_to_loop() -> None:
    text = change(write({"centred": KERNELS["centred"]}))["centred"]
    assert (
        """  // Lanes with 16 elements of in or more keep the first 16 in registers for the loops below.
  float in_registers[16];
  const int row_begin = threadIdx.x;
  const bool fills_row = row_begin + 15 * kLanes < columns;
  const int row_rest = fills_row ? row_begin + 16 * kLanes : row_begin;
  {
    float s = 0;
    if (fills_row) {
#pragma unroll
      for (int row_i = 0; row_i < 16; ++row_i) {
        const int c = row_begin + row_i * kLanes;
        in_registers[row_i] = in[blockIdx.x * columns + c];
        s += in_registers[row_i];
      }
    }
    for (int c = row_rest; c < columns; c += kLanes) s += in[blockIdx.x * columns + c];
"""
        in text
    )
    assert "        out[i] = (in_registers[row_i] - mean) * weight[c];\n" in text


def test_stored_elements_go_to_memory_after_the_last_loop() -> None:
    text = change(write({"stored": KERNELS["stored"]}))["stored"]
    assert "      y_registers[row_i] = expf(x_registers[row_i] - m);\n      s += y_registers[row_i];\n" in text
    assert "      y_registers[row_i] /= s;\n      y[c] = y_registers[row_i];\n" in text
    assert "#pragma unroll 2\n  for (int c = row_rest; c < columns; c += 64) if (x[c] > m) m = x[c];" in text


def test_lanes_that_share_a_row_keep_their_elements() -> None:
    body = "  const int row = blockIdx.x * blockDim.x + threadIdx.x;\n  if (row >= rows) return;\n  float s = 0;\n"
    body += "  for (int c = 0; c < columns; ++c) s += in[row * columns + c];\n"
    body += "  for (int c = 0; c < columns; ++c) out[row * columns + c] = in[row * columns + c] / s;\n"
    split = TransformationPlan((256, 1, 1), split=64, restrict=True)
    emitted = emit_program(read_program(write({"k": body}), "gfx942"), {"k": split}, {"k": (64, 1, 1)})
    text = change(emitted)["k"]
    assert "const int row_begin = static_cast<decltype(row_begin)>(lane_part);" in text
    assert "out[row * columns + c] = in_registers[row_i] / s;" in text


def test_counts_are_alternatives_that_fit_registers() -> None:
    doubles = write({"k": FIRST + LAST}).replace("float", "double")
    assert [f"double x_registers[{count}];" in change(doubles, number)["k"] for number, count in enumerate((16, 8, 4))]
    with pytest.raises(IndexError):
        change(doubles, 3)


START = ROW + "  float s = 1;\n"
FIRST = START + LOOP + "s += x[c];\n"
LAST = LOOP + "y[c] = x[c] / s;\n"
LEFT_ALONE = {
    "another row": FIRST + LOOP + "y[c] = in[c] / s;\n",
    "other elements": FIRST + LOOP + "y[c] = x[c + 1] / s;\n",
    "another step": FIRST + LAST.replace("+= 64", "+= 32"),
    "fewer columns": FIRST + "  columns /= 2;\n" + LAST,
    "a row that moves": FIRST + "  x += 4;\n" + LAST,
    "a condition": START + LOOP + "s += s > 3 ? x[c] : 1;\n" + LAST,
    "a way out of the loop": START + LOOP + "{ if (s > 3) break; s += x[c]; }\n" + LAST,
    "a loop inside": START + LOOP + "for (int i = 0; i < 3; ++i) s += x[c];\n" + LAST,
    "a name of the function": "  float x_registers = 0;\n" + FIRST + LAST,
    "a bound of the loop": (FIRST + LAST).replace("c < columns", "c < columns - c"),
    "a variable that changes": START + LOOP + "{ s += x[c]; ++c; }\n" + LAST,
    "a large step": (FIRST + LAST).replace("+= 64", "+= 1000000"),
    "lanes that exchange": START + LOOP + "s += __shfl_xor(x[c], 1);\n" + LAST,
    "an address": START + LOOP + "s += *(&x[c] + 1);\n" + LAST,
    "stored by one lane": START + LOOP + "s += y[c];\n" + LOOP + "{ if (threadIdx.x == 0) y[c] = s; }\n",
    "stored elsewhere": START + LOOP + "s += y[c];\n  y[threadIdx.x + 1] = s;\n" + LOOP + "y[c] = s;\n",
    "stored by several iterations": START + LOOP + "s += y[c / 2];\n" + LOOP + "y[c / 2] = s;\n",
    "elements that are loaded once": START + LOOP + "s += y[c];\n" + LOOP + "y[c] = s;\n",
    "a way out between": START + LOOP + "y[c] = 1;\n  if (s > 3) return;\n" + LOOP + "y[c] += s;\n",
}


@pytest.mark.parametrize("what", LEFT_ALONE)
def test_other_loops_are_left_alone(what: str) -> None:
    assert not change(write({"k": LEFT_ALONE[what]}))


def test_indices_from_memory_stay_but_their_elements_do_not() -> None:
    gather = START + LOOP + "s += x[int(weight[c])];\n" + LOOP + "y[c] = s * x[int(weight[c])];\n"
    text = change(write({"k": gather}))["k"]
    assert "s += x[int(weight_registers[row_i])];" in text and "x_registers" not in text


def test_arrays_that_may_alias_are_left_alone() -> None:
    kept = write({"k": FIRST + LAST})
    assert change(kept)
    assert not change(write({"k": FIRST + LAST}, arguments="out, weight, out"))
    struct = kept.replace("__global__", "struct Sizes {\n  int first;\n  float* other;\n};\n__global__", 1)
    assert not change(
        struct.replace("int rows, int columns)", "Sizes rows, int columns)").replace("rows, columns", "{}, columns")
    )
    assert not change(kept.replace("const float* in", "float* in").replace("const float* x", "float* x"))
