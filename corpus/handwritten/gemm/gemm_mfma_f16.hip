// Half-precision inputs and single-precision sums: v_mfma_f32_32x32x8_f16 does eight times the work per cycle of the
// single-precision instruction, and every element takes half the bytes on its way there.
//
// step: gemm 7 gemm_mfma_f16, after gemm_mfma_f32
// paradigm: per-wave
// bound: gfx90a l2, gfx942 latency
// moves: SQ_INSTS_VALU_MFMA_MOPS_F16 up, TCC_REQ down, Duration down
// check: 256 96
#include <hip/hip_fp16.h>
#include <hip/hip_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

typedef _Float16 half4 __attribute__((ext_vector_type(4)));
typedef _Float16 half8 __attribute__((ext_vector_type(8)));
typedef float float16 __attribute__((ext_vector_type(16)));

constexpr int kTile = 128, kDepth = 32, kLine = kDepth + 8;

// B is given transposed, so that both operands are read along k. Lane l gives A[l % 32][l / 32 * 4 ..] and the same of B,
// and holds C[e / 4 * 8 + l / 32 * 4 + e % 4][l % 32] in element e.
__global__ __launch_bounds__(256) void hgemm(const _Float16* a, const _Float16* bt, float* c, int n, int depth) {
  __shared__ _Float16 as[kTile * kLine], bs[kTile * kLine];
  const int lane = threadIdx.x & 63, wave = threadIdx.x >> 6;
  const int wrow = (wave >> 1) * 64, wcol = (wave & 1) * 64;
  const int row0 = blockIdx.y * kTile, col0 = blockIdx.x * kTile;
  float16 acc[2][2] = {};
  for (int k0 = 0; k0 < depth; k0 += kDepth) {
    for (int i = threadIdx.x; i < kTile * kDepth / 8; i += 256) {
      const int r = i / (kDepth / 8), k = i % (kDepth / 8) * 8;
      *(half8*)&as[r * kLine + k] = *(const half8*)&a[(row0 + r) * depth + k0 + k];
      *(half8*)&bs[r * kLine + k] = *(const half8*)&bt[(col0 + r) * depth + k0 + k];
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kDepth; k += 8) {
      half4 x[2], y[2];
      for (int i = 0; i < 2; ++i) {
        x[i] = *(const half4*)&as[(wrow + i * 32 + lane % 32) * kLine + k + lane / 32 * 4];
        y[i] = *(const half4*)&bs[(wcol + i * 32 + lane % 32) * kLine + k + lane / 32 * 4];
      }
      for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 2; ++j) acc[i][j] = __builtin_amdgcn_mfma_f32_32x32x8f16(x[i], y[j], acc[i][j], 0, 0, 0);
    }
    __syncthreads();
  }
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 2; ++j)
      for (int e = 0; e < 16; ++e)
        c[(row0 + wrow + i * 32 + e / 4 * 8 + lane / 32 * 4 + e % 4) * n + col0 + wcol + j * 32 + lane % 32] = acc[i][j][e];
}

int main(int argc, char** argv) {
  const int n = argc > 1 ? atoi(argv[1]) : 2048;     // a multiple of 128
  const int depth = argc > 2 ? atoi(argv[2]) : 256;  // a multiple of 32
  const size_t count = (size_t)n * depth;
  std::vector<_Float16> a(count), bt(count);
  std::vector<float> c((size_t)n * n);
  for (size_t i = 0; i < count; i++) {
    a[i] = (_Float16)((int)(i % 11) * 0.25f - 1.0f);
    bt[i] = (_Float16)((int)(i % 7) * 0.5f - 1.0f);
  }
  _Float16 *da, *db;
  float* dc;
  if (hipMalloc(&da, count * 2) || hipMalloc(&db, count * 2) || hipMalloc(&dc, c.size() * 4)) return 1;
  (void)hipMemcpy(da, a.data(), count * 2, hipMemcpyHostToDevice);
  (void)hipMemcpy(db, bt.data(), count * 2, hipMemcpyHostToDevice);
  hgemm<<<dim3(n / kTile, n / kTile), 256>>>(da, db, dc, n, depth);
  (void)hipMemcpy(c.data(), dc, c.size() * 4, hipMemcpyDeviceToHost);
  int wrong = 0;
  for (int s = 0; s < 500; s++) {
    const int row = s * 211 % n, col = s * 307 % n;
    float want = 0;
    for (int k = 0; k < depth; k++) want += (float)a[(size_t)row * depth + k] * (float)bt[(size_t)col * depth + k];
    wrong += fabsf(want - c[(size_t)row * n + col]) > 1e-3f * (1 + fabsf(want));
  }
  printf("%s: %d of 500 wrong\n", wrong ? "FAIL" : "PASS", wrong);
  return wrong != 0;
}
