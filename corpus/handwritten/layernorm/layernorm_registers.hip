// A wavefront per row, the row in registers as 16-byte pieces, exact two-step variance without a second read.
//
// step: layernorm 3 layernorm_registers, after layernorm_one_launch
// paradigm: per-wave
// bound: gfx90a hbm, gfx942 infinity
// moves: SQ_INSTS_VMEM_RD down, SQ_INSTS_LDS down, SQ_WAVES down
// check: 65
#include <hip/hip_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

constexpr int kColumns = 1024, kQuads = kColumns / 4 / 64;

__device__ float all_lanes(float v) {
#pragma unroll
  for (int mask = 1; mask < 64; mask *= 2) v += __shfl_xor(v, mask);
  return v;
}

__global__ __launch_bounds__(256) void layernorm(const float4* __restrict__ x, const float4* __restrict__ gamma,
                                                 const float4* __restrict__ beta, float4* __restrict__ y, int rows) {
  const int row = blockIdx.x * 4 + threadIdx.x / 64, lane = threadIdx.x % 64;
  if (row >= rows) return;
  float4 v[kQuads];
  float sum = 0, squares = 0;
  for (int q = 0; q < kQuads; ++q) {
    v[q] = x[row * (kColumns / 4) + q * 64 + lane];
    sum += v[q].x + v[q].y + v[q].z + v[q].w;
  }
  const float mean = all_lanes(sum) / kColumns;
  for (float4& a : v) {
    a = {a.x - mean, a.y - mean, a.z - mean, a.w - mean};
    squares += a.x * a.x + a.y * a.y + a.z * a.z + a.w * a.w;
  }
  const float scale = rsqrtf(all_lanes(squares) / kColumns + 1e-5f);
  for (int q = 0; q < kQuads; ++q) {
    const float4 g = gamma[q * 64 + lane], b = beta[q * 64 + lane], a = v[q];
    y[row * (kColumns / 4) + q * 64 + lane] = {a.x * scale * g.x + b.x, a.y * scale * g.y + b.y,
                                               a.z * scale * g.z + b.z, a.w * scale * g.w + b.w};
  }
}

struct Vec {
  std::vector<float> h;
  float4* d = nullptr;
  explicit Vec(std::size_t n) : h(n) {
    if (hipMalloc(&d, n * sizeof(float)) != hipSuccess) std::abort();
  }
  ~Vec() { (void)hipFree(d); }
  void copy(hipMemcpyKind kind) {
    const bool up = kind == hipMemcpyHostToDevice;
    void *to = up ? static_cast<void*>(d) : h.data(), *from = up ? static_cast<void*>(h.data()) : d;
    (void)hipMemcpy(to, from, h.size() * sizeof(float), kind);
  }
};

int main(int argc, char** argv) {
  const int rows = argc > 1 ? std::atoi(argv[1]) : 16384;
  Vec x(static_cast<std::size_t>(rows) * kColumns), y(x.h.size()), g(kColumns), b(kColumns);
  for (std::size_t i = 0; i < x.h.size(); ++i) x.h[i] = static_cast<float>(i * 13 % 71) - 30;
  for (int c = 0; c < kColumns; ++c) g.h[c] = 1.0f / (1 + c % 5), b.h[c] = static_cast<float>(c % 3);
  for (Vec* v : {&x, &g, &b}) v->copy(hipMemcpyHostToDevice);
  layernorm<<<(rows + 3) / 4, 256>>>(x.d, g.d, b.d, y.d, rows);
  y.copy(hipMemcpyDeviceToHost);
  double worst = 0;
  for (int r = 0; r < rows; r += 29) {
    const float* p = &x.h[static_cast<std::size_t>(r) * kColumns];
    double mean = 0, var = 0;
    for (int c = 0; c < kColumns; ++c) mean += p[c] / double(kColumns);
    for (int c = 0; c < kColumns; ++c) var += (p[c] - mean) * (p[c] - mean) / kColumns;
    for (int c = 0; c < kColumns; ++c) {
      const double want = (p[c] - mean) / std::sqrt(var + 1e-5) * g.h[c] + b.h[c];
      worst = std::fmax(worst, std::fabs(want - y.h[static_cast<std::size_t>(r) * kColumns + c]));
    }
  }
  std::printf("%s %.2e\n", worst < 1e-4 ? "PASS" : "FAIL", worst);
  return worst < 1e-4 ? 0 : 1;
}
