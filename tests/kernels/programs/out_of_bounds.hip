// Writes far beyond its allocation.
#include <hip/hip_runtime.h>

#include <cstdio>

__global__ void wild(int* p, long far) { p[threadIdx.x + far] = 1; }
__global__ void tame(int* p) { p[threadIdx.x] = 1; }

int main() {
  int* p;
  if (hipMalloc(&p, 4096) != hipSuccess) return 1;
  tame<<<1, 64>>>(p);
  std::printf("before\n");
  wild<<<1, 64>>>(p, 1 << 28);
  std::printf("after %d\n", (int)hipDeviceSynchronize());
  return 0;
}
