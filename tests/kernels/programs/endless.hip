// Never ends.
#include <hip/hip_runtime.h>

__global__ void spin(volatile int* p) {
  while (true) *p = *p + 1;
}

int main() {
  int* p;
  if (hipMalloc(&p, 4) != hipSuccess) return 1;
  spin<<<1, 64>>>(p);
  return (int)hipDeviceSynchronize();
}
