// The work-group's elements and their halo are staged in LDS once; the 17 reads become LDS reads.
//
// step: stencil1d 2 stencil1d_lds, after stencil1d_global
// paradigm: per-tile
// bound: gfx90a hbm, gfx942 dispatch
// moves: TCP_TOTAL_CACHE_ACCESSES down, SQ_INSTS_LDS up
// check: 3000
#include <hip/hip_runtime.h>

#include <cmath>
#include <cstdlib>
#include <iostream>
#include <vector>

constexpr int radius = 8, block = 256;

struct Weights {
  float w[2 * radius + 1];
};

__global__ void smooth_lds(const float* in, float* out, int n, Weights weights) {
  __shared__ float line[block + 2 * radius];
  const int base = blockIdx.x * block;
  for (int i = threadIdx.x; i < block + 2 * radius; i += block)
    line[i] = base + i < n + 2 * radius ? in[base + i] : 0.0f;
  __syncthreads();
  float sum = 0;
#pragma unroll
  for (int k = 0; k <= 2 * radius; ++k) sum += weights.w[k] * line[threadIdx.x + k];
  if (base + threadIdx.x < n) out[base + threadIdx.x] = sum;
}

#define TRY(call)                                                              \
  if (const hipError_t error = (call); error != hipSuccess) {                  \
    std::cerr << #call << ": " << hipGetErrorName(error) << std::endl;         \
    return EXIT_FAILURE;                                                       \
  }

int main(int argc, char** argv) {
  const int n = argc > 1 ? atoi(argv[1]) : 16 * 1024 * 1024;
  Weights weights;
  for (int k = 0; k <= 2 * radius; ++k) weights.w[k] = std::exp(-0.1f * (k - radius) * (k - radius));
  std::vector<float> x(n + 2 * radius), y(n);
  for (int i = 0; i < n + 2 * radius; ++i) x[i] = (i * 31 % 257) * 0.01f;
  float *d_x, *d_y;
  TRY(hipMalloc(&d_x, x.size() * sizeof(float)));
  TRY(hipMalloc(&d_y, y.size() * sizeof(float)));
  TRY(hipMemcpy(d_x, x.data(), x.size() * sizeof(float), hipMemcpyHostToDevice));
  smooth_lds<<<(n + block - 1) / block, block>>>(d_x, d_y, n, weights);
  TRY(hipMemcpy(y.data(), d_y, y.size() * sizeof(float), hipMemcpyDeviceToHost));
  bool ok = true;
  for (int i = 0; i < n; i += 1 + n / 100000) {
    float want = 0;
    for (int k = 0; k <= 2 * radius; ++k) want += weights.w[k] * x[i + k];
    ok &= std::abs(want - y[i]) < 1e-4f * (1 + want);
  }
  std::cout << (ok ? "PASS" : "FAIL") << std::endl;
  TRY(hipFree(d_x));
  TRY(hipFree(d_y));
  return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
