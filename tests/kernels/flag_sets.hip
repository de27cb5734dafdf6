// One kernel for each thing that a flag set of profiling/matrix/matrix.toml changes.
#include <hip/hip_runtime.h>

__global__ void rounding(float* y, const float* x, float a, float b) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = (x[i] * a + b) / sqrtf(x[i]);  // contraction, division, square root, denormals
}

__global__ void atomics(float* sums, float* largest, const float* x) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  atomicAdd(&sums[i & 7], x[i]);
  atomicMax(&largest[i & 7], x[i]);
}

// -O3 passes the number itself and not its address, which -O2 does.
static __device__ __attribute__((noinline)) float by_reference(const float& value) { return value * value + 1.0f; }

__global__ void calls(float* y, const float* x) {
  const float own = x[threadIdx.x];
  y[threadIdx.x] = by_reference(own) + by_reference(x[threadIdx.x + 1]);
}

__global__ void loops(int* y, const int* x, int n) {
  __shared__ int tile[256];
  const int i = threadIdx.x;
  int sum = 0;
  for (int k = 0; k < 40; ++k) sum = (sum ^ x[i + k * n]) * 3 + (sum >> 2);
  tile[i] = sum;
  __syncthreads();
  for (int k = 0; k < n; ++k) sum += tile[(i + k) & 255];
  y[i] = sum;
}

__global__ void registers(float* y, const float* x, int n) {
  float held[96];
#pragma unroll
  for (int k = 0; k < 96; ++k) held[k] = x[threadIdx.x + k * n];
  __syncthreads();
#pragma unroll
  for (int k = 0; k < 96; ++k) y[threadIdx.x * 96 + k] = held[95 - k] * held[k];
}

int main() { return 0; }
