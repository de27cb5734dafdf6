// One more column in the tile puts the elements of a column into different LDS banks.
//
// step: transpose 3 transpose_padded, after transpose_lds
// paradigm: per-tile
// bound: gfx90a hbm, gfx942 infinity
// moves: SQ_LDS_BANK_CONFLICT down, Duration down
// check: 128
#include <hip/hip_runtime.h>
#include <thrust/device_vector.h>
#include <thrust/sequence.h>

#include <cstdlib>
#include <iostream>

#define TILE 64

__global__ void transpose_padded(const float *in, float *out, int n) {
  __shared__ float tile[TILE][TILE + 1];
  const float *from = in + (blockIdx.y * TILE + threadIdx.y) * n + blockIdx.x * TILE + threadIdx.x;
  float *to = out + (blockIdx.x * TILE + threadIdx.y) * n + blockIdx.y * TILE + threadIdx.x;
#pragma unroll
  for (int r = 0; r < TILE; r += 4) tile[threadIdx.y + r][threadIdx.x] = from[r * n];
  __syncthreads();
#pragma unroll
  for (int r = 0; r < TILE; r += 4) to[r * n] = tile[threadIdx.x][threadIdx.y + r];
}

int main(int argc, char **argv) {
  const int n = argc > 1 ? atoi(argv[1]) : 4096;  // a multiple of TILE
  thrust::device_vector<float> in(n * n), out(n * n);
  thrust::sequence(in.begin(), in.end());
  transpose_padded<<<dim3(n / TILE, n / TILE), dim3(64, 4)>>>(in.data().get(), out.data().get(), n);
  if (hipDeviceSynchronize() != hipSuccess) return EXIT_FAILURE;
  for (int y = 0; y < n; y += 3) {
    for (int x = y % 5; x < n; x += 5) {
      if (out[x * n + y] != static_cast<float>(y * n + x)) {
        std::cout << "FAIL" << std::endl;
        return EXIT_FAILURE;
      }
    }
  }
  std::cout << "PASS" << std::endl;
  return EXIT_SUCCESS;
}
