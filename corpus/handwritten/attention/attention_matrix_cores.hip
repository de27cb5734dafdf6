// The fused form on the matrix cores: a wavefront owns 16 queries of a head, computes 16 x 16 scores
// by four v_mfma_f32_16x16x16_f16, and multiplies their exponentials with V by four more. Scores pass through LDS, because
// an accumulator and an operand are laid out differently.
//
// step: attention 3 attention_matrix_cores, after attention_fused
// paradigm: per-wave
// bound: gfx90a vl1d, gfx942 vl1d
// moves: SQ_INSTS_VALU_MFMA_MOPS_F16 up, Duration down
// check: 128 2
#include <hip/hip_fp16.h>
#include <hip/hip_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

typedef _Float16 half4 __attribute__((ext_vector_type(4)));
typedef float float4v __attribute__((ext_vector_type(4)));
constexpr int kDim = 64, kWaves = 4;

// V is stored by dimension. Lane l of the instruction holds operands [l % 16][l / 16 * 4 ..] and sums [l / 16 * 4 ..][l % 16].
__global__ __launch_bounds__(64 * kWaves) void attention(const _Float16* q, const _Float16* k, const _Float16* vt, float* out,
                                                         int n) {
  __shared__ _Float16 p[kWaves][16][20];
  const int lane = threadIdx.x % 64, wave = threadIdx.x / 64, r = lane % 16, part = lane / 16 * 4;
  const size_t head = static_cast<size_t>(blockIdx.y) * n * kDim;
  const int query = (blockIdx.x * kWaves + wave) * 16;
  half4 mine[4];
  for (int d = 0; d < 4; ++d) mine[d] = *(const half4*)&q[head + (query + r) * kDim + d * 16 + part];
  float4v acc[4] = {}, largest = {-1e30f, -1e30f, -1e30f, -1e30f}, sum = {};
  for (int key = 0; key < n; key += 16) {
    float4v s = {};
    for (int d = 0; d < 4; ++d) {
      const half4 theirs = *(const half4*)&k[head + (key + r) * kDim + d * 16 + part];
      s = __builtin_amdgcn_mfma_f32_16x16x16f16(mine[d], theirs, s, 0, 0, 0);
    }
    for (int e = 0; e < 4; ++e) {  // row part + e of the scores is spread over 16 lanes
      float m = s[e] *= 0.125f;
      for (int x = 1; x < 16; x *= 2) m = fmaxf(m, __shfl_xor(m, x));
      m = fmaxf(m, largest[e]);
      const float keep = __expf(largest[e] - m);
      s[e] = __expf(s[e] - m);
      float total = s[e];
      for (int x = 1; x < 16; x *= 2) total += __shfl_xor(total, x);
      sum[e] = sum[e] * keep + total;
      largest[e] = m;
      for (int d = 0; d < 4; ++d) acc[d][e] *= keep;
      p[wave][part + e][r] = static_cast<_Float16>(s[e]);
    }
    const half4 weights = *(const half4*)&p[wave][r][part];
    for (int d = 0; d < 4; ++d) {
      const half4 values = *(const half4*)&vt[head + (d * 16 + r) * n + key + part];
      acc[d] = __builtin_amdgcn_mfma_f32_16x16x16f16(weights, values, acc[d], 0, 0, 0);
    }
  }
  for (int d = 0; d < 4; ++d)
    for (int e = 0; e < 4; ++e) out[head + (query + part + e) * kDim + d * 16 + r] = acc[d][e] / sum[e];
}

int main(int argc, char** argv) {
  const int n = argc > 1 ? atoi(argv[1]) : 512, heads = argc > 2 ? atoi(argv[2]) : 16;  // n: a multiple of 64
  const size_t count = static_cast<size_t>(heads) * n * kDim;
  std::vector<_Float16> q(count), k(count), vt(count);
  std::vector<float> out(count);
  for (size_t i = 0; i < count; ++i) {
    q[i] = static_cast<_Float16>((i % 7) * 0.25f - 0.75f);
    k[i] = static_cast<_Float16>((i % 11) * 0.125f - 0.5f);
    vt[i] = static_cast<_Float16>((i % 5) * 0.5f);
  }
  _Float16 *dq, *dk, *dv;
  float* dout;
  if (hipMalloc(&dq, count * 2) || hipMalloc(&dk, count * 2) || hipMalloc(&dv, count * 2) || hipMalloc(&dout, count * 4))
    return EXIT_FAILURE;
  (void)hipMemcpy(dq, q.data(), count * 2, hipMemcpyHostToDevice);
  (void)hipMemcpy(dk, k.data(), count * 2, hipMemcpyHostToDevice);
  (void)hipMemcpy(dv, vt.data(), count * 2, hipMemcpyHostToDevice);
  attention<<<dim3(n / (16 * kWaves), heads), 64 * kWaves>>>(dq, dk, dv, dout, n);
  (void)hipMemcpy(out.data(), dout, count * 4, hipMemcpyDeviceToHost);
  double worst = 0;
  for (int s = 0; s < 24; ++s) {
    const int query = s * 83 % n;
    const size_t head = static_cast<size_t>(s % heads) * n * kDim;
    std::vector<double> want(kDim);
    double sum = 0;
    for (int j = 0; j < n; ++j) {
      double dot = 0;
      for (int d = 0; d < kDim; ++d) dot += float(q[head + query * kDim + d]) * float(k[head + j * kDim + d]);
      const double p = std::exp(dot * 0.125);
      sum += p;
      for (int d = 0; d < kDim; ++d) want[d] += p * float(vt[head + d * n + j]);
    }
    for (int d = 0; d < kDim; ++d) worst = fmax(worst, fabs(want[d] / sum - out[head + query * kDim + d]));
  }
  printf("%s, largest error %.1e\n", worst < 5e-3 ? "PASS" : "FAIL", worst);
  return worst < 5e-3 ? EXIT_SUCCESS : EXIT_FAILURE;
}
