// c[i] = a[i] over 1,048,576 doubles, three times: the kernel whose counters AMD's own profiler
// tests record on real GPUs. docs/explanation/validation.md compares them.
//
// step: streaming 1 vector_copy
// paradigm: per-thread
// bound: gfx90a hbm, gfx942 launch
// check:
#include <hip/hip_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

__global__ void vector_copy(const double* a, double* c, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] = a[i];
}

int main() {
  constexpr int n = 1 << 20, block = 256, dispatches = 3;
  std::vector<double> host(n), back(n);
  for (int i = 0; i < n; ++i) host[i] = i;
  double *a = nullptr, *c = nullptr;
  if (hipMalloc(&a, n * sizeof(double)) != hipSuccess || hipMalloc(&c, n * sizeof(double)) != hipSuccess) return 1;
  (void)hipMemcpy(a, host.data(), n * sizeof(double), hipMemcpyHostToDevice);
  for (int k = 0; k < dispatches; ++k) vector_copy<<<n / block, block>>>(a, c, n);
  (void)hipMemcpy(back.data(), c, n * sizeof(double), hipMemcpyDeviceToHost);
  const bool same = host == back;
  std::printf("%s\n", same ? "copied" : "wrong");
  return same ? EXIT_SUCCESS : EXIT_FAILURE;
}
