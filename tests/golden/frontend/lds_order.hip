// Several LDS arrays of one size: the back end lays them out by mangled name, so a rename must keep their order.
#include <hip/hip_runtime.h>
#include <cstdio>

__device__ float helperSum(float v) {
  __shared__ float zebra[64];
  __shared__ float apple[64];
  zebra[threadIdx.x] = v;
  apple[threadIdx.x] = v * 2.0f;
  __syncthreads();
  return zebra[63 - threadIdx.x] + apple[(threadIdx.x + 1) % 64];
}

__global__ void secondKernel(float* out) {
  __shared__ float mango[64];
  __shared__ float kiwi[64];
  __shared__ int fig[64];
  const int t = threadIdx.x;
  mango[t] = t;
  kiwi[t] = 3 * t;
  fig[t] = 7 * t;
  __syncthreads();
  out[t] = mango[63 - t] + kiwi[(t + 5) % 64] + fig[(t + 9) % 64] + helperSum(t);
}

__global__ void firstKernel(float* out, int n) {
  extern __shared__ float dyn[];
  __shared__ float b_tile[64];
  __shared__ float a_tile[64];
  const int t = threadIdx.x;
  dyn[t] = n;
  b_tile[t] = out[t];
  a_tile[t] = out[t] * 0.5f;
  __syncthreads();
  out[t] = dyn[t ^ 1] + b_tile[63 - t] + a_tile[(t + 17) % 64];
}

int main() {
  float* d = nullptr;
  float h[64];
  if (hipMalloc(&d, sizeof(h)) != hipSuccess) return 1;
  secondKernel<<<1, 64>>>(d);
  firstKernel<<<1, 64, 64 * sizeof(float)>>>(d, 3);
  if (hipMemcpy(h, d, sizeof(h), hipMemcpyDeviceToHost) != hipSuccess) return 1;
  double total = 0;
  for (float x : h) total += x;
  printf("%.1f\n", total);
  return hipFree(d) != hipSuccess;
}
