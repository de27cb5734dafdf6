// Four elements per work-item in 16-byte pieces: the same bytes with a quarter of the wavefronts and loads.
//
// step: elementwise 3 elementwise_vectorised, after elementwise_fused
// paradigm: per-thread
// bound: gfx90a hbm, gfx942 infinity
// moves: SQ_INSTS_VMEM_RD down, SQ_WAVES down, SQ_INSTS down
// check: 10000
#include <hip/hip_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

__device__ __host__ inline float op(float x, float b) {
  float t = 1.25f * x + b;
  t = t > 0 ? t : 0;
  return t * t;
}

__global__ void fused4(const float4* __restrict__ x, const float4* __restrict__ b, float4* __restrict__ y, int n4) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n4) return;
  const float4 u = x[i], v = b[i];
  y[i] = make_float4(op(u.x, v.x), op(u.y, v.y), op(u.z, v.z), op(u.w, v.w));
}

int main(int argc, char** argv) {
  const int n = argc > 1 ? atoi(argv[1]) : 1 << 24;  // a multiple of four
  const size_t bytes = n * sizeof(float);
  float *x = new float[n], *b = new float[n], *y = new float[n];
  for (int i = 0; i < n; i++) x[i] = (i % 17) - 8, b[i] = (i % 4);
  float4 *dx, *db, *dy;
  if (hipMalloc((void**)&dx, bytes) != hipSuccess) exit(1);
  if (hipMalloc((void**)&db, bytes) != hipSuccess) exit(1);
  if (hipMalloc((void**)&dy, bytes) != hipSuccess) exit(1);
  (void)hipMemcpy(dx, x, bytes, hipMemcpyHostToDevice);
  (void)hipMemcpy(db, b, bytes, hipMemcpyHostToDevice);
  hipLaunchKernelGGL(fused4, dim3((n / 4 + 255) / 256), dim3(256), 0, 0, dx, db, dy, n / 4);
  (void)hipMemcpy(y, dy, bytes, hipMemcpyDeviceToHost);
  int bad = 0;
  for (int i = 0; i < n; i++) bad += y[i] != op(x[i], b[i]);
  printf("%s\n", bad ? "FAIL" : "PASS");
  (void)hipFree(dx);
  (void)hipFree(db);
  (void)hipFree(dy);
  delete[] x;
  delete[] b;
  delete[] y;
  return bad != 0;
}
