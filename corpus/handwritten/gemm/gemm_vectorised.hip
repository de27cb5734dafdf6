// 128 x 128 tiles and 8 x 8 sums per work-item, with all global and LDS traffic in 16-byte pieces: four wide LDS reads
// feed 64 multiply-adds.
//
// step: gemm 4 gemm_vectorised, after gemm_register_tiled
// paradigm: per-tile
// bound: gfx90a valu, gfx942 latency
// moves: SQ_INSTS_LDS down, TCC_REQ down
// check: 128 48
#include <hip/hip_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

constexpr int BM = 128, BN = 128, BK = 8;

__global__ __launch_bounds__(256) void gemm_128(const float4* A, const float4* B, float4* C, int n, int depth) {
  __shared__ float As[BK][BM];
  __shared__ float4 Bs[BK][BN / 4];
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16, n4 = n / 4;
  const int a_row = threadIdx.x / 2, a_part = threadIdx.x % 2;   // 128 rows of two float4
  const int b_row = threadIdx.x / 32, b_col = threadIdx.x % 32;  // 8 rows of 32 float4
  float acc[8][8] = {};
  for (int k = 0; k < depth; k += BK) {
    const float4 va = A[(blockIdx.y * BM + a_row) * (depth / 4) + k / 4 + a_part];
    As[4 * a_part + 0][a_row] = va.x;
    As[4 * a_part + 1][a_row] = va.y;
    As[4 * a_part + 2][a_row] = va.z;
    As[4 * a_part + 3][a_row] = va.w;
    Bs[b_row][b_col] = B[(k + b_row) * n4 + blockIdx.x * (BN / 4) + b_col];
    __syncthreads();
#pragma unroll
    for (int p = 0; p < BK; ++p) {
      const float4 x0 = *reinterpret_cast<const float4*>(&As[p][ty * 4]);
      const float4 x1 = *reinterpret_cast<const float4*>(&As[p][64 + ty * 4]);
      const float4 y0 = Bs[p][tx], y1 = Bs[p][16 + tx];
      const float x[8] = {x0.x, x0.y, x0.z, x0.w, x1.x, x1.y, x1.z, x1.w};
      const float y[8] = {y0.x, y0.y, y0.z, y0.w, y1.x, y1.y, y1.z, y1.w};
#pragma unroll
      for (int i = 0; i < 8; ++i)
#pragma unroll
        for (int j = 0; j < 8; ++j) acc[i][j] = fmaf(x[i], y[j], acc[i][j]);
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const int row = blockIdx.y * BM + (i / 4) * 64 + ty * 4 + i % 4;
    for (int h = 0; h < 2; ++h)
      C[row * n4 + blockIdx.x * (BN / 4) + h * 16 + tx] =
          make_float4(acc[i][4 * h], acc[i][4 * h + 1], acc[i][4 * h + 2], acc[i][4 * h + 3]);
  }
}

int main(int argc, char** argv) {
  int n = 2048, depth = 256;  // multiples of 128 and 8
  if (argc > 1) n = std::atoi(argv[1]);
  if (argc > 2) depth = std::atoi(argv[2]);
  const std::size_t count = static_cast<std::size_t>(n) * depth, bytes = sizeof(float) * n * n;
  std::vector<float> a(count), b(count), c(static_cast<std::size_t>(n) * n);
  for (std::size_t i = 0; i < count; ++i) a[i] = float(i % 23) / 8, b[i] = float(i % 29) / 16;
  float4 *da = nullptr, *db = nullptr, *dc = nullptr;
  for (auto** p : {&da, &db, &dc})
    if (hipMalloc(p, bytes) != hipSuccess) return EXIT_FAILURE;
  (void)hipMemcpy(da, a.data(), count * sizeof(float), hipMemcpyHostToDevice);
  (void)hipMemcpy(db, b.data(), count * sizeof(float), hipMemcpyHostToDevice);
  gemm_128<<<dim3(n / BN, n / BM), 256>>>(da, db, dc, n, depth);
  (void)hipMemcpy(c.data(), dc, bytes, hipMemcpyDeviceToHost);
  for (int s = 0; s < 400; ++s) {
    const std::size_t r = s * 37 % n, q = s * 101 % n;
    double want = 0;
    for (int k = 0; k < depth; ++k) want += double(a[r * depth + k]) * b[k * n + q];
    if (std::abs(want - c[r * n + q]) > 1e-4 * want) return std::printf("FAIL at %zu %zu\n", r, q), EXIT_FAILURE;
  }
  return std::printf("PASS\n"), EXIT_SUCCESS;
}
