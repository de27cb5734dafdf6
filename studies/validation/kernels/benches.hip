// Kernels shaped like those recorded with RRZE's gpu-benches: streams, cache sweeps, a pointer chase, strides.
#include <hip/hip_runtime.h>

// A recorded stream loads the length first, then a flag that is never set, then arrays that only one side of a branch
// needs: two or three dependent scalar loads, which are a large part of a short wave's lifetime.
extern __shared__ double held_back[];  // its size limits the work-groups per CU

#define STREAMS                                                                                                \
  double *a, const double *__restrict__ b, const double *__restrict__ c, const double *__restrict__ d, size_t n, \
      int flag

__device__ int item() { return blockIdx.x * blockDim.x + threadIdx.x; }

template <class Value>
__device__ void write(double* a, const double* b, int i, bool inside, int flag, Value value) {
  if (!inside) return;
  if (flag) held_back[threadIdx.x] = b[threadIdx.x];
  a[i] = value();
  if (flag) a[i] = held_back[i];
}
__device__ void read(double* a, const double* b, int i, bool inside, int flag) {
  if (!inside) return;
  if (flag) held_back[threadIdx.x] = b[threadIdx.x];
  const double value = b[i];
  if (flag || value == 7.0) a[i] = value + held_back[i];  // never taken: the memory holds zeros
}

extern "C" __global__ void stream_init(STREAMS) {
  write(a, b, item(), item() < n, flag, [] { return 0.5; });
}
extern "C" __global__ void stream_read(STREAMS) { read(a, b, item(), item() < n, flag); }
extern "C" __global__ void stream_scale(STREAMS) {
  const int i = item();
  write(a, b, i, i < n, flag, [=] { return 3.0 * b[i]; });
}
extern "C" __global__ void stream_triad(STREAMS) {
  const int i = item();
  write(a, b, i, i < n, flag, [=] { return c[i] + b[i] * d[i]; });
}
extern "C" __global__ void stream_3pt(STREAMS) {
  const int i = item();
  write(a, b, i, i > 0 && i < n - 1, flag, [=] { return 0.5 * (b[i - 1] + b[i + 1]) - b[i]; });
}
extern "C" __global__ void stream_5pt(STREAMS) {
  const int i = item();
  write(a, b, i, i > 1 && i < n - 2, flag,
        [=] { return 0.25 * (b[i - 2] + b[i - 1]) + 0.5 * (b[i + 1] + b[i + 2]) - b[i]; });
}

// The same over LENGTH elements; the grid's index wraps around.
#define WRAPPED(LENGTH)                                                              \
  extern "C" __global__ void wrapped_read_##LENGTH(STREAMS) {                        \
    const int i = unsigned(item()) % LENGTH;                                         \
    read(a, b, i, i < n, flag);                                                      \
  }                                                                                  \
  extern "C" __global__ void wrapped_scale_##LENGTH(STREAMS) {                       \
    const int i = unsigned(item()) % LENGTH;                                         \
    write(a, b, i, i < n, flag, [=] { return 3.0 * b[i]; });                         \
  }                                                                                  \
  extern "C" __global__ void wrapped_triad_##LENGTH(STREAMS) {                       \
    const int i = unsigned(item()) % LENGTH;                                         \
    write(a, b, i, i < n, flag, [=] { return c[i] + b[i] * d[i]; });                 \
  }                                                                                  \
  extern "C" __global__ void wrapped_write_##LENGTH(STREAMS) {                       \
    const int i = unsigned(item()) % LENGTH;                                         \
    write(a, b, i, i < n, flag, [] { return 0.5; });                                 \
  }
WRAPPED(24545)
WRAPPED(5767137)

// Every work-group repeatedly reads the same two arrays of kSteps * (group size) float4, sixteen loads at a time.
template <int kSteps, int kWidth>
__device__ void sweep(float4* out, const float4* data, int rounds, int zero) {
  constexpr int kPairs = 8, kRounds = kSteps < kPairs ? kPairs / kSteps : 1, kBatches = kRounds * kSteps / kPairs;
  float4 sum = {0, 0, 0, 0};
  const float4* first = data + threadIdx.x;
#pragma unroll 1
  for (int round = 0; round < rounds; round += kRounds) {
#pragma unroll
    for (int batch = 0; batch < kBatches; ++batch) {
      float4 left[kPairs], right[kPairs];
#pragma unroll
      for (int i = 0; i < kPairs; ++i) {
        const int step = (batch * kPairs + i) % kSteps;
        if (step == 0) first += zero;  // hides from the compiler that all rounds read the same data
        left[i] = first[step * kWidth];
        right[i] = first[(kSteps + step) * kWidth];
      }
      __builtin_amdgcn_sched_barrier(0);
#pragma unroll
      for (int i = 0; i < kPairs; ++i) sum += left[i] * right[i];
    }
  }
  if (sum.x + sum.y + sum.z + sum.w == 7.0f) out[threadIdx.x] = sum;
}
#define SWEEP_OF(STEPS, WIDTH)                                                                                  \
  extern "C" __global__ void sweep_##STEPS##_##WIDTH(float4* out, const float4* data, int rounds, int zero) {    \
    sweep<STEPS, WIDTH>(out, data, rounds, zero);                                                               \
  }
SWEEP_OF(1, 128)
SWEEP_OF(1, 256)
SWEEP_OF(1, 512)
SWEEP_OF(2, 512)
SWEEP_OF(4, 512)
SWEEP_OF(8, 512)
SWEEP_OF(16, 512)
SWEEP_OF(32, 512)
SWEEP_OF(96, 512)

// Work-group g reads part g % parts: `steps` pairs of tiles of doubles, each one block wide.
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
