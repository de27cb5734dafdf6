// A kernel that is given memory which the host has released.
#include "check.h"

__global__ void late(int* p) { p[threadIdx.x] = 1; }

int main() {
  int *kept, *p;
  OK(hipMalloc(&kept, 4096));
  OK(hipMalloc(&p, 4096));
  OK(hipFree(p));
  late<<<1, 64>>>(p);
  return hipDeviceSynchronize() == hipSuccess ? 0 : 1;
}
