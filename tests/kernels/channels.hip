// A transposition whose first work-groups in two sampling units write to the same channels of the L2.
#include <hip/hip_runtime.h>
__global__ void transpose(const float* in, float* out, int w, int h) {
  __shared__ float tile[32][33];
  int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
  for (int k = 0; k < 32; k += 8) tile[threadIdx.y + k][threadIdx.x] = in[(y + k) * w + x];
  __syncthreads();
  int u = blockIdx.y * 32 + threadIdx.x, v = blockIdx.x * 32 + threadIdx.y;
  for (int k = 0; k < 32; k += 8) out[(v + k) * h + u] = tile[threadIdx.x][threadIdx.y + k];
}
int main() {
  const int w = 23680, h = 4096;
  float *in = nullptr, *out = nullptr;
  if (hipMalloc(&in, sizeof(float) * w * h) != hipSuccess) return 1;
  if (hipMalloc(&out, sizeof(float) * w * h) != hipSuccess) return 1;
  transpose<<<dim3(w / 32, h / 32), dim3(32, 8)>>>(in, out, w, h);
  return hipDeviceSynchronize() != hipSuccess;
}
