// Kernels of sim_speed.py, one for each path of the simulator that matters.
#include <hip/hip_runtime.h>

typedef _Float16 half_pair __attribute__((ext_vector_type(2)));
typedef _Float16 half_quad __attribute__((ext_vector_type(4)));
typedef float float_16 __attribute__((ext_vector_type(16)));

// Packed f32 multiply-adds, nothing else.
extern "C" __global__ void alu(float* out, int n) {
  float x = threadIdx.x, y = 0.5f, z = 1.5f, w = 2.5f;
  for (int i = 0; i < n; ++i) {
    x = x * 0.99f + 0.1f; y = y * 0.98f + 0.2f; z = z * 0.97f + 0.3f; w = w * 0.96f + 0.4f;
    x = x * 0.95f + 0.1f; y = y * 0.94f + 0.2f; z = z * 0.93f + 0.3f; w = w * 0.92f + 0.4f;
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = x + y + z + w;
}
// 32-bit and 64-bit integers, shifts, compares and selects.
extern "C" __global__ void integers(float* out, int n) {
  unsigned a = threadIdx.x, b = blockIdx.x;
  unsigned long long c = a;
  for (int i = 0; i < n; ++i) {
    a = (a ^ (a << 13)) + b;
    b = a > b ? b + 7 : (a >> 3) * 5;
    c = (c << 3) + a;
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = a + b + (unsigned)(c >> 32);
}
// Half of the lanes are off.
extern "C" __global__ void some_lanes(float* out, int n) {
  float x = threadIdx.x, y = 1;
  if (threadIdx.x & 1) {
    for (int i = 0; i < n; ++i) {
      x = __builtin_fmaf(x, y, 1.0f);
      y = x > 9.0f ? y - x : x * y;
    }
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = x + y;
}
extern "C" __global__ void halves(float* out, int n) {
  half_pair x = {(_Float16)threadIdx.x, 1}, y = {(_Float16)0.5f, (_Float16)0.25f};
  for (int i = 0; i < n; ++i) x = __builtin_elementwise_fma(x, y, y) + y;
  out[blockIdx.x * blockDim.x + threadIdx.x] = x[0] + x[1];
}
extern "C" __global__ void transcendental(float* out, int n) {
  float x = threadIdx.x;
  for (int i = 0; i < n; ++i) x = __builtin_amdgcn_exp2f(__builtin_amdgcn_sinf(x)) + __builtin_amdgcn_rsqf(x);
  out[blockIdx.x * blockDim.x + threadIdx.x] = x;
}
extern "C" __global__ void matrix(float* out, int n) {
  float_16 sum = {};
  half_quad a = {1, 2, 3, 4};
  for (int i = 0; i < n; ++i) sum = __builtin_amdgcn_mfma_f32_32x32x8f16(a, a, sum, 0, 0, 0);
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum[0];
}
extern "C" __global__ void lds(float* out, int n) {
  __shared__ float tile[512];
  float x = threadIdx.x;
  for (int i = 0; i < n; ++i) {
    tile[threadIdx.x] = x;
    __syncthreads();
    x += tile[(threadIdx.x + 1) & 255] * tile[(threadIdx.x * 2) & 255];
    __syncthreads();
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = x;
}
// As streaming kernels are: one element of eight bytes per work-item, once.
extern "C" __global__ void streaming(const double* a, double* c, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] = a[i];
}
extern "C" __global__ void vector_add(const float* a, const float* b, float* c, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i];
}
