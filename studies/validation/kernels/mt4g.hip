// Chains of dependent loads by one work-item: by vector loads, by scalar loads, and within the LDS.
#include <hip/hip_runtime.h>

constexpr int kUnrolled = 32;

extern "C" __global__ void vector_chase(unsigned long long start, unsigned long long* out, int steps) {
  unsigned long long at = start;
#pragma unroll 1
  for (int i = 0; i < steps; i += kUnrolled) {
#pragma unroll
    for (int k = 0; k < kUnrolled; ++k) at = *reinterpret_cast<const unsigned long long*>(at);
  }
  if (at == 7) *out = at;
}

// A constant address space makes the loads scalar.
extern "C" __global__ void scalar_chase(unsigned long long start, unsigned long long* out, int steps) {
  using Constant = const __attribute__((address_space(4))) unsigned long long;
  unsigned long long at = start;
#pragma unroll 1
  for (int i = 0; i < steps; i += kUnrolled) {
#pragma unroll
    for (int k = 0; k < kUnrolled; ++k) at = *reinterpret_cast<Constant*>(at);
  }
  if (at == 7) *out = at;
}

// Each word holds the address of the next one.
extern "C" __global__ void lds_chase(unsigned long long length, unsigned long long* out, int steps) {
  using Shared = __attribute__((address_space(3))) unsigned;
  __shared__ unsigned next[1024];
  Shared* words = (Shared*)next;
  const unsigned count = static_cast<unsigned>(length);
  for (unsigned i = 0; i < count; ++i) words[i] = (unsigned)(words + (i + 1) % count);
  __syncthreads();
  unsigned at = (unsigned)words;
#pragma unroll 1
  for (int i = 0; i < steps; i += kUnrolled) {
#pragma unroll
    for (int k = 0; k < kUnrolled; ++k) at = *(Shared*)at;
  }
  if (at == 7) *out = at;
}
