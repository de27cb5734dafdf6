// Each launch has a grid of its own.
#include "check.h"

__global__ void mark(int* p) {
  if (threadIdx.x == 0) p[blockIdx.x] = 1;
}

int main(int argc, char** argv) {
  int n = argc > 1 ? std::atoi(argv[1]) : 300, *device;
  OK(hipMalloc(&device, n * sizeof *device));
  for (int i = 1; i <= n; ++i) mark<<<i, 64>>>(device);
  OK(hipDeviceSynchronize());
  std::printf("grids ok\n");
  return 0;
}
