#include <hip/hip_runtime.h>
#define USE_FAST 1
#if USE_FAST
#include "fast.h"
#else
#include "slow.h"
#endif
#ifdef __HIP_DEVICE_COMPILE__
#include "device_side.h"
#else
#include "host_side.h"
#endif
__global__ void step(float* p) { p[threadIdx.x] = advance(p[threadIdx.x]) + sideOffset(); }
int main() {
  float* p = nullptr;
  if (hipMalloc(&p, 256) != hipSuccess) return 1;
  step<<<1, 64>>>(p);
  return hipDeviceSynchronize() != hipSuccess;
}
