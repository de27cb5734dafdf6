// A 64 x 64 tile passes through LDS, so that reads and writes of global memory are both along rows. The columns of the
// tile all lie in one LDS bank: the conflicts have moved from the L2 to the LDS.
//
// step: transpose 2 transpose_lds, after transpose_naive
// paradigm: per-tile
// bound: gfx90a lds, gfx942 lds
// moves: TCP_TCC_WRITE_REQ down, SQ_LDS_BANK_CONFLICT up
// check: 128
#include <hip/hip_runtime.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <vector>

constexpr int kTile = 64, kRows = 4;

template <typename T>
__global__ void transpose_tile(const T* __restrict__ source, T* __restrict__ target, int width, int height) {
  __shared__ T tile[kTile][kTile];
  int col = blockIdx.x * kTile + threadIdx.x, row = blockIdx.y * kTile + threadIdx.y;
  for (int r = 0; r < kTile; r += kRows) tile[threadIdx.y + r][threadIdx.x] = source[(row + r) * width + col];
  __syncthreads();
  col = blockIdx.y * kTile + threadIdx.x;
  row = blockIdx.x * kTile + threadIdx.y;
  for (int r = 0; r < kTile; r += kRows) target[(row + r) * height + col] = tile[threadIdx.x][threadIdx.y + r];
}

int main(int argc, char** argv) {
  const int n = argc > 1 ? std::atoi(argv[1]) : 4096;  // a multiple of 64
  const std::size_t count = static_cast<std::size_t>(n) * n;
  std::vector<int> matrix(count), result(count);
  for (std::size_t i = 0; i < count; ++i) matrix[i] = static_cast<int>(i);
  int *source = nullptr, *target = nullptr;
  auto ok = [](hipError_t e) {
    if (e != hipSuccess) std::cerr << hipGetErrorString(e) << std::endl, std::exit(1);
  };
  ok(hipMalloc(&source, count * sizeof(int)));
  ok(hipMalloc(&target, count * sizeof(int)));
  ok(hipMemcpy(source, matrix.data(), count * sizeof(int), hipMemcpyHostToDevice));
  transpose_tile<int><<<dim3(n / kTile, n / kTile), dim3(kTile, kRows)>>>(source, target, n, n);
  ok(hipMemcpy(result.data(), target, count * sizeof(int), hipMemcpyDeviceToHost));
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < count; ++i) wrong += result[i] != static_cast<int>(i % n * n + i / n);
  std::cout << (wrong ? "FAIL" : "PASS") << " " << wrong << " wrong" << std::endl;
  return wrong ? EXIT_FAILURE : EXIT_SUCCESS;
}
