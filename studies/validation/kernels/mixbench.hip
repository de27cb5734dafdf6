// Kernels shaped like mixbench's read-only ones: eight loads one block width apart, STEPS multiply-adds on each value,
// a sum, and a store that never executes. The types are chosen so that as many instructions are packed as recorded.
#include <hip/hip_fp16.h>
#include <hip/hip_runtime.h>

typedef float packed_float __attribute__((ext_vector_type(2)));
typedef _Float16 packed_half __attribute__((ext_vector_type(2)));

constexpr int kWidth = 256, kLoads = 8;
constexpr int kUnrolledSteps = 100;  // with more steps, the recorded code is a loop

template <int kCount, class T>
__device__ void ladder(T (&part)[kCount], T seed) {
#pragma unroll
  for (int j = 0; j < kCount; ++j) part[j] = part[j] * part[j] + seed;
}

// The recorded code uses separate integer multiplies and adds.
template <int kCount>
__device__ void ladder(int (&part)[kCount], int seed) {
#pragma unroll
  for (int j = 0; j < kCount; ++j) {
    int product = part[j] * part[j];
    asm("" : "+v"(product));
    part[j] = product + seed;
  }
}

template <int kSteps, int kCount, class T>
__device__ void climb(T (&part)[kCount], T seed) {
  if constexpr (kSteps > kUnrolledSteps) {
#pragma unroll
    for (int j = 0; j < kCount; ++j) asm("" : "+v"(part[j]));  // wait for the loads before the loop, not in it
#pragma unroll 4
    for (int i = 0; i < kSteps; ++i) ladder(part, seed);
  } else {
#pragma unroll
    for (int i = 0; i < kSteps; ++i) ladder(part, seed);
  }
}

template <class T>
__device__ bool never(T sum) { return sum == T(-1); }
__device__ bool never(packed_float sum) { return sum.x == -1.0f && sum.y == -1.0f; }
__device__ bool never(packed_half sum) { return sum.x == _Float16(-1) && sum.y == _Float16(-1); }

template <int kSteps, class T>
__device__ void mix(T seed, T* data) {
  const int first = blockIdx.x * kWidth * kLoads + threadIdx.x;
  T part[kLoads];
#pragma unroll
  for (int j = 0; j < kLoads; ++j) part[j] = data[first + j * kWidth];
  climb<kSteps>(part, seed);
  T sum = T(0);
#pragma unroll
  for (int j = 0; j < kLoads; j += 2) sum = part[j] * part[j + 1] + sum;
  if (never(sum)) data[first] = sum;
}

// Single floats: half of the chain is packed where it is unrolled.
template <int kSteps>
__device__ void mix_floats(float seed, float* data) {
  const int first = blockIdx.x * kWidth * kLoads + threadIdx.x;
  float load[kLoads];
#pragma unroll
  for (int j = 0; j < kLoads; ++j) load[j] = data[first + j * kWidth];
  packed_float pair[2] = {{load[0], load[1]}, {load[2], load[3]}};
  float single[4] = {load[4], load[5], load[6], load[7]};
#pragma unroll
  for (int i = 0; i < kSteps; ++i) {
    ladder(pair, packed_float{seed, seed});
    ladder(single, seed);
  }
  float sum = 0;
  sum = pair[0].x * pair[0].y + sum;
  sum = pair[1].x * pair[1].y + sum;
  sum = single[0] * single[1] + sum;
  sum = single[2] * single[3] + sum;
  if (never(sum)) data[first] = sum;
}

#define OF_STEPS(STEPS)                                                                                       \
  extern "C" __global__ void mix_double_##STEPS(double seed, double* data) { mix<STEPS>(seed, data); }        \
  extern "C" __global__ void mix_int_##STEPS(int seed, int* data) { mix<STEPS>(seed, data); }                 \
  extern "C" __global__ void mix_float2_##STEPS(packed_float seed, packed_float* data) { mix<STEPS>(seed, data); } \
  extern "C" __global__ void mix_half2_##STEPS(packed_half seed, packed_half* data) { mix<STEPS>(seed, data); }    \
  extern "C" __global__ void mix_float_##STEPS(float seed, float* data) {                                     \
    if constexpr (STEPS > kUnrolledSteps) {                                                                   \
      mix<STEPS>(seed, data);                                                                                 \
    } else {                                                                                                  \
      mix_floats<STEPS>(seed, data);                                                                          \
    }                                                                                                         \
  }

OF_STEPS(0)
OF_STEPS(2)
OF_STEPS(4)
OF_STEPS(6)
OF_STEPS(8)
OF_STEPS(10)
OF_STEPS(12)
OF_STEPS(14)
OF_STEPS(16)
OF_STEPS(18)
OF_STEPS(22)
OF_STEPS(28)
OF_STEPS(40)
OF_STEPS(56)
OF_STEPS(80)
OF_STEPS(128)
OF_STEPS(512)
