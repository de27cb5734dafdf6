// Half-precision tensors, packed arithmetic on eight elements at a time, and a grid of resident work-groups that walks
// over them: half the bytes, and a launch that does not grow with n.
//
// step: elementwise 4 elementwise_persistent_half, after elementwise_vectorised
// paradigm: persistent
// bound: gfx90a hbm, gfx942 hbm
// moves: FETCH_SIZE down, SQ_WAVES down, Duration down
// check: 80000
#include <hip/hip_runtime.h>

#include <cstdlib>
#include <iostream>
#include <vector>

typedef _Float16 half8 __attribute__((ext_vector_type(8)));

__global__ __launch_bounds__(256) void fused8(const half8* x, const half8* b, half8* y, _Float16 a, int n8) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n8; i += gridDim.x * blockDim.x) {
    half8 t = a * x[i] + b[i];
    t = __builtin_elementwise_max(t, half8{});
    y[i] = t * t;
  }
}

struct Halves {
  std::vector<_Float16> host;
  half8* device = nullptr;
  explicit Halves(int n) : host(n) {
    if (hipMalloc(&device, n * sizeof(_Float16)) != hipSuccess) std::exit(2);
  }
  ~Halves() { (void)hipFree(device); }
};

int main(int argc, char** argv) {
  const int n = argc > 1 ? std::atoi(argv[1]) : 1 << 24;  // a multiple of eight
  Halves x(n), b(n), y(n);
  for (int i = 0; i < n; ++i) {
    x.host[i] = static_cast<_Float16>(i % 21 - 10);
    b.host[i] = static_cast<_Float16>(i % 3);
  }
  (void)hipMemcpy(x.device, x.host.data(), n * 2, hipMemcpyHostToDevice);
  (void)hipMemcpy(b.device, b.host.data(), n * 2, hipMemcpyHostToDevice);
  hipDeviceProp_t device;
  if (hipGetDeviceProperties(&device, 0) != hipSuccess) return 2;
  fused8<<<device.multiProcessorCount * 8, 256>>>(x.device, b.device, y.device, static_cast<_Float16>(2), n / 8);
  (void)hipMemcpy(y.host.data(), y.device, n * 2, hipMemcpyDeviceToHost);
  bool same = true;
  for (int i = 0; i < n; ++i) {
    const int t = 2 * (i % 21 - 10) + i % 3;
    same &= static_cast<float>(y.host[i]) == static_cast<float>(t > 0 ? t * t : 0);
  }
  std::cout << (same ? "PASS" : "FAIL") << std::endl;
  return same ? 0 : 1;
}
