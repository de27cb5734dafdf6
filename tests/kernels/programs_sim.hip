// Kernels for the simulator's own tests: streams with recorded counterparts, and one kernel per engine feature.
#include <hip/hip_runtime.h>

extern "C" __global__ void copy_f64(double* a, double* b, double* c, int n, int stride) {
  int id = blockIdx.x * blockDim.x + threadIdx.x;
  if (id < n) c[id] = a[id];
}

// Reads eight elements a block width apart, combines them, and never writes: a read-only stream.
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

__device__ __constant__ int table[4] = {10, 20, 30, 40};
__device__ int counter = 5;
__device__ int* pointer_to_counter = &counter;

__device__ __noinline__ int recurse(int n, const int* p) { return n <= 1 ? 1 : n + recurse(n - 1, p) * p[n & 3]; }

extern "C" __global__ void calls(int* out, const int* in, int n) { out[threadIdx.x] = recurse(n + threadIdx.x % 3, in); }
extern "C" __global__ void globals(int* out) {
  out[threadIdx.x] = table[threadIdx.x & 3] + *pointer_to_counter;
  atomicAdd(&counter, 1);
}
extern "C" __global__ void ids(int* out) {
  int block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  int thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  out[block * (blockDim.x * blockDim.y * blockDim.z) + thread] = block * 10000 + thread;
}
extern "C" __global__ void reverse(int* data) {
  extern __shared__ int tile[];
  tile[threadIdx.x] = data[threadIdx.x];
  __syncthreads();
  data[threadIdx.x] = tile[blockDim.x - 1 - threadIdx.x] + __shfl_xor(1 << (threadIdx.x & 7), 1);
}
extern "C" __global__ void generic(int* out, int which) {
  __shared__ int tile[64];
  int local[4] = {1, 2, 3, 4};
  int* p = which == 0 ? &out[threadIdx.x] : which == 1 ? &tile[threadIdx.x] : &local[out[0] & 3];
  *(volatile int*)p = 7;
  atomicAdd(p, 1);
  out[64 + threadIdx.x] = *(volatile int*)p;
}
extern "C" __global__ void stack(int* out, int n) {
  int local[64];
  for (int i = 0; i < 64; ++i) local[(i * 7 + n) & 63] = i * n;
  int sum = 0;
  for (int i = 0; i < n; ++i) sum += local[(i * out[threadIdx.x & 1]) & 63] * (i + 1);
  out[threadIdx.x] = sum;
}
extern "C" __global__ void add_to_one(int* cell) { atomicAdd(cell + (threadIdx.x & 0), (int)threadIdx.x); }
extern "C" __global__ void say(int n) { printf("%s %d of %5.2f%%\n", "lane", (int)threadIdx.x, n / 8.0); }
extern "C" __global__ void out_of_bounds(int* data, int n) { data[threadIdx.x + n] = 1; }
extern "C" __global__ void forever(volatile int* flag) { while (*flag == 0) {} }
extern "C" __global__ void abort_it(int* data) { if (data[0] == 0) __builtin_trap(); }
extern "C" __global__ void one_thread_waits(int* data) {
  if (threadIdx.x < 64) return;
  __syncthreads();
  data[threadIdx.x] = 1;
}
// Work for the ALU alone.
extern "C" __global__ void fma_chain(float* out, int n) {
  float x = threadIdx.x, y = 0.5f, z = 1.5f, w = 2.5f;
  for (int i = 0; i < n; ++i) {
    x = x * 0.99f + 0.1f; y = y * 0.98f + 0.2f; z = z * 0.97f + 0.3f; w = w * 0.96f + 0.4f;
    x = x * 0.95f + 0.1f; y = y * 0.94f + 0.2f; z = z * 0.93f + 0.3f; w = w * 0.92f + 0.4f;
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = x + y + z + w;
}

// Waves that compete for one address: gfx90a adds floats with a compare-and-swap loop.
extern "C" __global__ void add_floats(float* sum) { atomicAdd(sum, 1.0f); }
// Every work-group but the last waits for the last one's flag.
extern "C" __global__ void wait_for_last_group(int* flag, int* out, int poll_with_atomics) {
  if (threadIdx.x != 0) return;
  if (blockIdx.x + 1 == gridDim.x) {
    atomicExch(flag, 7);
  } else {
    int seen = 0;
    while (seen == 0) seen = poll_with_atomics ? atomicAdd(flag, 0) : *(volatile int*)flag;
    out[blockIdx.x] = seen;
  }
}
extern "C" __global__ void spin_lock(int* lock, int* guarded) {
  if (threadIdx.x != 0) return;
  while (atomicCAS(lock, 0, 1) != 0) {}
  __threadfence();
  *(volatile int*)guarded = *(volatile int*)guarded + 1;
  __threadfence();
  atomicExch(lock, 0);
}

// Floating-point work of known size in some of the lanes.
typedef _Float16 half_pair __attribute__((ext_vector_type(2)));
typedef _Float16 half_quad __attribute__((ext_vector_type(4)));
typedef float float_16 __attribute__((ext_vector_type(16)));
extern "C" __global__ void some_lanes_fma(float* data, int lanes, int n) {
  if ((int)(threadIdx.x & 63) >= lanes) return;
  float x = data[threadIdx.x];
  for (int i = 0; i < n; ++i) x = __builtin_fmaf(x, 0.5f, 1.0f);
  data[threadIdx.x] = x;
}
extern "C" __global__ void packed_fma(half_pair* data, int lanes, int n) {
  if ((int)(threadIdx.x & 63) >= lanes) return;
  half_pair x = data[threadIdx.x], y = data[64];
  for (int i = 0; i < n; ++i) x = __builtin_elementwise_fma(x, y, y);
  data[threadIdx.x] = x;
}
extern "C" __global__ void matrix_products(float* data, int lanes, int n) {
  float_16 sum = {};
  half_quad a = {1, 2, 3, 4};
  for (int i = 0; i < n; ++i) sum = __builtin_amdgcn_mfma_f32_32x32x8f16(a, a, sum, 0, 0, 0);
  data[threadIdx.x] = sum[0];
}

// Where each wave's private memory lies. Spilled registers alone make a lane's share of it any number of words.
constexpr int kKept = 151;
extern "C" __global__ __launch_bounds__(1024) void private_base(unsigned* out, const volatile int* in) {
  int kept[kKept];
#pragma unroll
  for (int i = 0; i < kKept; ++i) kept[i] = in[i + threadIdx.x];
  unsigned low;
  asm volatile("s_mov_b32 %0, flat_scratch_lo" : "=s"(low));
  unsigned sum = low;  // nothing is used up before
#pragma unroll
  for (int i = 0; i < kKept; ++i) sum = sum * 3 + kept[i];
  out[blockIdx.x] = low + (sum == 1 && low == 1);
}
