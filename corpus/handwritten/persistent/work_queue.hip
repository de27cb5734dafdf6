// A persistent kernel: as many work-groups as the device holds take tiles from a queue until it is empty.
//
// step: persistent 1 work_queue
// paradigm: work queue
// bound: gfx90a latency, gfx942 atomics
// check:
#include <hip/hip_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

constexpr int kTile = 1024;

__global__ void scale_tiles(float* data, int tiles, int* next, float factor) {
  __shared__ int tile;
  for (;;) {
    if (threadIdx.x == 0) tile = atomicAdd(next, 1);
    __syncthreads();
    const int mine = tile;
    __syncthreads();  // everyone has read the tile before it is taken anew
    if (mine >= tiles) return;
    for (int i = threadIdx.x; i < kTile; i += blockDim.x) data[mine * kTile + i] *= factor;
  }
}

int main() {
  constexpr int tiles = 1024, n = tiles * kTile;
  std::vector<float> host(n, 3.0f);
  float* data = nullptr;
  int* next = nullptr;
  hipDeviceProp_t device;
  if (hipGetDeviceProperties(&device, 0) != hipSuccess) return 1;
  if (hipMalloc(&data, n * sizeof(float)) != hipSuccess || hipMalloc(&next, sizeof(int)) != hipSuccess) return 1;
  (void)hipMemcpy(data, host.data(), n * sizeof(float), hipMemcpyHostToDevice);
  (void)hipMemset(next, 0, sizeof(int));
  scale_tiles<<<device.multiProcessorCount, 256>>>(data, tiles, next, 2.0f);
  (void)hipMemcpy(host.data(), data, n * sizeof(float), hipMemcpyDeviceToHost);
  for (float v : host) {
    if (v != 6.0f) {
      std::printf("wrong\n");
      return EXIT_FAILURE;
    }
  }
  std::printf("scaled\n");
  return EXIT_SUCCESS;
}
