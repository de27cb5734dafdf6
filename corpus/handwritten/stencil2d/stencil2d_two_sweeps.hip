// Two time steps of the stencil in one launch: a work-group computes the first step on its tile and one ring around it in
// LDS, the second from there. What a second launch would read and write again stays on the chip, for a little redundant
// arithmetic.
//
// step: stencil2d 5 stencil2d_two_sweeps, after stencil2d_column_march
// paradigm: per-tile
// bound: gfx90a valu, gfx942 infinity
// moves: SQ_INSTS_LDS up, SQ_INSTS_VALU up
// check: 140
#include <hip/hip_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

constexpr int kW = 60, kH = 12, kThreads = 256;  // outputs of a work-group

__host__ __device__ float relax(float c, float l, float r, float t, float b) { return c + 0.2f * (l + r + t + b - 4 * c); }

__global__ __launch_bounds__(kThreads) void relax_twice(const float* u, float* v, int n) {
  __shared__ float in[kH + 4][kW + 4], once[kH + 2][kW + 2];
  const int x0 = blockIdx.x * kW, y0 = blockIdx.y * kH;  // the corner of the outer ring
  for (int i = threadIdx.x; i < (kH + 4) * (kW + 4); i += kThreads) {
    const int y = i / (kW + 4), x = i % (kW + 4);
    in[y][x] = u[min(y0 + y, n - 1) * n + min(x0 + x, n - 1)];
  }
  __syncthreads();
  for (int i = threadIdx.x; i < (kH + 2) * (kW + 2); i += kThreads) {
    const int y = i / (kW + 2), x = i % (kW + 2);
    once[y][x] = relax(in[y + 1][x + 1], in[y + 1][x], in[y + 1][x + 2], in[y][x + 1], in[y + 2][x + 1]);
  }
  __syncthreads();
  for (int i = threadIdx.x; i < kH * kW; i += kThreads) {
    const int y = i / kW, x = i % kW;
    if (y0 + y + 2 < n - 2 && x0 + x + 2 < n - 2)
      v[(y0 + y + 2) * n + x0 + x + 2] =
          relax(once[y + 1][x + 1], once[y + 1][x], once[y + 1][x + 2], once[y][x + 1], once[y + 2][x + 1]);
  }
}

int main(int argc, char** argv) {
  const int n = argc > 1 ? std::atoi(argv[1]) : 3072;
  std::vector<float> u(n * n), v(n * n);
  for (int i = 0; i < n * n; ++i) u[i] = i % 71 * 0.5f;
  const std::size_t bytes = u.size() * sizeof(float);
  float *du, *dv;
  if (hipMalloc(&du, bytes) != hipSuccess || hipMalloc(&dv, bytes) != hipSuccess) return 1;
  (void)hipMemcpy(du, u.data(), bytes, hipMemcpyHostToDevice);
  relax_twice<<<dim3((n - 4 + kW - 1) / kW, (n - 4 + kH - 1) / kH), kThreads>>>(du, dv, n);
  (void)hipMemcpy(v.data(), dv, bytes, hipMemcpyDeviceToHost);
  auto once = [&](int i) { return relax(u[i], u[i - 1], u[i + 1], u[i - n], u[i + n]); };
  int wrong = 0;
  for (int y = 2; y < n - 2; y += 3)
    for (int x = 2; x < n - 2; ++x) {
      const int i = y * n + x;
      wrong += std::fabs(relax(once(i), once(i - 1), once(i + 1), once(i - n), once(i + n)) - v[i]) > 1e-4f;
    }
  std::printf("%s\n", wrong ? "FAIL" : "PASS");
  return wrong ? EXIT_FAILURE : EXIT_SUCCESS;
}
