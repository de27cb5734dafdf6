// Kernels of the sweeps: each isolates one rule of the timing or cache model. Loads and chains of arithmetic are
// written in assembly, so that the compiler neither moves nor counts on them.
#include <hip/hip_runtime.h>

using Bytes = const char*;

__device__ unsigned item() { return blockIdx.x * blockDim.x + threadIdx.x; }

// A load that the wave waits for.
#define AWAITED(WIDTH, TYPE, AT)                                                                                 \
  {                                                                                                              \
    TYPE value;                                                                                                  \
    asm volatile("global_load_" #WIDTH " %0, %1, off\n\ts_waitcnt vmcnt(0)" : "=v"(value) : "v"(AT) : "memory"); \
  }
__device__ void awaited(Bytes at) { AWAITED(dword, float, at); }

// Work-item r reads row r, column after column, `columns` dwords.
extern "C" __global__ void column_walk(Bytes data, unsigned pitch, int columns) {
  Bytes at = data + size_t{pitch} * item();
#pragma unroll 1
  for (int column = 0; column < columns; ++column, at += 4) awaited(at);
}

// Loads of the work-item's own dwords, then arithmetic.
__device__ void steps_of_work(Bytes data, int steps) {
  Bytes at = data + 4 * size_t{item()};
  float sum = 0;
#pragma unroll 1
  for (int step = 0; step < steps; ++step) {
    if (step % 16 == 0) awaited(at);
    asm volatile(".rept 16\n\tv_add_f32 %0, %0, %0\n\t.endr" : "+v"(sum));
  }
}

// The first `working` work-groups work, the others return at their guard.
extern "C" __global__ void first_work(Bytes data, int working, int steps) {
  if (static_cast<int>(blockIdx.x) < working) steps_of_work(data, steps);
}
// Every work-group whose index is a multiple of `every` works.
extern "C" __global__ void every_works(Bytes data, int every, int steps) {
  if (static_cast<int>(blockIdx.x) % every == 0) steps_of_work(data, steps);
}
// Every work-group whose index is a multiple of `every` takes long_steps, the others short_steps.
extern "C" __global__ void few_long(Bytes data, int every, int long_steps, int short_steps) {
  steps_of_work(data, static_cast<int>(blockIdx.x) % every == 0 ? long_steps : short_steps);
}
// Work-group g takes (g + 1) / slope steps.
extern "C" __global__ void triangle(Bytes data, int slope, int) {
  steps_of_work(data, (static_cast<int>(blockIdx.x) + 1) / slope);
}

#define CHAIN(LENGTH)                                                                 \
  extern "C" __global__ void chain_##LENGTH(int rounds) {                             \
    unsigned sum = threadIdx.x;                                                       \
    _Pragma("unroll 1") for (int round = 0; round < rounds; ++round) {                \
      asm volatile(".rept " #LENGTH "\n\tv_add_u32 %0, %0, %0\n\t.endr" : "+v"(sum)); \
    }                                                                                 \
  }
CHAIN(1)
CHAIN(2)
CHAIN(4)
CHAIN(8)
CHAIN(16)
CHAIN(32)
CHAIN(64)

// Each wave reads its own consecutive 256-byte blocks, displaced by `shift` bytes.
extern "C" __global__ void displaced(Bytes data, int blocks, int shift) {
  Bytes at = data + size_t{item() / 64} * blocks * 256 + threadIdx.x % 64 * 4 + shift;
#pragma unroll 1
  for (int block = 0; block < blocks; ++block, at += 256) awaited(at);
}

// A seven-point stencil: a work-item per point of a plane of width x height, blockIdx.y counts planes.
extern "C" __global__ void seven_points(float* __restrict__ out, const float* __restrict__ in, unsigned width,
                                        unsigned plane) {
  const size_t at = plane * size_t{blockIdx.y + 1} + item();
  out[at] = in[at] + in[at - 1] + in[at + 1] + in[at - width] + in[at + width] + in[at - plane] + in[at + plane];
}

// Each wave makes `loads` loads of its own `lines` lines in turn.
extern "C" __global__ void own_lines(Bytes data, int lines, int line_bytes, int loads) {
  Bytes first = data + size_t{item() / 64} * lines * line_bytes + threadIdx.x % (line_bytes / 4) * 4;
  Bytes end = first + size_t{unsigned(lines)} * line_bytes, at = first;
#pragma unroll 1
  for (int load = 0; load < loads; ++load) {
    awaited(at);
    at += line_bytes;
    at = at == end ? first : at;
  }
}

#define LOADS(WIDTH, TYPE)                                                           \
  extern "C" __global__ void loads_##WIDTH(Bytes data, int lane_bytes, int rounds) { \
    Bytes at = data + threadIdx.x * lane_bytes;                                      \
    _Pragma("unroll 1") for (int round = 0; round < rounds; ++round) {               \
      _Pragma("unroll") for (int i = 0; i < 16; ++i) AWAITED(WIDTH, TYPE, at);       \
    }                                                                                \
  }
typedef float float2v __attribute__((ext_vector_type(2)));
typedef float float4v __attribute__((ext_vector_type(4)));
LOADS(dword, float)
LOADS(dwordx2, float2v)
LOADS(dwordx4, float4v)

// Every wave reads the same 2^bits blocks of 256 bytes, sixteen at a time: first those whose numbers are multiples of
// 2^skip, then the next one of each.
extern "C" __global__ void blocks_in_turn(Bytes data, int bits, int skip) {
  const unsigned blocks = 1u << bits, low = bits - skip;
#pragma unroll 1
  for (unsigned first = 0; first < blocks; first += 16) {
#pragma unroll
    for (unsigned i = first; i < first + 16; ++i) {
      const unsigned block = (i << skip & (blocks - 1)) | i >> low;
      float value;
      asm volatile("global_load_dword %0, %1, off"
                   : "=v"(value)
                   : "v"(data + size_t{block} * 256 + threadIdx.x % 64 * 4)
                   : "memory");
    }
    asm volatile("s_waitcnt vmcnt(0)" ::: "memory");
  }
}

// Every wave reads `loads` blocks, `step` blocks apart, each after emptying its vL1D: all of them come from the L2.
extern "C" __global__ void fresh_blocks(Bytes data, int loads, int step) {
#pragma unroll 1
  for (int i = 0; i < loads; ++i) {
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "agent");
    const unsigned block = (i + item() / 64) * step % 1024;
    awaited(data + size_t{block} * 256 + threadIdx.x % 64 * 4);
  }
}
