// Kernels of test_repeated_launches.py, which launches each several times with the same arguments.
#include <hip/hip_runtime.h>

__device__ int item() { return blockIdx.x * blockDim.x + threadIdx.x; }

extern "C" __global__ void twice(const float* a, float* b) { b[item()] = a[item()] * 2; }
extern "C" __global__ void bump(float* a) { a[item()] += 1; }
extern "C" __global__ void gather(const int* index, const float* a, float* b) { b[item()] = a[index[item()]]; }
extern "C" __global__ void scatter(const int* index, float* a) { a[index[item()] & 65535] = item(); }
extern "C" __global__ void histogram(const int* in, int* bins) { atomicAdd(&bins[in[item()] & 255], 1); }
extern "C" __global__ void add_floats(const float* a, float* sum) { atomicAdd(&sum[item() & 63], a[item()]); }
extern "C" __global__ void chase(const int* next, int* out, int steps) {
  int at = item();
  for (int i = 0; i < steps; ++i) at = next[at];
  out[item()] = at;
}
// Every launch reaches one work-item further.
extern "C" __global__ void spread(int* reached) {
  int i = item();
  if (reached[i] == 1) {
    reached[i] = 2;
    reached[i + 1] = 1;
    for (int k = 0; k < 64; ++k) reached[i] += reached[k] & 1;
  }
}
// How long a work-item runs is decided through the LDS.
extern "C" __global__ void turns(const int* counts, float* out) {
  __shared__ int shared[256];
  shared[threadIdx.x] = counts[item()] & 15;
  __syncthreads();
  float sum = 0;
  for (int i = 0; i < shared[255 - threadIdx.x]; ++i) sum = sum * 1.5f + 1;
  out[item()] = sum;
}
extern "C" __global__ void timed(unsigned* out) { out[item()] = static_cast<unsigned>(clock64()); }
__device__ int limit = 3;
extern "C" __global__ void up_to_limit(float* out) {
  for (int i = 0; i < limit; ++i) out[item() + 65536 * i] = i;
}
