// A grid-stride loop: a fixed grid walks over any number of elements
// (the shape of the paper's Listing 3).
//
// step: grid_stride 1 vector_add
// paradigm: per-thread
// bound: gfx90a hbm, gfx942 hbm
// check:
#include <hip/hip_runtime.h>
#include <thrust/device_vector.h>

#include <cstdlib>
#include <iostream>

__global__ void vector_add(const double* a, const double* b, double* sum, std::size_t count) {
  const std::size_t stride = blockDim.x * gridDim.x;
  for (std::size_t i = threadIdx.x + blockIdx.x * blockDim.x; i < count; i += stride) {
    sum[i] = a[i] + b[i];
  }
}

int main() {
  constexpr std::size_t count = 1'000'000;
  constexpr std::size_t block = 512, blocks = 1024;
  thrust::device_vector<double> a(count, 1.0), b(count, 3.0), sum(count);

  vector_add<<<blocks, block>>>(a.data().get(), b.data().get(), sum.data().get(), count);

  if (hipDeviceSynchronize() != hipSuccess || sum[0] != 4.0 || sum[count - 1] != 4.0) {
    std::cout << "wrong sum\n";
    return EXIT_FAILURE;
  }
  std::cout << "ok\n";
  return EXIT_SUCCESS;
}
