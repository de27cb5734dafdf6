// Single precision on the matrix cores: each wavefront keeps a 64 x 64 tile as sixteen 16 x 16 accumulators, and
// v_mfma_f32_16x16x4_f32 replaces 1,024 multiply-adds. Operands come from LDS slices of 16.
//
// step: gemm 6 gemm_mfma_f32, after gemm_double_buffered
// paradigm: per-wave
// bound: gfx90a mfma, gfx942 mfma
// moves: SQ_INSTS_VALU_MFMA_MOPS_F32 up, SQ_INSTS_VALU down
// check: 256 48
#include <hip/hip_runtime.h>

#include <cmath>
#include <iostream>
#include <random>
#include <vector>

#define OK(x) \
  if ((x) != hipSuccess) { std::cerr << #x " failed\n"; return 2; }

using float4v = __attribute__((ext_vector_type(4))) float;
constexpr int kTile = 128, kDepth = 16, kPad = 4;

// Four wavefronts, 2 x 2, of 64 x 64 elements each. Lane l of the instruction gives A[l % 16][l / 16], B[l / 16][l % 16]
// and holds C[l / 16 * 4 + i][l % 16] in element i.
__global__ __launch_bounds__(256) void gemm_matrix_cores(const float* a, const float* b, float* c, int n, int depth) {
  __shared__ float as[kTile][kDepth + kPad], bs[kDepth][kTile + kPad];
  const int lane = threadIdx.x % 64, wave = threadIdx.x / 64;
  const int wrow = wave / 2 * 64, wcol = wave % 2 * 64, row0 = blockIdx.y * kTile, col0 = blockIdx.x * kTile;
  float4v acc[4][4] = {};
  for (int k0 = 0; k0 < depth; k0 += kDepth) {
    for (int i = threadIdx.x; i < kTile * kDepth / 4; i += 256) {
      const int r = i / (kDepth / 4), k = i % (kDepth / 4) * 4, q = i / (kTile / 4), s = i % (kTile / 4) * 4;
      *(float4*)&as[r][k] = *(const float4*)&a[(row0 + r) * depth + k0 + k];
      *(float4*)&bs[q][s] = *(const float4*)&b[(k0 + q) * n + col0 + s];
    }
    __syncthreads();
    for (int k = lane / 16; k < kDepth; k += 4) {
      float x[4], y[4];
      for (int i = 0; i < 4; ++i) x[i] = as[wrow + i * 16 + lane % 16][k], y[i] = bs[k][wcol + i * 16 + lane % 16];
      for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j) acc[i][j] = __builtin_amdgcn_mfma_f32_16x16x4f32(x[i], y[j], acc[i][j], 0, 0, 0);
    }
    __syncthreads();
  }
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 4; ++j)
      for (int e = 0; e < 4; ++e)
        c[(row0 + wrow + i * 16 + lane / 16 * 4 + e) * n + col0 + wcol + j * 16 + lane % 16] = acc[i][j][e];
}

int main(int argc, char** argv) {
  const int n = argc > 1 ? std::stoi(argv[1]) : 2048;     // a multiple of 128
  const int depth = argc > 2 ? std::stoi(argv[2]) : 256;  // a multiple of 16
  std::vector<float> a(n * depth), b(n * depth), c(n * n);
  std::minstd_rand random(7);
  for (auto& v : a) v = random() % 256 / 256.0f;
  for (auto& v : b) v = random() % 256 / 256.0f;
  float *da, *db, *dc;
  OK(hipMalloc(&da, n * depth * sizeof(float)));
  OK(hipMalloc(&db, n * depth * sizeof(float)));
  OK(hipMalloc(&dc, n * n * sizeof(float)));
  OK(hipMemcpy(da, a.data(), n * depth * sizeof(float), hipMemcpyHostToDevice));
  OK(hipMemcpy(db, b.data(), n * depth * sizeof(float), hipMemcpyHostToDevice));
  gemm_matrix_cores<<<dim3(n / kTile, n / kTile), 256>>>(da, db, dc, n, depth);
  OK(hipMemcpy(c.data(), dc, n * n * sizeof(float), hipMemcpyDeviceToHost));
  double worst = 0;
  for (int s = 0; s < 500; ++s) {
    const int r = s * 977 % n, q = s * 613 % n;
    double want = 0;
    for (int k = 0; k < depth; ++k) want += double(a[r * depth + k]) * b[k * n + q];
    worst = std::max(worst, std::abs(c[r * n + q] - want) / want);
  }
  std::cout << (worst < 1e-4 ? "PASS" : "FAIL") << " error " << worst << "\n";
  return worst < 1e-4 ? 0 : 1;
}
