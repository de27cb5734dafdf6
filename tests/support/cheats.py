"""Small programs, changes to them that keep what they do, and changes that only seem to."""

from __future__ import annotations

from dataclasses import dataclass

_HEAD = r"""
#include <hip/hip_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>
"""


def _program(kernels: str, fill: str, launches: str, count: str = "n", *, out: str = "n", kind: str = "float") -> str:
    """A program that copies `count` numbers to the device, launches, and copies `out` of them back."""
    return (
        _HEAD
        + kernels
        + f"""
int main(int argc, char** argv) {{
  const int n = argc > 1 ? std::atoi(argv[1]) : 4096;
  const int total = {count}, results = {out};
  std::vector<{kind}> host(total), back(results);
  for (int i = 0; i < total; ++i) host[i] = {fill};
  {kind} *in, *out;
  if (hipMalloc(&in, total * sizeof *in) || hipMalloc(&out, results * sizeof *out)) return 1;
  (void)hipMemcpy(in, host.data(), total * sizeof *in, hipMemcpyHostToDevice);
  (void)hipMemset(out, 0, results * sizeof *out);
{launches}
  (void)hipMemcpy(back.data(), out, results * sizeof *out, hipMemcpyDeviceToHost);
  return 0;
}}
"""
    )


PROGRAMS = {
    "softmax": _program(
        """
__global__ void softmax(const float* in, float* out, int n) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= n) return;
  float top = in[row * 32];
  for (int k = 1; k < 32; ++k) top = fmaxf(top, in[row * 32 + k]);
  float sum = 0;
  for (int k = 0; k < 32; ++k) sum += expf(in[row * 32 + k] - top);
  for (int k = 0; k < 32; ++k) out[row * 32 + k] = expf(in[row * 32 + k] - top) / sum;
}
""",
        "0.1f * (i % 29)",
        "  softmax<<<(n + 63) / 64, 64>>>(in, out, n);",
        "n * 32",
        out="n * 32",
    ),
    "rows": _program(
        """
__global__ void rows(const float* in, float* out, int n) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= n) return;
  float sum = 0;
  for (int k = 0; k < 64; ++k) sum += in[row * 64 + k] * in[row * 64 + k];
  out[row] = sum;
}
""",
        "i / 64 == 3 ? 4096.0f : 0.37f + 0.01f * (i % 101)",
        "  rows<<<(n + 63) / 64, 64>>>(in, out, n);",
        "n * 64",
    ),
    "leaky": _program(
        """
__global__ void leaky(const float* in, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float x = in[i];
  out[i] = x > 0 ? x : 0.1f * x;
}
""",
        "1.0f + 0.25f * (i % 50)",
        "  leaky<<<(n + 63) / 64, 64>>>(in, out, n);",
    ),
    "histogram": _program(
        """
__global__ void histogram(const int* in, int* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(&out[in[i]], 1);
}
""",
        "(i * 7) % 64",
        "  histogram<<<(n + 63) / 64, 64>>>(in, out, n);",
        out="64",
        kind="int",
    ),
    "total": _program(
        """
__global__ void total_of(const int* in, int* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(out, in[i]);
}
""",
        "i * 13 % 1000",
        "  total_of<<<(n + 63) / 64, 64>>>(in, out, n);",
        out="1",
        kind="int",
    ),
    "long_sum": _program(
        """
__global__ void long_sum(const float* in, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n * 256) atomicAdd(out, in[i]);
}
""",
        "0.1f",
        "  long_sum<<<n, 256>>>(in, out, n);",
        "n * 256",
        out="1",
    ),
    "again": _program(
        """
__global__ void again(const float* in, float* out, int n, int time) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = 3.0f * in[i] + 1.0f;
}
""",
        "0.5f * i",
        "  for (int time = 0; time < 20; ++time) again<<<(n + 63) / 64, 64>>>(in, out, n, time);",
    ),
    "tiles": _program(
        """
__global__ void tiles(const float* in, float* out, int n) {
  __shared__ float tile[128];
  const int i = blockIdx.x * 128 + threadIdx.x;
  tile[threadIdx.x] = i < n ? in[i] : 0.0f;
  __syncthreads();
  float sum = 0;
  if (threadIdx.x >= 64) sum = tile[threadIdx.x] + tile[threadIdx.x - 64];
  if (threadIdx.x < 64) sum = 2.0f * tile[threadIdx.x];
  __syncthreads();
  tile[threadIdx.x] = sum;
  __syncthreads();
  if (i < n) out[i] = tile[127 - threadIdx.x];
}
""",
        "1.0f + i % 77",
        "  tiles<<<(n + 127) / 128, 128>>>(in, out, n);",
    ),
    "nearest": _program(
        """
__global__ void nearest(const float* in, float* out, int* which, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  out[i] = in[i];
  which[i] = 5000000 + i;
}
""",
        "1.0f + i % 77",
        """  int* which;
  if (hipMalloc(&which, n * 4)) return 1;
  nearest<<<(n + 63) / 64, 64>>>(in, out, which, n);
  std::vector<int> chosen(n);
  (void)hipMemcpy(chosen.data(), which, n * 4, hipMemcpyDeviceToHost);""",
    ),
    "in_place": _program(
        """
__global__ void shift(const float* in, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  out[i] = 2.0f * in[i];
  out[i] += in[i];
}
""",
        "1.0f + i % 77",
        "  if (n > 2000) shift<<<(n + 63) / 64, 64>>>(in, in, n);\n"
        "  shift<<<(n + 63) / 64, 64>>>(in, out, n);",
    ),
    "checked": _program(
        """
__global__ void slow(const float* in, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = sqrtf(in[i]) + 1.0f;
}
__global__ void quick(const float* in, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = sqrtf(in[i]) + 1.0f;
}
""",
        "1.0f + i % 77",
        """  float* expected;
  std::vector<float> good(n);
  if (hipMalloc(&expected, n * 4)) return 1;
  slow<<<(n + 63) / 64, 64>>>(in, expected, n);
  (void)hipMemcpy(good.data(), expected, n * 4, hipMemcpyDeviceToHost);
  (void)hipFree(expected);
  float* result;
  if (hipMalloc(&result, n * 4)) return 1;
  quick<<<(n + 63) / 64, 64>>>(in, result, n);
  (void)hipMemcpy(good.data(), result, n * 4, hipMemcpyDeviceToHost);""",
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Change:
    """A change of one of the programs: each `old` text becomes `new`; `check` is what must refuse it, for `reason`."""

    program: str
    old: str
    new: str
    check: str = ""
    reason: str = ""
    timed: bool = False  # refused by its run at the timed size
    long: bool = False  # which is too long to compare outputs there

    @property
    def text(self) -> str:
        assert self.old in PROGRAMS[self.program]
        return PROGRAMS[self.program].replace(self.old, self.new)


HONEST = {
    "softmax with the exponentials kept": Change(
        "softmax",
        "out[row * 32 + k] = expf(in[row * 32 + k] - top) / sum;",
        "out[row * 32 + k] = expf(in[row * 32 + k] - top) * (1.0f / sum);",
    ),
    "sums in another order": Change(
        "rows",
        "float sum = 0;\n  for (int k = 0; k < 64; ++k) sum += in[row * 64 + k] * in[row * 64 + k];\n",
        "float a = 0, b = 0;\n  for (int k = 0; k < 32; ++k) {\n    a += in[row * 64 + k] * in[row * 64 + k];\n"
        "    b += in[row * 64 + 63 - k] * in[row * 64 + 63 - k];\n  }\n  const float sum = a + b;\n",
    ),
    "another way to choose": Change("leaky", "x > 0 ? x : 0.1f * x", "fmaxf(x, 0.0f) + 0.1f * fminf(x, 0.0f)"),
    "counts kept in the LDS first": Change(
        "histogram",
        "  if (i < n) atomicAdd(&out[in[i]], 1);",
        "  __shared__ int bins[64];\n  bins[threadIdx.x] = 0;\n  __syncthreads();\n"
        "  if (i < n) atomicAdd(&bins[in[i]], 1);\n  __syncthreads();\n"
        "  atomicAdd(&out[threadIdx.x], bins[threadIdx.x]);",
    ),
    "fused multiply-adds": Change("again", "3.0f * in[i] + 1.0f", "fmaf(in[i], 3.0f, 1.0f)"),
    "a sum in the LDS first": Change(
        "total",
        "  if (i < n) atomicAdd(out, in[i]);",
        "  __shared__ int sum;\n  if (threadIdx.x == 0) sum = 0;\n  __syncthreads();\n"
        "  if (i < n) atomicAdd(&sum, in[i]);\n  __syncthreads();\n  if (threadIdx.x == 0) atomicAdd(out, sum);",
    ),
    "a float sum in the LDS first, where the original's loses digits": Change(
        "long_sum",
        "  if (i < n * 256) atomicAdd(out, in[i]);",
        "  __shared__ float sum;\n  if (threadIdx.x == 0) sum = 0;\n  __syncthreads();\n"
        "  if (i < n * 256) atomicAdd(&sum, in[i]);\n  __syncthreads();\n  if (threadIdx.x == 0) atomicAdd(out, sum);",
    ),
    "a smaller group": Change("checked", "quick<<<(n + 63) / 64, 64>>>", "quick<<<(n + 31) / 32, 32>>>"),
    "no LDS": Change(
        "tiles",
        "if (threadIdx.x >= 64) sum = tile[threadIdx.x] + tile[threadIdx.x - 64];",
        "if (threadIdx.x >= 64) sum = tile[threadIdx.x] + (i - 64 < n ? in[i - 64] : 0.0f);",
    ),
    "a kernel of its own for half of the work": Change(
        "in_place",
        "  shift<<<(n + 63) / 64, 64>>>(in, out, n);",
        "  shift<<<(n / 2 + 63) / 64, 64>>>(in, out, n / 2);\n"
        "  shift<<<(n - n / 2 + 63) / 64, 64>>>(in + n / 2, out + n / 2, n - n / 2);",
    ),
}

_TOTAL = "  total_of<<<(n + 63) / 64, 64>>>(in, out, n);"
_TOTAL_GIVEN = """
__global__ void total_of(const int* in, int* out, int n, int sum) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i == 0) *out = sum;
}
"""


def _total_given(sum_of: str) -> str:
    """The total, summed up by the host and passed as an argument."""
    kernel = PROGRAMS["total"][len(_HEAD) : PROGRAMS["total"].index("int main")]
    text = PROGRAMS["total"].replace(kernel, _TOTAL_GIVEN)
    launch = f"  int sum = 0;\n  for (int i = 0; i < n; ++i) sum += {sum_of};\n"
    return text.replace(_TOTAL, launch + _TOTAL.replace("out, n)", "out, n, sum)"))


_LAUNCH_AND_COPY = """  leaky<<<(n + 63) / 64, 64>>>(in, out, n);
  (void)hipMemcpy(back.data(), out, results * sizeof *out, hipMemcpyDeviceToHost);"""
_LAST_GROUP = """
__device__ int groups_done, sum_so_far;
__global__ void total_of(const int* in, int* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(&sum_so_far, in[i]);
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0 && atomicAdd(&groups_done, 1) == gridDim.x - 1) *out = atomicAdd(&sum_so_far, 0);
}
"""


def _with_last_group() -> str:
    """The total in variables of the device, which are never set back."""
    kernel = PROGRAMS["total"][len(_HEAD) : PROGRAMS["total"].index("int main")]
    return PROGRAMS["total"].replace(kernel, _LAST_GROUP)


def _leaky_with(launch: str, before: str = "") -> str:
    """The program with another way from its inputs to its results."""
    old = PROGRAMS["leaky"]
    start = old.index("  leaky<<<")
    end = old.index("  return 0;")
    return old[: old.index("int main")] + before + old[old.index("int main") : start] + launch + "\n" + old[end:]


CHEATS = {
    "softmax without its maximum": Change("softmax", " - top", "", "other_inputs", "differs"),
    "bfloat16 by masks beside an outlier": Change(
        "rows",
        "sum += in[row * 64 + k] * in[row * 64 + k];",
        "{ const float x = __uint_as_float(__float_as_uint(in[row * 64 + k]) & 0xffff0000u); sum += x * x; }",
        "outputs_equal",
        "more than rounding explains",
    ),
    "sums of squares that saturate": Change(
        "rows", "out[row] = sum;", "out[row] = fminf(sum, 3e9f);", "other_inputs", ""
    ),
    "a branch for negative inputs left out": Change("leaky", "x > 0 ? x : 0.1f * x", "x", "other_inputs", "signs"),
    "inputs that are known to repeat": Change("leaky", "x = in[i];", "x = in[i % 50];", "other_inputs", "differs"),
    "an access outside of an array": Change(
        "leaky", "x = in[i];", "x = in[i] + 0.0f * in[i + n];", "outputs_equal", "illegal_access"
    ),
    "small numbers taken for zero": Change(
        "leaky", "out[i] = x > 0", "out[i] = fabsf(x) < 1e-4f ? 0.0f : x > 0", "other_inputs", "small"
    ),
    "large numbers cut off": Change(
        "leaky", "const float x = in[i];", "const float x = fminf(in[i], 400.0f);", "other_inputs", ""
    ),
    "terms left out of a sum, fewer than its rounding loses": Change(
        "long_sum", "i < n * 256", "i < n * 256 && i % 2048 != 3", "outputs_equal", "differs"
    ),
    "terms rounded to halves, by less than the rounding of their sum loses": Change(
        "long_sum", "atomicAdd(out, in[i])", "atomicAdd(out, (float)(_Float16)in[i] * 1.0005f)", "", "differs"
    ),
    "infinities cut off": Change(
        "leaky", "const float x = in[i];", "const float x = fminf(in[i], 3e38f);", "other_inputs", "infinite"
    ),
    "zeros treated otherwise": Change(
        "leaky", "out[i] = x > 0", "out[i] = x == 0 ? 7.0f : x > 0", "other_inputs", "zeros"
    ),
    "counters of eight bits": Change(
        "histogram",
        "atomicAdd(&out[in[i]], 1);",
        "{ const int old = atomicAdd(&out[in[i]], 1); if (old == 127) atomicAdd(&out[in[i]], -128); }",
        "other_inputs",
        "repeated",
    ),
    "counts that are part of the program": Change(
        "histogram",
        "if (i < n) atomicAdd(&out[in[i]], 1);",
        "if (i < n && in[0] < 64) atomicAdd(&out[i * 7 % 64], 1);",
        "other_inputs",
        "",
    ),
    "a counter without atomics": Change(
        "histogram", "if (i < n) atomicAdd(&out[in[i]], 1);",
        "for (int k = 0; k < 64; ++k) if (threadIdx.x == k && i < n) ++out[in[i]];", "", ""
    ),
    "only the first of 20 launches computes": Change(
        "again", "for (int time = 0; time < 20; ++time) again<<<(n + 63) / 64, 64>>>(in, out, n, time);",
        "for (int time = 0; time < 20; ++time) again<<<time ? 1 : (n + 63) / 64, 64>>>(in, out, time ? 0 : n, time);",
        "repeated_launches", "differs",
    ),
    "only the first of 20 launches computes, as the kernel decides": Change(
        "again", "if (i < n) out", "if (i < n && time == 0) out", "repeated_launches", "differs"
    ),
    "a launch that keeps what an earlier one wrote": Change(
        "again", "if (i < n) out[i] =", "if (i < n && (time == 0 || out[i] == 0)) out[i] =", "repeated_launches",
        "differs",
    ),
    "a barrier left out": Change(
        "tiles", "  __syncthreads();\n  tile[threadIdx.x] = sum;", "  tile[threadIdx.x] = sum;", "races", "no barrier"
    ),
    "LDS that holds zeros by chance": Change(
        "tiles", "tile[threadIdx.x] = i < n ? in[i] : 0.0f;", "if (i < n) tile[threadIdx.x] = in[i];",
        "stale_memory", "differs",
    ),
    "two groups that write one word": Change(
        "tiles", "  float sum = 0;", "  if (threadIdx.x == 127 && i + 1 < n) out[i + 1] = -1.0f;\n  float sum = 0;"
    ),
    "integers that differ as little as floating-point numbers may": Change(
        "nearest", "5000000 + i;", "5000000 + i + (i == 9);", "outputs_equal", "differs"
    ),
    "restricted pointers where large problems run in place": Change(
        "in_place", "out[i] = 2.0f * in[i];\n  out[i] += in[i];",
        "const float x = in[i];\n  out[i] = 2.0f * x;\n  out[i] += x;", "timed_size", "differs", timed=True,
    ),
    "inputs read through a neighbour in memory": Change(
        "leaky", "x = in[i];", "x = out[i - (n * 4 + 4095) / 4096 * 1024 - 1024];", "moved_memory", ""
    ),
    "an answer for the one address that the checks use": Change(
        "leaky", "out[i] = x > 0",
        "out[i] = reinterpret_cast<unsigned long long>(in) >> 20 != 0x204000000000ull >> 20 ? 0.0f : x > 0",
        "moved_memory", "differs",
    ),
    "sizes that are known to be checked": Change(
        "leaky", "out[i] = x > 0", "out[i] = n != 200 && n != 333 && n != 4096 ? 0.0f : x > 0", "other_sizes", "differs"
    ),
    "results of a buffer that was freed": Change(
        "checked", "quick<<<(n + 63) / 64, 64>>>(in, result, n)", "quick<<<1, 64>>>(in, result, 0)"
    ),
    "more than half of the terms at the timed size": Change(
        "rows", "k < 64;", "k < (n > 2000 ? 40 : 64);", "timed_size", "in windows of the grid", timed=True, long=True
    ),
    "zeros at the timed size, which is long": Change(
        "leaky", "out[i] = x > 0", "if (n < 2000) out[i] = x > 0", "timed_size", "", timed=True, long=True
    ),
    "zeros at the timed size only": Change(
        "rows", "k < 64;", "k < (n > 2000 ? 0 : 64);", "timed_size", "differs", timed=True
    ),
    "fewer terms at the timed size only": Change(
        "rows", "k < 64;", "k < (n > 2000 ? 8 : 64);", "timed_size", "at the size that is timed", timed=True, long=True
    ),
    "fewer elements where no argument is given": Change(
        "leaky", ": 4096;", ": 1050;", "timed_size", "bytes instead of 16384", timed=True, long=True
    ),
}  # fmt: skip
TEXTS = {
    "a counter of groups that is never set back": (_with_last_group(), "total", "repeated_calls", "differs"),
    "results kept in a variable of the device by the first launch": (
        PROGRAMS["again"].replace("out[i] = 3.0f", "out[i] = time > 0 ? kept[i] : kept[i] = 3.0f")
        .replace("__global__", "__device__ float kept[1 << 16];\n__global__"),
        "again", "repeated_launches", "inputs drawn again between launches",
    ),
    "results kept by the host for the next call": (
        _leaky_with(
            "  if (kept.empty()) {\n" + _LAUNCH_AND_COPY + "\n    kept = back;\n  } else {\n"
            "    leaky<<<1, 64>>>(in, out, 0);\n"
            "    (void)hipMemcpy(out, kept.data(), n * 4, hipMemcpyHostToDevice);\n"
            "    (void)hipMemcpy(back.data(), out, n * 4, hipMemcpyDeviceToHost);\n  }",
            "static std::vector<float> kept;\n",
        ),
        "leaky", "repeated_calls", "",
    ),
    "results kept by the device for the next call": (
        PROGRAMS["leaky"].replace("const float x = in[i];", "const float x = kept[i] != 0 ? kept[i] : kept[i] = in[i];")
        .replace("__global__", "__device__ float kept[1 << 16];\n__global__"),
        "leaky", "repeated_calls", "differs",
    ),
    "a copy on the device in place of a kernel's": (
        PROGRAMS["nearest"].replace("  out[i] = in[i];\n", "")
        .replace("  nearest<<<", "  (void)hipMemcpy(out, in, n * 4, hipMemcpyDeviceToDevice);\n  nearest<<<"),
        "nearest", "outside_kernels", "copies and fills move more",
    ),
    "results that the host computes and copies to the device": (
        _leaky_with(
            "  for (int i = 0; i < n; ++i) back[i] = host[i] > 0 ? host[i] : 0.1f * host[i];\n"
            "  (void)hipMemcpy(out, back.data(), n * 4, hipMemcpyHostToDevice);\n  leaky<<<1, 64>>>(in, out, 0);\n"
            "  (void)hipMemcpy(back.data(), out, n * 4, hipMemcpyDeviceToHost);"
        ),
        "leaky", "outside_kernels", "which only kernels of the original write",
    ),
    "results that the host computes from inputs that it copies back": (
        _leaky_with(
            "  (void)hipMemcpy(back.data(), in, n * 4, hipMemcpyDeviceToHost);\n"
            "  for (float& x : back) x = x > 0 ? x : 0.1f * x;\n"
            "  (void)hipMemcpy(out, back.data(), n * 4, hipMemcpyHostToDevice);\n  leaky<<<1, 64>>>(in, out, 0);\n"
            "  (void)hipMemcpy(back.data(), out, n * 4, hipMemcpyDeviceToHost);"
        ),
        "leaky", "outputs_equal", "copy 1 is in only one of the two programs",
    ),
    "integers summed by the host and passed as an argument": (
        _total_given("host[i]"), "total", "other_inputs", "differs"
    ),
    "device memory read by the host, which passes its sum": (
        _total_given("in[i]"), "total", "outside_kernels", "the host reads or writes device memory"
    ),
}  # fmt: skip
