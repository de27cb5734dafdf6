// Kernels equivalent to those of the MI300X recordings: nothing, four independent chains of FMA, a five-point stencil.
#include <hip/hip_runtime.h>

extern "C" __global__ void nothing() {}

extern "C" __global__ void fma_chains(float* out, int count) {
  const float start = 1.0f + static_cast<float>(threadIdx.x) * 0.001f;
  float sum[4] = {start, start + 0.1f, start + 0.2f, start + 0.3f};
  for (int i = 0; i < count; i += 4) {
    for (float& one : sum) one = fmaf(one, 1.0000001f, 0.0000001f);
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum[0] + sum[1] + sum[2] + sum[3];
}

extern "C" __global__ void jacobi_2d(const float* __restrict__ from, float* __restrict__ to, int width) {
  const int y = blockIdx.y * blockDim.y + threadIdx.y + 1, x = blockIdx.x * blockDim.x + threadIdx.x + 1;
  if (y >= width - 1 || x >= width - 1) return;
  to[y * width + x] = (from[(y - 1) * width + x] + from[(y + 1) * width + x] + from[y * width + (x - 1)] +
                       from[y * width + (x + 1)] + from[y * width + x]) *
                      0.2f;
}
