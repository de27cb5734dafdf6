// Kernels equivalent to those of the micro-benchmark recordings: same loops, launch shapes and access order.
// `turns`: of the loop, or fewer when the time is extrapolated.
#include <hip/hip_runtime.h>

__device__ int item() { return blockIdx.x * blockDim.x + threadIdx.x; }

extern "C" __global__ void atomic_adds(int* counters, int count, int turns) {
  const int at = item();
  for (int i = 0; i < turns; ++i) atomicAdd(&counters[at % count], 1);
}

// The lanes of a wave below `threshold` take one branch, the others the other.
extern "C" __global__ void two_branches(float* data, int count, int threshold, int turns) {
  const int at = item();
  if (at >= count) return;
  float value = data[at];
  if (at % 64 < threshold) {
    for (int i = 0; i < turns; ++i) {
      value = value * 1.0001f + 0.9999f;
      value = value * 0.9999f + 1.0001f;
      value = value * 1.0001f + 0.9999f;
      value = value * 0.9999f + 1.0001f;
    }
  } else {
    for (int i = 0; i < turns; ++i) {
      value = value + 0.0001f;
      value = value * 1.0001f;
      value = value + 0.0001f;
      value = value * 1.0001f;
    }
  }
  data[at] = value;
}

// Four dependent operations per turn.
template <typename T>
__device__ void dependent_adds(int turns, T* out, T scale, T factor, T addend) {
  T a = static_cast<T>(item() + 1) * scale, b = factor;
  const T c = addend;
  for (int i = 0; i < turns; ++i) {
    a = a * b + c;
    b = b * a + c;
    a = a * c + b;
    b = b * c + a;
  }
  if (a == static_cast<T>(-999)) out[item()] = a + b;
}
extern "C" __global__ void fma_float(int turns, float* out) { dependent_adds(turns, out, 1.0001f, 1.0001f, 0.9999f); }
extern "C" __global__ void fma_double(int turns, double* out) {
  dependent_adds(turns, out, 1.00000000001, 1.00000000001, 0.99999999999);
}
extern "C" __global__ void multiply_add_int(int turns, int* out) { dependent_adds(turns, out, 1, 3, 7); }

extern "C" __global__ void sines(int turns, float* out) {
  float value = static_cast<float>(item() + 1) * 0.0001f;
  for (int i = 0; i < turns; ++i) value = sinf(sinf(sinf(sinf(value))));
  if (value == -999.0f) out[item()] = value;
}

extern "C" __global__ void copied(const float* from, float* to, int count) {
  const int at = item();
  if (at < count) to[at] = from[at];
}

// Each work-item walks through the same small array, from an element of its own.
extern "C" __global__ void cached_reads(const float* data, float* out, int length, int turns, int stride, int count) {
  const int at = item();
  if (at >= count) return;
  float sum = 0;
  int from = at % length;
  for (int i = 0; i < turns; ++i) {
    sum += data[from];
    from = (from + stride) % length;
  }
  out[at] = sum;
}

// Every lane follows the chain from its own element.
extern "C" __global__ void chase_lanes(const int* next, int length, int hops, long long* cycles) {
  const int at = item();
  int here = at % length;
  const long long start = clock64();
  for (int i = 0; i < hops; ++i) here = next[here];
  cycles[at] = clock64() - start;
  if (here == -999) cycles[at] = here;
}

extern "C" __global__ void fma_with_lds(float* data, int count, int turns) {
  extern __shared__ float part[];
  const int at = item();
  if (threadIdx.x == 0) part[0] = 1.0f;
  __syncthreads();
  if (at < count) {
    float value = data[at];
    const float a = 1.00001f, b = 0.99999f;
    for (int i = 0; i < turns; ++i) {
      value = value * a + b;
      value = value * b + a;
      value = value * a + b;
      value = value * b + a;
    }
    data[at] = value + part[0] * 0.0f;
  }
}

extern "C" __global__ void lds_turns(const float* from, float* to, int count, int stride, int turns) {
  extern __shared__ float part[];
  const int at = item(), own = threadIdx.x, size = blockDim.x;
  part[own] = at < count ? from[at] : 0.0f;
  __syncthreads();
  float sum = 0;
  for (int i = 0; i < turns; ++i) {
    sum += part[(own * stride) % size];
    __syncthreads();
    part[own] = sum;
    __syncthreads();
  }
  if (at < count) to[at] = sum;
}
