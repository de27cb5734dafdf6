// 64 x 64 tiles per work-group and 4 x 4 sums per work-item in registers: eight LDS reads now feed sixteen multiply-adds,
// where the tiled step needed two for one.
//
// step: gemm 3 gemm_register_tiled, after gemm_lds_tiled
// paradigm: per-tile
// bound: gfx90a lds, gfx942 lds
// moves: SQ_INSTS_LDS down, SQ_WAVES down, Duration down
// check: 128 48
#include <hip/hip_runtime.h>

#include <cmath>
#include <cstdlib>
#include <iostream>
#include <vector>

namespace {
constexpr int kTile = 64, kDepth = 16, kOwn = 4;

__global__ __launch_bounds__(256) void gemm(const float* __restrict__ a, const float* __restrict__ b,
                                            float* __restrict__ c, int n, int depth) {
  __shared__ float as[kDepth][kTile + 4], bs[kDepth][kTile];
  const int tid = threadIdx.x, tx = tid % 16, ty = tid / 16;
  const int row0 = blockIdx.y * kTile, col0 = blockIdx.x * kTile;
  float sum[kOwn][kOwn] = {};
  for (int k0 = 0; k0 < depth; k0 += kDepth) {
    for (int i = tid; i < kTile * kDepth; i += 256) {
      as[i % kDepth][i / kDepth] = a[(row0 + i / kDepth) * depth + k0 + i % kDepth];
      bs[i / kTile][i % kTile] = b[(k0 + i / kTile) * n + col0 + i % kTile];
    }
    __syncthreads();
    for (int k = 0; k < kDepth; ++k) {
      float x[kOwn], y[kOwn];
      for (int i = 0; i < kOwn; ++i) x[i] = as[k][ty + 16 * i];
      for (int j = 0; j < kOwn; ++j) y[j] = bs[k][tx + 16 * j];
      for (int i = 0; i < kOwn; ++i)
        for (int j = 0; j < kOwn; ++j) sum[i][j] += x[i] * y[j];
    }
    __syncthreads();
  }
  for (int i = 0; i < kOwn; ++i)
    for (int j = 0; j < kOwn; ++j) c[(row0 + ty + 16 * i) * n + col0 + tx + 16 * j] = sum[i][j];
}

struct Matrix {
  Matrix(int rows, int n) : n(n), host(static_cast<std::size_t>(rows) * n) {
    if (hipMalloc(&device, bytes()) != hipSuccess) throw std::bad_alloc();
  }
  ~Matrix() { (void)hipFree(device); }
  std::size_t bytes() const { return host.size() * sizeof(float); }
  void push() { (void)hipMemcpy(device, host.data(), bytes(), hipMemcpyHostToDevice); }
  void pull() { (void)hipMemcpy(host.data(), device, bytes(), hipMemcpyDeviceToHost); }
  float at(int r, int c) const { return host[static_cast<std::size_t>(r) * n + c]; }
  int n;
  std::vector<float> host;
  float* device = nullptr;
};
}  // namespace

int main(int argc, char** argv) {
  const int n = argc > 1 ? std::atoi(argv[1]) : 2048;      // a multiple of 64
  const int depth = argc > 2 ? std::atoi(argv[2]) : 256;  // a multiple of 16
  Matrix a(n, depth), b(depth, n), c(n, n);
  unsigned seed = 12345;
  for (auto* m : {&a, &b}) {
    for (auto& v : m->host) v = static_cast<float>((seed = seed * 1664525u + 1013904223u) >> 24) / 256.0f - 0.5f;
    m->push();
  }
  gemm<<<dim3(n / kTile, n / kTile), 256>>>(a.device, b.device, c.device, n, depth);
  c.pull();
  int wrong = 0;
  for (int r = 3; r < n; r += n / 16) {
    for (int col = 5; col < n; col += n / 16) {
      double want = 0;
      for (int k = 0; k < depth; ++k) want += static_cast<double>(a.at(r, k)) * b.at(k, col);
      wrong += std::abs(want - c.at(r, col)) > 1e-3;
    }
  }
  std::cout << (wrong == 0 ? "PASS" : "FAIL") << '\n';
  return wrong == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
