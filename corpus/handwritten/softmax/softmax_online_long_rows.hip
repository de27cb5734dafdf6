// Rows of 32,768, too long for registers: each lane keeps a running maximum and a sum that it rescales when the maximum
// grows, so one sweep finds both and a second one writes the result.
//
// step: softmax 4 softmax_online_long_rows, after softmax_row_per_wave
// paradigm: per-tile
// bound: gfx90a hbm, gfx942 infinity
// moves: SQ_INSTS_VALU_TRANS_F32 up, SQ_INSTS_VMEM_RD up
// check: 9 4096
#include <hip/hip_runtime.h>

#include <cmath>
#include <cstdlib>
#include <iostream>
#include <vector>

struct Running {
  float max, sum;  // sum of exp(x - max)
  __device__ void add(Running other) {
    const float m = fmaxf(max, other.max);
    sum = sum * __expf(max - m) + other.sum * __expf(other.max - m);
    max = m;
  }
};

__global__ __launch_bounds__(512) void softmax_online(const float* in, float* out, int columns) {
  __shared__ Running waves[8];
  const float4* x = reinterpret_cast<const float4*>(in + static_cast<size_t>(blockIdx.x) * columns);
  float4* y = reinterpret_cast<float4*>(out + static_cast<size_t>(blockIdx.x) * columns);
  Running mine{-1e30f, 0};
  for (int c = threadIdx.x; c < columns / 4; c += blockDim.x) {
    const float4 v = x[c];
    const float m = fmaxf(fmaxf(v.x, v.y), fmaxf(v.z, v.w));
    mine.add({m, __expf(v.x - m) + __expf(v.y - m) + __expf(v.z - m) + __expf(v.w - m)});
  }
  for (int d = 32; d > 0; d /= 2) mine.add({__shfl_xor(mine.max, d), __shfl_xor(mine.sum, d)});
  if (threadIdx.x % 64 == 0) waves[threadIdx.x / 64] = mine;
  __syncthreads();
  Running all = waves[0];
  for (int w = 1; w < 8; ++w) all.add(waves[w]);
  const float scale = 1 / all.sum;
  for (int c = threadIdx.x; c < columns / 4; c += blockDim.x) {
    const float4 v = x[c];
    y[c] = make_float4(__expf(v.x - all.max) * scale, __expf(v.y - all.max) * scale, __expf(v.z - all.max) * scale,
                       __expf(v.w - all.max) * scale);
  }
}

int main(int argc, char** argv) {
  const int rows = argc > 1 ? std::atoi(argv[1]) : 256, columns = argc > 2 ? std::atoi(argv[2]) : 32768;
  const std::size_t n = static_cast<std::size_t>(rows) * columns;
  std::vector<float> x(n), y(n);
  for (std::size_t i = 0; i < n; ++i) x[i] = static_cast<float>(i * 2654435761u % 1000) / 100;
  float *dx = nullptr, *dy = nullptr;
  if (hipMalloc(&dx, n * 4) != hipSuccess) return EXIT_FAILURE;
  if (hipMalloc(&dy, n * 4) != hipSuccess) return EXIT_FAILURE;
  (void)hipMemcpy(dx, x.data(), n * 4, hipMemcpyHostToDevice);
  softmax_online<<<rows, 512>>>(dx, dy, columns);
  (void)hipMemcpy(y.data(), dy, n * 4, hipMemcpyDeviceToHost);
  double worst = 0;
  for (int r = 0; r < rows; r += 8) {
    double sum = 0;
    for (int c = 0; c < columns; ++c) sum += std::exp(x[std::size_t(r) * columns + c]);
    for (int c = 0; c < columns; c += 3) {
      const double want = std::exp(x[std::size_t(r) * columns + c]) / sum;
      worst = std::max(worst, std::abs(y[std::size_t(r) * columns + c] - want) / want);
    }
  }
  std::cout << (worst < 1e-3 ? "PASS" : "FAIL") << ", error " << worst << std::endl;
  return worst < 1e-3 ? EXIT_SUCCESS : EXIT_FAILURE;
}
