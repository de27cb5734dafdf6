// The stages whose distance fits a tile of 2,048 keys run together in LDS: of 190 launches for half a million keys 45 remain.
//
// step: sort 2 sort_bitonic_lds, after sort_bitonic_global
// paradigm: per-tile
// bound: gfx90a launch, gfx942 launch
// moves: TCC_REQ down, SQ_WAVES down, Duration down
// check: 8192
#include <hip/hip_runtime.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <random>
#include <vector>

constexpr int kTile = 2048, kThreads = 256;

__device__ void order(unsigned& a, unsigned& b, bool ascending) {
  const unsigned low = min(a, b), high = max(a, b);
  a = ascending ? low : high;
  b = ascending ? high : low;
}

// All stages of sizes `first` to `last` with distances that fit a tile.
__global__ void in_tile(unsigned* keys, int first, int last) {
  __shared__ unsigned tile[kTile];
  const int base = blockIdx.x * kTile;
  for (int i = threadIdx.x; i < kTile; i += kThreads) tile[i] = keys[base + i];
  for (int size = first; size <= last; size *= 2) {
    for (int distance = min(size, kTile) / 2; distance > 0; distance /= 2) {
      __syncthreads();
      for (int t = threadIdx.x; t < kTile / 2; t += kThreads) {
        const int i = 2 * t - (t & (distance - 1));
        order(tile[i], tile[i + distance], ((base + i) & size) == 0);
      }
    }
  }
  __syncthreads();
  for (int i = threadIdx.x; i < kTile; i += kThreads) keys[base + i] = tile[i];
}

__global__ void across_tiles(unsigned* keys, int distance, int size) {
  const int t = blockIdx.x * blockDim.x + threadIdx.x, i = 2 * t - (t & (distance - 1));
  unsigned a = keys[i], b = keys[i + distance];
  order(a, b, (i & size) == 0);
  keys[i] = a;
  keys[i + distance] = b;
}

int main(int argc, char** argv) {
  const int n = argc > 1 ? std::atoi(argv[1]) : 1 << 19;  // a power of two, at least kTile
  std::vector<unsigned> keys(n), sorted(n);
  std::mt19937 random(11);
  std::generate(keys.begin(), keys.end(), [&] { return static_cast<unsigned>(random()); });
  unsigned* d = nullptr;
  if (hipMalloc(&d, 4 * n) != hipSuccess || hipMemcpy(d, keys.data(), 4 * n, hipMemcpyHostToDevice) != hipSuccess) {
    std::cerr << "no device memory\n";
    return EXIT_FAILURE;
  }
  in_tile<<<n / kTile, kThreads>>>(d, 2, kTile);
  for (int size = 2 * kTile; size <= n; size *= 2) {
    for (int distance = size / 2; distance >= kTile; distance /= 2)
      across_tiles<<<n / 512, 256>>>(d, distance, size);
    in_tile<<<n / kTile, kThreads>>>(d, size, size);
  }
  (void)hipMemcpy(sorted.data(), d, 4 * n, hipMemcpyDeviceToHost);
  std::sort(keys.begin(), keys.end());
  std::cout << (keys == sorted ? "PASS" : "FAIL") << std::endl;
  (void)hipFree(d);
  return keys == sorted ? EXIT_SUCCESS : EXIT_FAILURE;
}
