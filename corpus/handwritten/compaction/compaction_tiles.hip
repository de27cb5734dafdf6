// Work-groups of 256 look at 4,096 elements in 16-byte pieces, count theirs, and take places with one atomic; the result
// is collected in LDS, so that it leaves in whole lines.
//
// step: compaction 3 compaction_tiles, after compaction_wave
// paradigm: per-tile
// bound: gfx90a hbm, gfx942 atomics
// moves: TCC_ATOMIC down, SQ_WAVES down, Duration down
// check: 8192
#include <hip/hip_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

constexpr int kThreads = 256, kPieces = 4, kTile = kThreads * kPieces * 4;

__global__ __launch_bounds__(kThreads) void compact(const int4* in, int* out, int* count) {
  __shared__ int kept[kTile], length, base;
  if (threadIdx.x == 0) length = 0;
  __syncthreads();
  int4 v[kPieces];
  int mine = 0;
  for (int p = 0; p < kPieces; ++p) {
    v[p] = in[(blockIdx.x * kPieces + p) * kThreads + threadIdx.x];
    mine += (v[p].x % 3 == 0) + (v[p].y % 3 == 0) + (v[p].z % 3 == 0) + (v[p].w % 3 == 0);
  }
  int at = atomicAdd(&length, mine);  // one LDS atomic per work-item
  for (const int4& q : v)
    for (int e : {q.x, q.y, q.z, q.w})
      if (e % 3 == 0) kept[at++] = e;
  __syncthreads();
  if (threadIdx.x == 0) base = atomicAdd(count, length);
  __syncthreads();
  for (int i = threadIdx.x; i < length; i += kThreads) out[base + i] = kept[i];
}

int main(int argc, char** argv) {
  int n = argc > 1 ? std::atoi(argv[1]) : 1 << 22;
  n -= n % kTile;
  auto in = std::make_unique<int[]>(n);
  for (int i = 0; i < n; ++i) in[i] = (i ^ i >> 5) % 10007;
  int *d_in = nullptr, *d_out = nullptr, *d_count = nullptr, count = 0;
  for (int** p : {&d_in, &d_out})
    if (hipMalloc(p, n * sizeof(int)) != hipSuccess) return 2;
  if (hipMalloc(&d_count, sizeof(int)) != hipSuccess || hipMemset(d_count, 0, sizeof(int)) != hipSuccess) return 2;
  if (hipMemcpy(d_in, in.get(), n * sizeof(int), hipMemcpyHostToDevice) != hipSuccess) return 2;
  compact<<<n / kTile, kThreads>>>(reinterpret_cast<int4*>(d_in), d_out, d_count);
  if (hipMemcpy(&count, d_count, sizeof(int), hipMemcpyDeviceToHost) != hipSuccess) return 2;
  std::vector<int> got(std::clamp(count, 0, n)), want;
  if (hipMemcpy(got.data(), d_out, got.size() * sizeof(int), hipMemcpyDeviceToHost) != hipSuccess) return 2;
  std::copy_if(in.get(), in.get() + n, std::back_inserter(want), [](int v) { return v % 3 == 0; });
  std::sort(got.begin(), got.end());
  std::sort(want.begin(), want.end());
  std::printf("%s\n", got == want ? "PASS" : "FAIL");
  return got == want ? 0 : 1;
}
