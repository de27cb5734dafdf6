// The simplest reduction: every work-item adds its element to one address
// (the shape of the paper's Listing 2).
//
// step: reduction 1 atomic_sum
// paradigm: per-thread
// bound: gfx90a atomics, gfx942 atomics
// check:
#include <hip/hip_runtime.h>

#include <cstdlib>
#include <iostream>
#include <vector>

__global__ void atomic_sum(const float* in, float* sum, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    atomicAdd(sum, in[i]);
  }
}

int main() {
  constexpr int n = 1 << 24;  // the largest count of ones that a float still adds up exactly
  constexpr int block = 1024;
  const std::vector<float> host(n, 1.0f);
  float *in = nullptr, *sum = nullptr;
  if (hipMalloc(&in, n * sizeof(float)) != hipSuccess || hipMalloc(&sum, sizeof(float)) != hipSuccess) {
    std::cout << "out of device memory\n";
    return EXIT_FAILURE;
  }
  (void)hipMemcpy(in, host.data(), n * sizeof(float), hipMemcpyHostToDevice);
  (void)hipMemset(sum, 0, sizeof(float));

  atomic_sum<<<(n + block - 1) / block, block>>>(in, sum, n);

  float result = 0;
  (void)hipMemcpy(&result, sum, sizeof(float), hipMemcpyDeviceToHost);
  std::cout << std::fixed << "sum " << result << "\n";
  (void)hipFree(in);
  (void)hipFree(sum);
  return result == static_cast<float>(n) ? EXIT_SUCCESS : EXIT_FAILURE;
}
