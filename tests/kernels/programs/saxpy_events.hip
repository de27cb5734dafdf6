// hipLaunchKernelGGL between two events; the elapsed time is simulated, positive and additive.
#include <cmath>

#include "check.h"

__global__ void saxpy(int n, float a, const float* x, float* y) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) y[i] = fmaf(a, x[i], y[i]);
}

int main() {
  const int n = 1 << 14;
  static float x[n], y[n], got[n];
  for (int i = 0; i < n; ++i) x[i] = i * 0.25f, y[i] = 7.0f - i;
  float *dx, *dy;
  OK(hipMalloc(&dx, sizeof x));
  OK(hipMalloc(&dy, sizeof y));
  hipEvent_t start, middle, stop;
  OK(hipEventCreate(&start));
  OK(hipEventCreate(&middle));
  OK(hipEventCreate(&stop));
  OK(hipMemcpy(dx, x, sizeof x, hipMemcpyHostToDevice));
  OK(hipMemcpy(dy, y, sizeof y, hipMemcpyHostToDevice));
  OK(hipEventRecord(start, 0));
  hipLaunchKernelGGL(saxpy, dim3(16), dim3(256), 0, 0, n, 2.5f, dx, dy);
  OK(hipEventRecord(middle));
  hipLaunchKernelGGL(saxpy, dim3(16), dim3(256), 0, 0, n, -1.0f, dx, dy);
  OK(hipEventRecord(stop, 0));
  OK(hipEventSynchronize(stop));
  float first, second, both;
  OK(hipEventElapsedTime(&first, start, middle));
  OK(hipEventElapsedTime(&second, middle, stop));
  OK(hipEventElapsedTime(&both, start, stop));
  CHECK(first > 0 && second > 0 && both < 1.0f);
  CHECK(std::fabs(first + second - both) < 1e-6f);
  OK(hipMemcpy(got, dy, sizeof got, hipMemcpyDeviceToHost));
  for (int i = 0; i < n; ++i) CHECK(got[i] == fmaf(-1.0f, x[i], fmaf(2.5f, x[i], y[i])));
  std::printf("saxpy ok\n");
  return 0;
}
