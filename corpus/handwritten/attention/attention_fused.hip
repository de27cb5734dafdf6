// One launch: a work-item keeps a query and its result in registers and meets all keys and values in tiles of 32 in LDS,
// rescaling its sum whenever the maximum grows. No score ever reaches memory, but there are few wavefronts to hide latency.
//
// step: attention 2 attention_fused, after attention_three_launches
// paradigm: per-tile
// bound: gfx90a latency, gfx942 latency
// moves: TCC_REQ down, SQ_INSTS_LDS up
// check: 128 3
#include <hip/hip_runtime.h>

#include <cmath>
#include <cstdlib>
#include <iostream>
#include <vector>

constexpr int kDim = 64, kTile = 32, kQueries = 64;

__global__ __launch_bounds__(kQueries) void attention(const float* q, const float* k, const float* v, float* out, int n) {
  __shared__ float ks[kTile][kDim], vs[kTile][kDim];
  const int head = blockIdx.y * n, query = head + blockIdx.x * kQueries + threadIdx.x;
  float mine[kDim], acc[kDim] = {}, largest = -1e30f, sum = 0;
#pragma unroll
  for (int d = 0; d < kDim; ++d) mine[d] = q[query * kDim + d] * 0.125f;
  for (int first = 0; first < n; first += kTile) {
    __syncthreads();
    for (int i = threadIdx.x; i < kTile * kDim; i += kQueries) {
      ks[i / kDim][i % kDim] = k[(head + first) * kDim + i];
      vs[i / kDim][i % kDim] = v[(head + first) * kDim + i];
    }
    __syncthreads();
    for (int j = 0; j < kTile; ++j) {
      float score = 0;
#pragma unroll
      for (int d = 0; d < kDim; ++d) score += mine[d] * ks[j][d];
      const float m = fmaxf(largest, score), keep = __expf(largest - m), p = __expf(score - m);
      sum = sum * keep + p;
#pragma unroll
      for (int d = 0; d < kDim; ++d) acc[d] = acc[d] * keep + p * vs[j][d];
      largest = m;
    }
  }
#pragma unroll
  for (int d = 0; d < kDim; ++d) out[query * kDim + d] = acc[d] / sum;
}

class Tensor {
 public:
  explicit Tensor(int n) : host(n * kDim) {
    if (hipMalloc(&device, bytes()) != hipSuccess) throw std::runtime_error("hipMalloc");
  }
  ~Tensor() { (void)hipFree(device); }
  std::size_t bytes() const { return host.size() * sizeof(float); }
  float* fill(float scale) {
    for (std::size_t i = 0; i < host.size(); ++i) host[i] = scale * std::sin(0.37f * i);
    (void)hipMemcpy(device, host.data(), bytes(), hipMemcpyHostToDevice);
    return device;
  }
  std::vector<float> host;
  float* device = nullptr;
};

int main(int argc, char** argv) {
  const int n = argc > 1 ? std::atoi(argv[1]) : 512;  // a multiple of 64
  const int heads = argc > 2 ? std::atoi(argv[2]) : 16;
  Tensor q(heads * n), k(heads * n), v(heads * n), out(heads * n);
  attention<<<dim3(n / kQueries, heads), kQueries>>>(q.fill(1), k.fill(0.5f), v.fill(2), out.device, n);
  (void)hipMemcpy(out.host.data(), out.device, out.bytes(), hipMemcpyDeviceToHost);
  bool ok = true;
  for (int s = 0; s < 32; ++s) {
    const int head = s % heads * n, i = head + s * 29 % n;
    std::vector<double> want(kDim);
    double sum = 0;
    for (int j = head; j < head + n; ++j) {
      double dot = 0;
      for (int d = 0; d < kDim; ++d) dot += double(q.host[i * kDim + d]) * k.host[j * kDim + d];
      const double p = std::exp(dot * 0.125);
      sum += p;
      for (int d = 0; d < kDim; ++d) want[d] += p * v.host[j * kDim + d];
    }
    for (int d = 0; d < kDim; ++d) ok = ok && std::abs(want[d] / sum - out.host[i * kDim + d]) < 1e-3;
  }
  std::cout << (ok ? "PASS" : "FAIL") << std::endl;
  return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
