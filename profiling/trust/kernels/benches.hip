// Kernels of the shape of those whose speed RRZE's gpu-benches recorded: streams, cache sweeps, a pointer chase, strides.
#include <hip/hip_runtime.h>

__device__ int item() { return blockIdx.x * blockDim.x + threadIdx.x; }

extern "C" __global__ void stream_init(double* a, const double* b, const double* c, const double* d, int n) {
  const int i = item();
  if (i < n) a[i] = 0.5;
}
extern "C" __global__ void stream_read(double* a, const double* b, const double* c, const double* d, int n) {
  const int i = item();
  if (i >= n) return;
  const double value = b[i];
  if (value == 7.0) a[i] = value;  // never: the memory holds zeros
}
extern "C" __global__ void stream_scale(double* a, const double* b, const double* c, const double* d, int n) {
  const int i = item();
  if (i < n) a[i] = 3.0 * b[i];
}
extern "C" __global__ void stream_triad(double* a, const double* b, const double* c, const double* d, int n) {
  const int i = item();
  if (i < n) a[i] = c[i] + b[i] * d[i];
}
extern "C" __global__ void stream_3pt(double* a, const double* b, const double* c, const double* d, int n) {
  const int i = item();
  if (i > 0 && i < n - 1) a[i] = 0.5 * (b[i - 1] + b[i + 1]) - b[i];
}
extern "C" __global__ void stream_5pt(double* a, const double* b, const double* c, const double* d, int n) {
  const int i = item();
  if (i > 1 && i < n - 2) a[i] = 0.25 * (b[i - 2] + b[i - 1]) + 0.5 * (b[i + 1] + b[i + 2]) - b[i];
}

// The same over a buffer of `n` elements that the grid walks through again and again; n = 2^32 / inverse, nearly.
__device__ int wrapped(unsigned n, unsigned inverse) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  const unsigned rest = i - __umulhi(i, inverse) * n;
  return rest < n ? rest : rest - n;
}
extern "C" __global__ void wrapped_read(double* a, const double* b, const double* c, const double* d, unsigned n,
                                        unsigned inverse) {
  const int i = wrapped(n, inverse);
  const double value = b[i];
  if (value == 7.0) a[i] = value;
}
extern "C" __global__ void wrapped_scale(double* a, const double* b, const double* c, const double* d, unsigned n,
                                         unsigned inverse) {
  const int i = wrapped(n, inverse);
  a[i] = 3.0 * b[i];
}
extern "C" __global__ void wrapped_triad(double* a, const double* b, const double* c, const double* d, unsigned n,
                                         unsigned inverse) {
  const int i = wrapped(n, inverse);
  a[i] = c[i] + b[i] * d[i];
}
extern "C" __global__ void wrapped_write(double* a, const double* b, const double* c, const double* d, unsigned n,
                                         unsigned inverse) {
  a[wrapped(n, inverse)] = 0.5;
}

// Every work-group reads the same two arrays of kSteps times its width float4 over and over, sixteen loads at a time.
template <int kSteps>
__device__ void sweep(float4* out, const float4* data, int rounds, int zero) {
  constexpr int kPairs = 8, kRounds = kSteps < kPairs ? kPairs / kSteps : 1, kBatches = kRounds * kSteps / kPairs;
  float x = 0, y = 0, z = 0, w = 0;
  const float4* first = data + threadIdx.x;
  const int width = blockDim.x;
#pragma unroll 1
  for (int round = 0; round < rounds; round += kRounds) {
    first += zero;  // the compiler must not see that every round reads the same
#pragma unroll
    for (int batch = 0; batch < kBatches; ++batch) {
      float4 left[kPairs], right[kPairs];
#pragma unroll
      for (int i = 0; i < kPairs; ++i) {
        const float4* at = first + (batch * kPairs + i) % kSteps * width + i / kSteps * zero;
        left[i] = at[0];
        right[i] = at[kSteps * width];
      }
      __builtin_amdgcn_sched_barrier(0);
#pragma unroll
      for (int i = 0; i < kPairs; ++i) {
        x += left[i].x * right[i].x;
        y += left[i].y * right[i].y;
        z += left[i].z * right[i].z;
        w += left[i].w * right[i].w;
      }
    }
  }
  if (x + y + z + w == 7.0f) out[threadIdx.x] = float4{x, y, z, w};
}
#define SWEEP_OF(STEPS)                                                                                          \
  extern "C" __global__ void sweep_##STEPS(float4* out, const float4* data, int rounds, int zero) {              \
    sweep<STEPS>(out, data, rounds, zero);                                                                       \
  }
SWEEP_OF(1)
SWEEP_OF(2)
SWEEP_OF(4)
SWEEP_OF(8)

// Work-group g reads part g % parts: `steps` pairs of tiles of doubles, a block wide each.
extern "C" __global__ void shared_parts(double* out, const double* data, int parts, int steps) {
  double sum = 0;
  const size_t width = blockDim.x;
  const double* first = data + (blockIdx.x % parts) * width * 2 + threadIdx.x;
#pragma unroll 8
  for (int i = 0; i < steps; ++i) sum += first[2 * width * parts * i] * first[2 * width * parts * i + width];
  if (sum == 7.0) out[threadIdx.x] = sum;
}

// Each element holds the address of the next one.
extern "C" __global__ void chase(void** out, void** start, int steps) {
  void** at = start;
#pragma unroll 1
  for (int i = 0; i < steps; i += 32) {
#pragma unroll
    for (int k = 0; k < 32; ++k) at = static_cast<void**>(*at);
  }
  if (threadIdx.x > 64) out[0] = at;
}

template <class T>
__device__ void eight_loads(const T* at, T* out, int rounds, int zero) {
  T sum = 0;
#pragma unroll 1
  for (int round = 0; round < rounds; ++round) {
    at += zero;
    for (int k = 0; k < 32; k += 8) sum += at[k] * at[k + 4];
  }
  if (sum == T(7)) out[threadIdx.x] = sum;
}
extern "C" __global__ void strided_float(const float* data, float* out, int rounds, int zero, int stride) {
  eight_loads(data + threadIdx.x % 64 * stride, out, rounds, zero);
}
extern "C" __global__ void strided_double(const double* data, double* out, int rounds, int zero, int stride) {
  eight_loads(data + threadIdx.x % 64 * stride, out, rounds, zero);
}
extern "C" __global__ void tiled_float(const float* data, float* out, int rounds, int zero, int pitch) {
  eight_loads(data + pitch + threadIdx.x % 64 + threadIdx.y % 32 * pitch, out, rounds, zero);
}
extern "C" __global__ void tiled_double(const double* data, double* out, int rounds, int zero, int pitch) {
  eight_loads(data + pitch + threadIdx.x % 64 + threadIdx.y % 32 * pitch, out, rounds, zero);
}
