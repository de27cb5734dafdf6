// Kernels of one instruction class each, to compare its counts and its issue rate.
#include <hip/hip_runtime.h>

using Generic = int __attribute__((address_space(0)))*;
__device__ __noinline__ void put(Generic p, int v) { *p = v; }
__device__ __noinline__ int get(Generic p) { return *p; }
__device__ __noinline__ void add(Generic p, int v) { atomicAdd((int*)p, v); }

extern "C" __global__ void global_write(int* p, int zero) { p[threadIdx.x] = zero; }
extern "C" __global__ void global_read(int* p, int zero) {
  int v = p[threadIdx.x];
  if (v != zero) p[threadIdx.x] = v + 1;
}
extern "C" __global__ void global_atomic(int* p, int zero) { atomicAdd(&p[threadIdx.x], zero); }
// Lanes below `border` access global memory, the others the LDS; the host sets `border`.
extern "C" __global__ void generic_write(int* p, int zero, int border) {
  __shared__ int tile[1024];
  put((Generic)((int)threadIdx.x < border ? &p[threadIdx.x] : &tile[threadIdx.x]), zero);
}
extern "C" __global__ void generic_read(int* p, int zero, int border) {
  __shared__ int tile[1024];
  int v = get((Generic)((int)threadIdx.x < border ? &p[threadIdx.x] : &tile[threadIdx.x]));
  if (v != zero) p[threadIdx.x] = v + 1;
}
// Two lanes: one generic atomic adds in global memory for one lane, in the LDS for the other.
extern "C" __global__ void generic_atomic(int* p, int zero, int border) {
  __shared__ int tile[1024];
  add((Generic)((int)threadIdx.x % 2 < border ? &p[threadIdx.x] : &tile[threadIdx.x]), zero);
}

extern "C" __global__ void lds_read(int* out, int magic, int stride) {
  __shared__ int tile[32 * 256];
  if (magic) tile[threadIdx.x] = magic;
  __syncthreads();
  int v = tile[threadIdx.x * stride];
  if (v == -1234567) out[threadIdx.x] = v;
}

extern "C" __global__ void one_of_each() {
  asm volatile(
      "v_add_u32 v1, v2, v1\n v_cmp_eq_i64 vcc, v[2:3], v[4:5]\n"
      "v_add_f16 v1, v2, v1\n v_mul_f16 v1, v2, v1\n v_fma_f16 v1, v2, v1, v2\n v_sqrt_f16 v1, v2\n"
      "v_add_f32 v1, v2, v1\n v_mul_f32 v1, v2, v1\n v_fma_f32 v1, v2, v1, v2\n v_sqrt_f32 v1, v2\n"
      "v_add_f64 v[2:3], v[4:5], v[2:3]\n v_mul_f64 v[2:3], v[4:5], v[2:3]\n v_fma_f64 v[2:3], v[4:5], v[2:3], v[4:5]\n"
      "v_sqrt_f64 v[2:3], v[4:5]\n v_min_f64 v[2:3], v[4:5], v[2:3]\n v_cvt_f32_u32 v1, v2" ::
          : "vcc", "v1", "v2", "v3", "v4", "v5");
}

extern "C" __global__ void v_moves() { asm volatile(".rept 1000\n v_mov_b32 v1, v2\n .endr" ::: "v1", "v2"); }
extern "C" __global__ void s_moves() { asm volatile(".rept 1000\n s_mov_b32 s6, s7\n .endr" ::: "s6", "s7"); }
extern "C" __global__ void no_ops() { asm volatile(".rept 1000\n s_nop 0\n .endr"); }
extern "C" __global__ void v_moves_of_one_lane() {
  if (threadIdx.x % 64 == 0) asm volatile(".rept 1000\n v_mov_b32 v1, v2\n .endr" ::: "v1", "v2");
}
extern "C" __global__ void matrix_products() {
  asm volatile(".rept 200\n v_mfma_f32_32x32x8bf16_1k a[0:15], v[2:3], v[4:5], a[0:15]\n .endr" ::
                   : "v2", "v3", "v4", "v5", "a0", "a1", "a2", "a3", "a4", "a5", "a6", "a7", "a8", "a9", "a10", "a11",
                     "a12", "a13", "a14", "a15");
}

extern "C" __global__ void __launch_bounds__(256) many_vgprs() { asm volatile("v_mov_b32 v123, v0" ::: "v123", "a3"); }
extern "C" __global__ void __launch_bounds__(256) much_lds(int* out) {
  __shared__ int tile[16384];
  tile[threadIdx.x] = out[0];
  __syncthreads();
  out[threadIdx.x] = tile[threadIdx.x ^ 1];
}
extern "C" __global__ void __launch_bounds__(1024, 8) many_sgprs() { asm volatile("s_mov_b32 s73, 0" ::: "s73"); }
