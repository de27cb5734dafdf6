// Streaming kernels shaped like those whose counters were recorded on AMD GPUs (recorded/vcopy.toml, streams.toml).
#include <hip/hip_runtime.h>

extern "C" __global__ void copy_f64(double* a, double* b, double* c, int n, int stride) {
  int id = blockIdx.x * blockDim.x + threadIdx.x;
  if (id < n) c[id] = a[id];
}

// A read-only stream: reads eight elements one block width apart, combines them, and never writes.
template <class T>
__device__ void mix(T seed, T* data) {
  T part[8], sum = T(0);
  int first = blockIdx.x * blockDim.x * 8 + threadIdx.x;
  for (int j = 0; j < 8; ++j) part[j] = data[first + j * 256];
  for (int j = 0; j < 8; j += 2) sum += part[j] * part[j + 1] + seed;
  if (sum == T(-1)) data[first] = sum;
}
extern "C" __global__ void mix_float(float seed, float* data) { mix(seed, data); }
extern "C" __global__ void mix_double(double seed, double* data) { mix(seed, data); }
extern "C" __global__ void mix_int(int seed, int* data) { mix(seed, data); }
extern "C" __global__ void fill(double* data, double value) { data[blockIdx.x * blockDim.x + threadIdx.x] = value; }
