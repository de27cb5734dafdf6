// One work-group per 32 x 32 tile through padded LDS: both global sides stay coalesced.
//
// step: per_tile 1 transpose
// paradigm: per-tile
// bound: gfx90a launch, gfx942 launch
// check:
#include <hip/hip_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

constexpr int kTile = 32, kRows = 8;

__global__ void transpose(const float* in, float* out, int width, int height) {
  __shared__ float tile[kTile][kTile + 1];  // the extra column keeps the banks apart
  const int x = blockIdx.x * kTile + threadIdx.x, y = blockIdx.y * kTile + threadIdx.y;
  for (int r = 0; r < kTile; r += kRows) tile[threadIdx.y + r][threadIdx.x] = in[(y + r) * width + x];
  __syncthreads();
  const int tx = blockIdx.y * kTile + threadIdx.x, ty = blockIdx.x * kTile + threadIdx.y;
  for (int r = 0; r < kTile; r += kRows) out[(ty + r) * height + tx] = tile[threadIdx.x][threadIdx.y + r];
}

int main() {
  constexpr int width = 1024, height = 512;
  std::vector<float> host(width * height), back(width * height);
  for (int i = 0; i < width * height; ++i) host[i] = static_cast<float>(i);
  float *in = nullptr, *out = nullptr;
  const std::size_t bytes = host.size() * sizeof(float);
  if (hipMalloc(&in, bytes) != hipSuccess || hipMalloc(&out, bytes) != hipSuccess) return 1;
  (void)hipMemcpy(in, host.data(), bytes, hipMemcpyHostToDevice);
  transpose<<<dim3(width / kTile, height / kTile), dim3(kTile, kRows)>>>(in, out, width, height);
  (void)hipMemcpy(back.data(), out, bytes, hipMemcpyDeviceToHost);
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      if (back[x * height + y] != host[y * width + x]) {
        std::printf("wrong at %d %d\n", x, y);
        return EXIT_FAILURE;
      }
    }
  }
  std::printf("transposed\n");
  return EXIT_SUCCESS;
}
