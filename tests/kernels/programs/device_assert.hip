// Device assertions: one that holds, and with an argument one that fails.
#include <hip/hip_runtime.h>

#include <cassert>
#include <cstdio>

__global__ void insist(int* p, int bound) {
  p[threadIdx.x] = threadIdx.x;
  assert(p[threadIdx.x] < bound);
}

int main(int argc, char**) {
  int* p;
  if (hipMalloc(&p, 256) != hipSuccess) return 1;
  insist<<<1, 64>>>(p, argc > 1 ? 32 : 64);
  std::printf("after %d\n", (int)hipDeviceSynchronize());
  return 0;
}
