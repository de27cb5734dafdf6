// A read-only stream with a ladder of fused multiply-adds per element: from bandwidth-bound to
// compute-bound in eight kernels, so that the roofline's knee shows.
//
// step: roofline 1 fma_ladder
// paradigm: per-thread
// bound: gfx90a valu, gfx942 valu
// check:
#include <hip/hip_runtime.h>

#include <cstdio>
#include <cstdlib>

template <int Steps>
__global__ void fma_ladder(const float* in, float* out, int n, float seed) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  float x = in[i];
#pragma unroll
  for (int k = 0; k < Steps; ++k) x = x * x + seed;
  if (x == -1.0f) out[i] = x;  // never true: keeps the chain alive without a store stream
}

template <int Steps>
void launch(const float* in, float* out, int n) {
  constexpr int block = 256;
  fma_ladder<Steps><<<n / block, block>>>(in, out, n, 0.25f);
}

int main() {
  constexpr int n = 1 << 20;
  float *in = nullptr, *out = nullptr;
  if (hipMalloc(&in, n * sizeof(float)) != hipSuccess || hipMalloc(&out, n * sizeof(float)) != hipSuccess) return 1;
  (void)hipMemset(in, 0, n * sizeof(float));
  launch<1>(in, out, n);
  launch<4>(in, out, n);
  launch<16>(in, out, n);
  launch<32>(in, out, n);
  launch<64>(in, out, n);
  launch<128>(in, out, n);
  launch<256>(in, out, n);
  launch<512>(in, out, n);
  const bool ok = hipDeviceSynchronize() == hipSuccess;
  std::printf("%s\n", ok ? "ok" : "failed");
  return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
