// One work-item executes a trap.
#include <hip/hip_runtime.h>

#include <cstdio>

__global__ void insist(int* p) {
  p[threadIdx.x] = threadIdx.x;
  if (p[threadIdx.x] == 32) __builtin_trap();
}

int main() {
  int* p;
  if (hipMalloc(&p, 256) != hipSuccess) return 1;
  insist<<<1, 64>>>(p);
  std::printf("after %d\n", (int)hipDeviceSynchronize());
  return 0;
}
