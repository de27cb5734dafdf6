// Each work-item transposes a 4 x 4 block in registers and moves it in 16-byte pieces; LDS, swizzled instead of padded so
// that it stays aligned, only exchanges whole pieces.
//
// step: transpose 4 transpose_registers, after transpose_padded
// paradigm: per-tile
// bound: gfx90a hbm, gfx942 infinity
// moves: SQ_INSTS_VMEM_RD down, SQ_INSTS_LDS down, SQ_INSTS down
// check: 128
#include <hip/hip_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

constexpr int kTile = 64, kPieces = kTile / 4;  // a tile is 16 x 16 blocks of 4 x 4

__global__ __launch_bounds__(256) void transpose(const float4* in, float4* out, int n) {
  __shared__ float4 tile[kTile][kPieces];
  const int bx = threadIdx.x % kPieces, by = threadIdx.x / kPieces, pitch = n / 4;
  float4 r[4];
  for (int i = 0; i < 4; ++i) r[i] = in[(blockIdx.y * kTile + by * 4 + i) * pitch + blockIdx.x * kPieces + bx];
  const float4 c[4] = {{r[0].x, r[1].x, r[2].x, r[3].x},
                       {r[0].y, r[1].y, r[2].y, r[3].y},
                       {r[0].z, r[1].z, r[2].z, r[3].z},
                       {r[0].w, r[1].w, r[2].w, r[3].w}};
  for (int i = 0; i < 4; ++i) tile[bx * 4 + i][by ^ bx] = c[i];
  __syncthreads();
  for (int i = 0; i < 4; ++i)
    out[(blockIdx.x * kTile + by * 4 + i) * pitch + blockIdx.y * kPieces + bx] = tile[by * 4 + i][bx ^ by];
}

struct Buffer {
  float* p = nullptr;
  explicit Buffer(size_t bytes) {
    if (hipMalloc(&p, bytes) != hipSuccess) exit(2);
  }
  ~Buffer() { (void)hipFree(p); }
};

int main(int argc, char** argv) {
  const int n = argc > 1 ? atoi(argv[1]) : 4096;  // a multiple of 64
  std::vector<float> a(size_t(n) * n), b(a.size());
  for (size_t i = 0; i < a.size(); ++i) a[i] = float(i * 2654435761u >> 8);
  Buffer in(a.size() * 4), out(a.size() * 4);
  (void)hipMemcpy(in.p, a.data(), a.size() * 4, hipMemcpyHostToDevice);
  const dim3 grid(n / kTile, n / kTile);
  transpose<<<grid, 256>>>(reinterpret_cast<float4*>(in.p), reinterpret_cast<float4*>(out.p), n);
  (void)hipMemcpy(b.data(), out.p, a.size() * 4, hipMemcpyDeviceToHost);
  bool good = true;
  for (int i = 0; i < n && good; ++i)
    for (int j = i % 3; j < n && good; j += 3) good = a[size_t(i) * n + j] == b[size_t(j) * n + i];
  puts(good ? "PASS" : "FAIL");
  return !good;
}
