// Kernels of long work-groups that do, or nearly do, the same at other addresses.
#include <hip/hip_runtime.h>

// The same everywhere; lanes, vectors, scalar branches, the LDS with conflicts, stores that do not allocate, barriers.
extern "C" __global__ void alike(float4* out, const float4* in, const float* weights, int turns) {
  __shared__ float part[64 * 33];
  float sum = 0;
  const size_t base = (size_t)(blockIdx.y * gridDim.x + blockIdx.x) * turns * 256;
  for (int t = 0; t < turns; ++t) {
    const float4 v = in[base + t * 256 + threadIdx.x];
    part[threadIdx.x % 64 * 33] = v.x + v.w;
    __syncthreads();
    if (threadIdx.x % 3 == 0) sum += part[threadIdx.x % 64 * 33] + weights[threadIdx.x / 3 + t];
    __syncthreads();
  }
  out[(size_t)(blockIdx.y * gridDim.x + blockIdx.x) * 256 + threadIdx.x] = {sum, sum, sum, sum};
}
// One column of work-groups has less to do.
extern "C" __global__ void bounded(float4* out, const float4* in, const float* weights, int turns) {
  float sum = 0;
  const int column = blockIdx.x * 256 + threadIdx.x, columns = gridDim.x * 256 - 100;
  if (column >= columns) return;
  for (int t = 0; t < turns; ++t) sum += in[(size_t)(blockIdx.y * turns + t) * columns + column].y;
  out[(size_t)blockIdx.y * columns + column].x = sum + weights[0];
}
// A line of work-groups, cut up as products do it so that neighbours share rows: four digits of its number.
extern "C" __global__ void cut_up(float4* out, const float4* in, const float* weights, int turns) {
  const int group = blockIdx.y * gridDim.x + blockIdx.x, moved = group % 8 * (gridDim.x * gridDim.y / 8) + group / 8;
  const int row = moved / 80 * 8 + moved % 8, column = moved % 80 / 8;
  float sum = 0;
  for (int t = 0; t < turns; ++t) {
    sum += in[((size_t)row * turns + t) * 256 + threadIdx.x].z * in[((size_t)column * turns + t) * 256 + threadIdx.x].x;
  }
  out[((size_t)row * 10 + column) * 256 + threadIdx.x].x = sum + weights[0];
}
// Where a work-group reads is no even function of any digits of its number.
extern "C" __global__ void scattered(float4* out, const float4* in, const float* weights, int turns) {
  float sum = 0;
  const int group = (blockIdx.y * gridDim.x + blockIdx.x) * 40503 % 1021;
  for (int t = 0; t < turns; ++t) sum += in[((size_t)group * turns + t) * 256 + threadIdx.x].z;
  out[(size_t)group * 256 + threadIdx.x].x = sum + weights[0];
}
// Where a work-group reads next is what it has just read.
extern "C" __global__ void chased(float4* out, const float4* in, const float* weights, int turns) {
  int at = threadIdx.x;
  for (int t = 0; t < turns; ++t) at = (int)in[at].x * 256 + threadIdx.x;
  out[blockIdx.x * 256 + threadIdx.x].x = at + weights[0];
}
// How long a work-group runs depends on its number.
extern "C" __global__ void uneven(float4* out, const float4* in, const float* weights, int turns) {
  float sum = 0;
  for (int t = 0; t < turns - (int)(blockIdx.x % 3); ++t) sum += in[(size_t)t * 256 + threadIdx.x].w;
  out[blockIdx.x * 256 + threadIdx.x].x = sum + weights[0];
}
