// Kernels shaped like BabelStream's: four streams of doubles, one element per work-item, and a scalar product.
#include <hip/hip_runtime.h>

constexpr int kBlock = 1024;
constexpr double kScalar = 0.4;

#define FOR_EACH(I, N)                                                                                        \
  for (long I = static_cast<long>(blockDim.x) * blockIdx.x + threadIdx.x; I < N; I += static_cast<long>(gridDim.x) * blockDim.x)

extern "C" __global__ void copy(const double* a, double* b, double* c, long n) {
  FOR_EACH(i, n) c[i] = a[i];
}
extern "C" __global__ void mul(const double* a, double* b, double* c, long n) {
  FOR_EACH(i, n) b[i] = kScalar * c[i];
}
extern "C" __global__ void add(const double* a, double* b, double* c, long n) {
  FOR_EACH(i, n) c[i] = a[i] + b[i];
}
extern "C" __global__ void triad(double* a, double* b, double* c, long n) {
  FOR_EACH(i, n) a[i] = b[i] + kScalar * c[i];
}

// Partial sums in the LDS, then a tree reduction.
extern "C" __global__ void __launch_bounds__(kBlock) dot(const double* a, const double* b, double* sums, long n) {
  __shared__ double part[kBlock];
  const int own = threadIdx.x;
  part[own] = 0;
  FOR_EACH(i, n) part[own] += a[i] * b[i];
  for (int width = kBlock / 2; width > 0; width /= 2) {
    __syncthreads();
    if (own < width) part[own] += part[own + width];
  }
  if (own == 0) sums[blockIdx.x] = part[0];
}
