"""Texts of programs with more declarations in them, and functions that several tests declare."""

from __future__ import annotations

PRINTING = '__device__ void note(int i) { printf("%d", i); }'
COUNTING = "__device__ int next() { static int calls = 0; return ++calls; }"


def declare_before_kernels(text: str, declarations: str) -> str:
    """The program with declarations ahead of its first kernel."""
    return text.replace("__global__", f"{declarations}\n__global__", 1)


# A program that prints how long its kernel took.
TIMED = """#include <hip/hip_runtime.h>
#include <cstdio>
__global__ void fill(int* to, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) to[i] = i;
}
int main() {
  const int n = 65536;
  int *to, last = 0;
  hipEvent_t start, stop;
  float ms = 0;
  hipMalloc(&to, n * 4);
  hipEventCreate(&start);
  hipEventCreate(&stop);
  hipEventRecord(start);
  fill<<<n / 64, 64>>>(to, n);
  hipEventRecord(stop);
  hipEventSynchronize(stop);
  hipEventElapsedTime(&ms, start, stop);
  hipMemcpy(&last, to + n - 1, 4, hipMemcpyDeviceToHost);
  printf("took %g ms, %d elements, last %d\\n", ms, n, last);
  return last == n - 1 ? 0 : 1;
}
"""
