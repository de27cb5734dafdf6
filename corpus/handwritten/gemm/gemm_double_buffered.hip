// The 128 x 128 tiles with two LDS buffers: the loads of the next slice are in flight while this one is multiplied, and
// one barrier per slice remains.
//
// step: gemm 5 gemm_double_buffered, after gemm_vectorised
// paradigm: per-tile
// bound: gfx90a valu, gfx942 valu
// moves: Duration down
// check: 256 40
#include <hip/hip_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

constexpr int kTile = 128, kDepth = 8;

struct Slice {  // a slice of A (transposed) and one of B
  float a[kDepth][kTile];
  float b[kDepth][kTile];
};

__device__ void store(Slice& to, float4 va, float4 vb, int t) {
  for (int i = 0; i < 4; ++i) to.a[t % 2 * 4 + i][t / 2] = (&va.x)[i];
  *reinterpret_cast<float4*>(&to.b[t / 32][t % 32 * 4]) = vb;
}

__global__ __launch_bounds__(256) void gemm(const float* __restrict__ a, const float* __restrict__ b,
                                            float* __restrict__ c, int n, int depth) {
  __shared__ Slice slices[2];
  const int t = threadIdx.x, tx = t % 16 * 4, ty = t / 16 * 4;
  const float* pa = a + (blockIdx.y * kTile + t / 2) * depth + t % 2 * 4;
  const float* pb = b + t / 32 * n + blockIdx.x * kTile + t % 32 * 4;
  auto load = [](const float* p) { return *reinterpret_cast<const float4*>(p); };
  float sum[8][8] = {};
  store(slices[0], load(pa), load(pb), t);
  __syncthreads();
  for (int k = 0; k < depth; k += kDepth) {
    const Slice& now = slices[k / kDepth % 2];
    const bool more = k + kDepth < depth;
    float4 va, vb;
    if (more) va = load(pa += kDepth), vb = load(pb += kDepth * n);
#pragma unroll
    for (int p = 0; p < kDepth; ++p) {
      float x[8], y[8];
      for (int i = 0; i < 8; ++i) x[i] = now.a[p][i / 4 * 64 + ty + i % 4], y[i] = now.b[p][i / 4 * 64 + tx + i % 4];
      for (int i = 0; i < 8; ++i)
        for (int j = 0; j < 8; ++j) sum[i][j] += x[i] * y[j];
    }
    if (more) store(slices[(k / kDepth + 1) % 2], va, vb, t);
    __syncthreads();
  }
  for (int i = 0; i < 8; ++i)
    for (int j = 0; j < 8; j += 4)
      *reinterpret_cast<float4*>(&c[(blockIdx.y * kTile + i / 4 * 64 + ty + i % 4) * n + blockIdx.x * kTile + j * 16 + tx]) =
          make_float4(sum[i][j], sum[i][j + 1], sum[i][j + 2], sum[i][j + 3]);
}

int main(int argc, char** argv) {
  const int n = argc > 1 ? std::atoi(argv[1]) : 2048;     // a multiple of 128
  const int depth = argc > 2 ? std::atoi(argv[2]) : 256;  // a multiple of 8
  const std::size_t bytes = sizeof(float) * n * n, flat = sizeof(float) * n * depth;
  std::vector<float> a(flat / 4), b(flat / 4), c(bytes / 4);
  for (int i = 0; i < n * depth; ++i) a[i] = (i * 5 % 37) / 37.0f, b[i] = (i * 3 % 41) / 41.0f;
  float* d[3];
  for (float*& p : d)
    if (hipMalloc(&p, bytes) != hipSuccess) return 1;
  if (hipMemcpy(d[0], a.data(), flat, hipMemcpyHostToDevice) != hipSuccess) return 1;
  if (hipMemcpy(d[1], b.data(), flat, hipMemcpyHostToDevice) != hipSuccess) return 1;
  gemm<<<dim3(n / kTile, n / kTile), 256>>>(d[0], d[1], d[2], n, depth);
  if (hipMemcpy(c.data(), d[2], bytes, hipMemcpyDeviceToHost) != hipSuccess) return 1;
  bool ok = true;
  for (int s = 0; s < 300; ++s) {
    const int row = s * 53 % n, col = s * 71 % n;
    double want = 0;
    for (int k = 0; k < depth; ++k) want += double(a[row * depth + k]) * b[k * n + col];
    ok &= std::fabs(want - c[row * n + col]) < 1e-4 * want;
  }
  std::puts(ok ? "PASS" : "FAIL");
  return ok ? 0 : 1;
}
