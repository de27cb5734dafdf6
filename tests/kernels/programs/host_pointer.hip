// Passes ordinary host memory to a kernel: illegal on a device without page-fault support.
#include <hip/hip_runtime.h>

#include <cstdlib>

__global__ void touch(int* p) { p[threadIdx.x] = 1; }

int main() {
  touch<<<1, 64>>>((int*)malloc(4096));
  return (int)hipDeviceSynchronize();
}
