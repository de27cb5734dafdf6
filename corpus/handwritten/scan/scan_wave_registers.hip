// Each lane keeps eight consecutive elements in registers (two 16-byte loads), wavefronts scan their lanes' sums by
// shuffles, and LDS holds only one sum per wavefront.
//
// step: scan 4 scan_wave_registers, after scan_work_efficient
// paradigm: per-wave
// bound: gfx90a hbm, gfx942 launch
// moves: SQ_INSTS_LDS down, Duration down
// check: 8192
#include <hip/hip_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <memory>

constexpr int kItems = 8, kThreads = 256, kTile = kItems * kThreads;

struct Free {
  void operator()(int* p) const { (void)hipFree(p); }
};
using Ints = std::unique_ptr<int, Free>;

static Ints device_ints(std::size_t count) {
  int* p = nullptr;
  if (hipMalloc(&p, count * sizeof(int)) != hipSuccess) std::exit(2);
  return Ints(p);
}

__device__ int wave_inclusive(int v) {
  const int lane = threadIdx.x % 64;
  for (int d = 1; d < 64; d *= 2) {
    const int below = __shfl_up(v, d);
    if (lane >= d) v += below;
  }
  return v;
}

// Inclusive scan of one tile; `carry` (may be null) holds what precedes each tile; `sums` (may be null) gets its sum.
__global__ __launch_bounds__(kThreads) void scan_tiles(const int4* in, int4* out, const int* carry, int* sums) {
  __shared__ int wave_sums[kThreads / 64];
  const int at = (blockIdx.x * kThreads + threadIdx.x) * 2;
  const int4 a = in[at], b = in[at + 1];
  int x[kItems] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
  for (int k = 1; k < kItems; ++k) x[k] += x[k - 1];
  const int inclusive = wave_inclusive(x[kItems - 1]);
  if (threadIdx.x % 64 == 63) wave_sums[threadIdx.x / 64] = inclusive;
  __syncthreads();
  int before = inclusive - x[kItems - 1];
  for (int w = 0; w < threadIdx.x / 64; ++w) before += wave_sums[w];
  if (carry && blockIdx.x > 0) before += carry[blockIdx.x - 1];
  if (sums && threadIdx.x == kThreads - 1) sums[blockIdx.x] = before + x[kItems - 1];
  if (!out) return;
  out[at] = {before + x[0], before + x[1], before + x[2], before + x[3]};
  out[at + 1] = {before + x[4], before + x[5], before + x[6], before + x[7]};
}

int main(int argc, char** argv) {
  int n = argc > 1 ? std::atoi(argv[1]) : 1 << 22;
  n -= n % kTile;
  const int tiles = n / kTile;  // at most one tile of sums
  auto host = std::make_unique<int[]>(n), scanned = std::make_unique<int[]>(n);
  for (int i = 0; i < n; ++i) host[i] = i % 9 - 3;
  Ints in = device_ints(n), out = device_ints(n), sums = device_ints(kTile), carry = device_ints(kTile);
  (void)hipMemcpy(in.get(), host.get(), n * sizeof(int), hipMemcpyHostToDevice);
  (void)hipMemset(sums.get(), 0, kTile * sizeof(int));
  auto vec = [](Ints& p) { return reinterpret_cast<int4*>(p.get()); };
  scan_tiles<<<tiles, kThreads>>>(vec(in), nullptr, nullptr, sums.get());
  scan_tiles<<<1, kThreads>>>(vec(sums), vec(carry), nullptr, nullptr);
  scan_tiles<<<tiles, kThreads>>>(vec(in), vec(out), carry.get(), nullptr);
  (void)hipMemcpy(scanned.get(), out.get(), n * sizeof(int), hipMemcpyDeviceToHost);
  int sum = 0;
  bool ok = tiles <= kTile;
  for (int i = 0; i < n; ++i) ok &= scanned[i] == (sum += host[i]);
  std::puts(ok ? "PASS" : "FAIL");
  return !ok;
}
