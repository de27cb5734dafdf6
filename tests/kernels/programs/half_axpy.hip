// Half precision: scalar, packed, and with a float accumulator.
#include "check.h"

#include <hip/hip_fp16.h>

#include <cmath>
#include <vector>

__global__ void axpy(__half a, const __half* x, __half* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = __hadd(__hmul(a, x[i]), y[i]);
}

__global__ void axpy2(__half2 a, const __half2* x, __half2* y, int pairs) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < pairs) y[i] = __hfma2(a, x[i], y[i]);
}

__global__ void dot(const __half* x, const __half* y, float* sum, int n) {
  float mine = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) mine += __half2float(x[i]) * __half2float(y[i]);
  atomicAdd(sum, mine);
}

int main() {
  const int n = 1000;
  std::vector<__half> x(n), y(n), got(n);
  std::vector<float> expected(n);
  double product = 0;
  for (int i = 0; i < n; ++i) {
    x[i] = __float2half(float(i % 16) / 4);
    y[i] = __float2half(float(i % 32));
    expected[i] = float(i % 32) + 2 * 0.5f * float(i % 16) / 4;  // exact in eleven bits
    product += expected[i] * double(i % 16) / 4;
  }
  __half *dx, *dy;
  float *dsum, sum = 0;
  OK(hipMalloc(&dx, n * sizeof(__half)));
  OK(hipMalloc(&dy, n * sizeof(__half)));
  OK(hipMalloc(&dsum, sizeof(float)));
  OK(hipMemset(dsum, 0, sizeof(float)));
  OK(hipMemcpy(dx, x.data(), n * sizeof(__half), hipMemcpyHostToDevice));
  OK(hipMemcpy(dy, y.data(), n * sizeof(__half), hipMemcpyHostToDevice));
  axpy<<<(n + 255) / 256, 256>>>(__float2half(0.5f), dx, dy, n);
  axpy2<<<(n / 2 + 255) / 256, 256>>>(__float2half2_rn(0.5f), (__half2*)dx, (__half2*)dy, n / 2);
  dot<<<1, 256>>>(dx, dy, dsum, n);
  OK(hipMemcpy(got.data(), dy, n * sizeof(__half), hipMemcpyDeviceToHost));
  OK(hipMemcpy(&sum, dsum, sizeof sum, hipMemcpyDeviceToHost));
  for (int i = 0; i < n; ++i) CHECK(__half2float(got[i]) == expected[i]);
  CHECK(std::fabs(sum - product) < 1e-4 * product);
  std::printf("half axpy ok\n");
}
