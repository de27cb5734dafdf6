// The LDS through generic pointers (flat instructions), which volatile arrays are accessed by, does what ds_* do; and
// launches that differ in their dynamic LDS alone.
#include <hip/hip_runtime.h>

#include <cstdio>

#include "check.h"

constexpr int kSide = 32, kTiles = 16;

template <class Tile>
__device__ void transpose(Tile& tile, const float* in, float* out) {
  const int first = blockIdx.x * kSide * kSide;
  tile[threadIdx.y][threadIdx.x] = in[first + threadIdx.y * kSide + threadIdx.x];
  __syncthreads();
  out[first + threadIdx.y * kSide + threadIdx.x] = tile[threadIdx.x][threadIdx.y];
}

__global__ void by_lds(const float* in, float* out) {
  __shared__ float tile[kSide][kSide];
  transpose(tile, in, out);
}

__global__ void by_flat(const float* in, float* out) {
  __shared__ volatile float tile[kSide][kSide];
  transpose(tile, in, out);
}

__global__ void sized(float* out) {
  extern __shared__ float own[];
  own[threadIdx.x] = out[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = own[63 - threadIdx.x];
}

int main() {
  constexpr int n = kTiles * kSide * kSide;
  static float host[n], first[n], second[n];
  for (int i = 0; i < n; ++i) host[i] = static_cast<float>(i);
  float *in, *out;
  CHECK(hipMalloc(&in, sizeof host) == hipSuccess && hipMalloc(&out, sizeof host) == hipSuccess);
  CHECK(hipMemcpy(in, host, sizeof host, hipMemcpyHostToDevice) == hipSuccess);
  by_lds<<<kTiles, dim3(kSide, kSide)>>>(in, out);
  CHECK(hipMemcpy(first, out, sizeof host, hipMemcpyDeviceToHost) == hipSuccess);
  by_flat<<<kTiles, dim3(kSide, kSide)>>>(in, out);
  CHECK(hipMemcpy(second, out, sizeof host, hipMemcpyDeviceToHost) == hipSuccess);
  for (int i = 0; i < n; ++i) CHECK(first[i] == second[i]);
  for (int bytes : {1024, 32768}) sized<<<1, 64, bytes>>>(out);
  CHECK(hipDeviceSynchronize() == hipSuccess);
  std::printf("generic LDS ok\n");
}
