// A wavefront per row with the whole row in registers: it is read once, maximum and sum are shuffles, and there is neither
// LDS nor a barrier.
//
// step: softmax 3 softmax_row_per_wave, after softmax_row_per_group
// paradigm: per-wave
// bound: gfx90a hbm, gfx942 infinity
// moves: SQ_INSTS_LDS down, SQ_INSTS_VMEM_RD down, Duration down
// check: 101
#include <hip/hip_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

constexpr int kColumns = 1024, kPieces = kColumns / 256;  // four elements per lane and piece

__global__ __launch_bounds__(256) void softmax(const float4* in, float4* out, int rows) {
  const int row = blockIdx.x * 4 + threadIdx.x / 64, lane = threadIdx.x % 64;
  if (row >= rows) return;
  float4 v[kPieces];
  float m = -INFINITY;
  for (int p = 0; p < kPieces; ++p) {
    v[p] = in[row * (kColumns / 4) + p * 64 + lane];
    m = fmaxf(m, fmaxf(fmaxf(v[p].x, v[p].y), fmaxf(v[p].z, v[p].w)));
  }
  for (int d = 32; d > 0; d /= 2) m = fmaxf(m, __shfl_xor(m, d));
  float sum = 0;
  for (auto& q : v) {
    q = {__expf(q.x - m), __expf(q.y - m), __expf(q.z - m), __expf(q.w - m)};
    sum += (q.x + q.y) + (q.z + q.w);
  }
  for (int d = 32; d > 0; d /= 2) sum += __shfl_xor(sum, d);
  const float scale = 1.0f / sum;
  for (int p = 0; p < kPieces; ++p)
    out[row * (kColumns / 4) + p * 64 + lane] = {v[p].x * scale, v[p].y * scale, v[p].z * scale, v[p].w * scale};
}

auto device_floats(std::size_t count) {
  void* p = nullptr;
  if (hipMalloc(&p, count * sizeof(float)) != hipSuccess) std::exit(EXIT_FAILURE);
  auto release = [](void* q) { (void)hipFree(q); };
  return std::unique_ptr<void, decltype(release)>(p, release);
}

int main(int argc, char** argv) {
  const int rows = argc > 1 ? std::atoi(argv[1]) : 8192, n = rows * kColumns;
  std::vector<float> x(n), y(n);
  for (int i = 0; i < n; ++i) x[i] = std::fabs(8.0f - i % 17);
  auto in = device_floats(n), out = device_floats(n);
  (void)hipMemcpy(in.get(), x.data(), n * sizeof(float), hipMemcpyHostToDevice);
  softmax<<<(rows + 3) / 4, 256>>>(static_cast<float4*>(in.get()), static_cast<float4*>(out.get()), rows);
  (void)hipMemcpy(y.data(), out.get(), n * sizeof(float), hipMemcpyDeviceToHost);
  int wrong = 0;
  for (int r = 0; r < rows; r += 11) {
    double sum = 0;
    for (int c = 0; c < kColumns; ++c) sum += std::exp(double(x[r * kColumns + c]));
    for (int c = 0; c < kColumns; ++c) wrong += std::fabs(y[r * kColumns + c] * sum / std::exp(x[r * kColumns + c]) - 1) > 1e-4;
  }
  std::printf("%s %d\n", wrong ? "FAIL" : "PASS", wrong);
  return wrong != 0;
}
