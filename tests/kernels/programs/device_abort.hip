// abort() in one thread of a kernel.
#include <hip/hip_runtime.h>

#include <cstdio>

__global__ void give_up(int* p) {
  p[threadIdx.x] = 1;
  if (p[5] == 1 && threadIdx.x == 5) abort();
}

int main() {
  int* p;
  if (hipMalloc(&p, 256) != hipSuccess) return 1;
  give_up<<<1, 64>>>(p);
  std::printf("after %d\n", (int)hipDeviceSynchronize());
  return 0;
}
