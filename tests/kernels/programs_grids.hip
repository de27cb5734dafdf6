// Kernels of different kinds whose grids can be made large: what a sampled run is compared on.
#include <hip/hip_runtime.h>

extern "C" __global__ void triad(float* a, const float* b, const float* c, float s, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) a[i] = b[i] + s * c[i];
}
extern "C" __global__ void copy_doubles(double* a, const double* b, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) a[i] = b[i];
}
extern "C" __global__ void strided(float* out, const float* in, int stride, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = in[(size_t)i * stride % n];
}
// Every lane another line: the index is made from the lane's number and from a table that the host fills.
extern "C" __global__ void gather(float* out, const int* index, const float* in, int mask) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = in[(index[i & 4095] + i * 40503) & mask];
}
extern "C" __global__ void stencil(float* out, const float* in, int width, int height) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x < 1 || y < 1 || x >= width - 1 || y >= height - 1) return;
  const size_t i = (size_t)y * width + x;
  out[i] = 0.2f * (in[i] + in[i - 1] + in[i + 1] + in[i - width] + in[i + width]);
}
extern "C" __global__ void transpose(float* out, const float* in, int n) {
  __shared__ float tile[32][33];
  const int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
  for (int j = 0; j < 32; j += 8) tile[threadIdx.y + j][threadIdx.x] = in[(size_t)(y + j) * n + x];
  __syncthreads();
  const int u = blockIdx.y * 32 + threadIdx.x, v = blockIdx.x * 32 + threadIdx.y;
  for (int j = 0; j < 32; j += 8) out[(size_t)(v + j) * n + u] = tile[threadIdx.x][threadIdx.y + j];
}
extern "C" __global__ void gemm_tile(float* c, const float* a, const float* b, int n) {
  __shared__ float as[16][16], bs[16][16];
  const int tx = threadIdx.x, ty = threadIdx.y, row = blockIdx.y * 16 + ty, col = blockIdx.x * 16 + tx;
  float sum = 0;
  for (int t = 0; t < n / 16; ++t) {
    as[ty][tx] = a[(size_t)row * n + t * 16 + tx];
    bs[ty][tx] = b[(size_t)(t * 16 + ty) * n + col];
    __syncthreads();
    for (int k = 0; k < 16; ++k) sum += as[ty][k] * bs[k][tx];
    __syncthreads();
  }
  c[(size_t)row * n + col] = sum;
}
extern "C" __global__ void gemm_naive(float* c, const float* a, const float* b, int n) {
  const int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
  float sum = 0;
  for (int k = 0; k < n; ++k) sum += a[(size_t)row * n + k] * b[(size_t)k * n + col];
  c[(size_t)row * n + col] = sum;
}
extern "C" __global__ void reduce(float* out, const float* in, int n) {
  __shared__ float part[256];
  float sum = 0;
  for (int i = blockIdx.x * 512 + threadIdx.x; i < n && i < (int)(blockIdx.x + 1) * 512; i += 256) sum += in[i];
  part[threadIdx.x] = sum;
  __syncthreads();
  for (int s = 128; s > 0; s /= 2) {
    if ((int)threadIdx.x < s) part[threadIdx.x] += part[threadIdx.x + s];
    __syncthreads();
  }
  if (threadIdx.x == 0) out[blockIdx.x] = part[0];
}
extern "C" __global__ void scan(int* out, const int* in) {
  __shared__ int part[2][256];
  const int t = threadIdx.x, i = blockIdx.x * 256 + t;
  int from = 0;
  part[0][t] = in[i];
  for (int s = 1; s < 256; s *= 2) {
    __syncthreads();
    part[1 - from][t] = part[from][t] + (t >= s ? part[from][t - s] : 0);
    from = 1 - from;
  }
  out[i] = part[from][t];
}
extern "C" __global__ void histogram(int* bins, const int* in) {
  __shared__ int part[256];
  part[threadIdx.x] = 0;
  __syncthreads();
  for (int k = 0; k < 4; ++k) {
    const int i = (blockIdx.x * 4 + k) * 256 + threadIdx.x;
    atomicAdd(&part[(in[i] + i * 7) & 255], 1);
  }
  __syncthreads();
  atomicAdd(&bins[threadIdx.x], part[threadIdx.x]);
}
// Some lanes loop longer than others, and how long depends on where the work-group is.
extern "C" __global__ void divergent(float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned state = i * 2654435761u;
  float x = 0;
  for (int k = 0; k < (int)(state >> 27) + 4; ++k) x = x * 1.5f + 1;
  if (state & 1024) x += out[(i * 17) & (n - 1)];
  out[i] = x;
}
// Work-group g does work in proportion to g.
extern "C" __global__ void triangle(float* out, const float* in, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  float sum = 0;
  for (int k = 0; k < (int)(blockIdx.x * 16 / gridDim.x) + 1; ++k) sum += in[(i + k * 4096) & (n - 1)];
  out[i] = sum;
}
// Work-groups beyond the first part leave at once.
extern "C" __global__ void early_exit(float* out, const float* in, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  out[i] = in[i] * 2 + in[n - 1 - i];
}

// One wavefront a group; all groups add to one number when they end.
extern "C" __global__ void wave_total(float* total, const float* in, int n) {
  float sum = 0;
  for (int i = blockIdx.x * 64 + threadIdx.x; i < n; i += gridDim.x * 64) sum += in[i];
  for (int step = 32; step; step /= 2) sum += __shfl_down(sum, step);
  if (threadIdx.x == 0) atomicAdd(total, sum);
}
