// A kernel that runs past the end of a live allocation, into memory that a larger one had before.
#include "check.h"

__global__ void fill(int* p) { p[threadIdx.x + blockIdx.x * blockDim.x] = 1; }

int main() {
  int *larger, *p;
  OK(hipMalloc(&larger, 1 << 16));
  OK(hipFree(larger));
  OK(hipMalloc(&p, 4096));
  fill<<<5, 256>>>(p);
  return hipDeviceSynchronize() == hipSuccess ? 0 : 1;
}
