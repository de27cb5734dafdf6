// Four rows per wavefront and 16-byte loads: an element of x that is loaded once serves four rows, and four loads of the
// matrix are in flight per lane.
//
// step: gemv 3 gemv_vectorised, after gemv_row_per_wave
// paradigm: per-wave
// bound: gfx90a hbm, gfx942 hbm
// moves: SQ_INSTS_VMEM_RD down, SQ_WAVES down, SQ_INSTS down
// check: 304 128
#include <hip/hip_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

constexpr int kRows = 4;

__global__ __launch_bounds__(256) void gemv(const float4* a, const float4* x, float* y, int quads) {
  const int first = (blockIdx.x * 4 + threadIdx.x / 64) * kRows, lane = threadIdx.x % 64;
  float sum[kRows] = {};
  for (int q = lane; q < quads; q += 64) {
    const float4 v = x[q];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const float4 m = a[(first + r) * quads + q];
      sum[r] += m.x * v.x + m.y * v.y + m.z * v.z + m.w * v.w;
    }
  }
  for (int r = 0; r < kRows; ++r)
    for (int d = 32; d > 0; d /= 2) sum[r] += __shfl_xor(sum[r], d);
  if (lane < kRows) y[first + lane] = lane == 0 ? sum[0] : lane == 1 ? sum[1] : lane == 2 ? sum[2] : sum[3];
}

struct Vector {
  std::vector<float> host;
  float* device;
  explicit Vector(std::size_t n) : host(n) {
    if (hipMalloc(&device, n * sizeof(float)) != hipSuccess) std::abort();
  }
  ~Vector() { (void)hipFree(device); }
  const float4* quads() {
    (void)hipMemcpy(device, host.data(), host.size() * sizeof(float), hipMemcpyHostToDevice);
    return reinterpret_cast<const float4*>(device);
  }
};

int main(int argc, char** argv) {
  const int rows = argc > 1 ? std::atoi(argv[1]) : 16384;   // a multiple of 16
  const int columns = argc > 2 ? std::atoi(argv[2]) : 1024;  // a multiple of four
  Vector a(static_cast<std::size_t>(rows) * columns), x(columns), y(rows);
  for (std::size_t i = 0; i < a.host.size(); ++i) a.host[i] = static_cast<float>(i * 7 % 31) / 31;
  for (int c = 0; c < columns; ++c) x.host[c] = static_cast<float>(c % 10) / 10;
  gemv<<<rows / (4 * kRows), 256>>>(a.quads(), x.quads(), y.device, columns / 4);
  (void)hipMemcpy(y.host.data(), y.device, rows * sizeof(float), hipMemcpyDeviceToHost);
  int wrong = 0;
  for (int r = 0; r < rows; ++r) {
    double want = 0;
    for (int c = 0; c < columns; ++c) want += a.host[static_cast<std::size_t>(r) * columns + c] * x.host[c];
    wrong += std::fabs(want - y.host[r]) > 1e-4 * want;
  }
  std::printf("%s (%d wrong)\n", wrong ? "FAIL" : "PASS", wrong);
  return wrong != 0;
}
