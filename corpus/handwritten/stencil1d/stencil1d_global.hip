// A weighted mean over 17 neighbours, every one read from global memory: the vL1D serves all but the first touch.
//
// step: stencil1d 1 stencil1d_global
// paradigm: per-thread
// bound: gfx90a vl1d, gfx942 vl1d
// check: 3000
#include <hip/hip_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

constexpr int kRadius = 8;
__constant__ float weights[2 * kRadius + 1];

__global__ void smooth(const float* in, float* out, int n) {  // `in` has kRadius more elements at both ends
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float sum = 0;
  for (int k = 0; k <= 2 * kRadius; ++k) sum += weights[k] * in[i + k];
  out[i] = sum;
}

int main(int argc, char** argv) {
  const int n = argc > 1 ? std::atoi(argv[1]) : 1 << 24;
  std::vector<float> x(n + 2 * kRadius), y(n);
  float w[2 * kRadius + 1];
  for (int k = 0; k <= 2 * kRadius; ++k) w[k] = 1.0f / (1 + std::abs(k - kRadius));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * i % 1009);
  float *in, *out;
  if (hipMalloc(&in, x.size() * sizeof(float)) != hipSuccess) return 1;
  if (hipMalloc(&out, n * sizeof(float)) != hipSuccess) return 1;
  (void)hipMemcpyToSymbol(HIP_SYMBOL(weights), w, sizeof w);
  (void)hipMemcpy(in, x.data(), x.size() * sizeof(float), hipMemcpyHostToDevice);
  smooth<<<(n + 255) / 256, 256>>>(in, out, n);
  (void)hipMemcpy(y.data(), out, n * sizeof(float), hipMemcpyDeviceToHost);
  for (int i = 0; i < n; i += 1 + i / 1000) {
    double sum = 0;
    for (int k = 0; k <= 2 * kRadius; ++k) sum += w[k] * x[i + k];
    if (std::fabs(sum - y[i]) > 1e-4 * std::fabs(sum)) {
      std::printf("FAIL: %d\n", i);
      return EXIT_FAILURE;
    }
  }
  std::printf("PASS\n");
  return EXIT_SUCCESS;
}
