// Kernels of one code object that call a function directly, through a table, and that keep an array of unknown length.
#include <hip/hip_runtime.h>

#include <cstdio>

using Function = float (*)(const float*, int);

// Needs more registers than the kernels that do not call it.
__device__ __noinline__ float heavy(const float* p, int n) {
  float v[96], sum = 0;
#pragma unroll
  for (int i = 0; i < 96; ++i) v[i] = p[i * n];
#pragma unroll
  for (int r = 0; r < 3; ++r)
#pragma unroll
    for (int i = 0; i < 96; ++i) v[i] = v[i] * v[(i * 7 + r) % 96] + sum, sum += v[i];
  return sum;
}
__device__ __noinline__ float light(const float* p, int n) { return p[n]; }
__device__ __noinline__ float twice(const float* p, int n) { return p[n] * 2; }
__device__ Function table[2] = {heavy, light};

__global__ void through_a_pointer(const float* p, float* out, int n) { out[threadIdx.x] = table[n & 1](p, n); }
__global__ void direct(const float* p, float* out, int n) { out[threadIdx.x] = twice(p, n); }
__global__ void with_stack(const float* p, float* out, int n) {
  float* own = static_cast<float*>(__builtin_alloca(n * sizeof(float)));
  for (int i = 0; i < n; ++i) own[i] = p[i] * threadIdx.x;
  float sum = 0;
  for (int i = 0; i < n; ++i) sum += own[i];
  out[threadIdx.x] = sum;
}

int main() {
  float *p, *out, x[4] = {1, 2, 3, 4}, got[3];
  if (hipMalloc(&p, sizeof x) || hipMalloc(&out, 3 * 256)) return 2;
  if (hipMemcpy(p, x, sizeof x, hipMemcpyHostToDevice)) return 2;
  through_a_pointer<<<1, 64>>>(p, out, 3);
  direct<<<1, 64>>>(p, out + 64, 3);
  with_stack<<<1, 64>>>(p, out + 128, 3);
  for (int i = 0; i < 3; ++i)
    if (hipMemcpy(got + i, out + 64 * i + 2, 4, hipMemcpyDeviceToHost)) return 2;
  std::printf("%g %g %g\n", got[0], got[1], got[2]);
}
