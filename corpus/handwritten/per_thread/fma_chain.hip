// One work-item per element, a short dependency chain, thrust for the host side
// (the shape of the paper's Listing 1).
//
// step: per_thread 1 fma_chain
// paradigm: per-thread
// bound: gfx90a launch, gfx942 launch
// check:
#include <hip/hip_runtime.h>
#include <thrust/device_vector.h>

#include <cstdlib>
#include <iostream>

__global__ void fma_chain(const double* in, double* out) {
  const auto i = threadIdx.x + blockIdx.x * blockDim.x;
  const auto x = in[i];
  const auto y = x * x + x;
  out[i] = y;
}

int main() {
  constexpr std::size_t elements = 102400;  // a multiple of the block size: no bounds check is needed
  constexpr std::size_t block = 256;
  thrust::device_vector<double> in(elements, 1.0);
  thrust::device_vector<double> out(elements, 0.0);

  fma_chain<<<(elements + block - 1) / block, block>>>(in.data().get(), out.data().get());
  if (hipDeviceSynchronize() != hipSuccess) {
    std::cout << "launch failed\n";
    return EXIT_FAILURE;
  }
  const double first = out[0], last = out[elements - 1];
  std::cout << first << " " << last << "\n";
  return first == 2.0 && last == 2.0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
