// Each kernel saturates one unit: every wave repeats one instruction on registers of its own.
#include <hip/hip_runtime.h>

#define REPEAT(count, text) ".rept " #count "\n " text "\n .endr\n"
#define MATRIX_REGISTERS                                                                                             \
  "v2", "v3", "v4", "v5", "a0", "a1", "a2", "a3", "a4", "a5", "a6", "a7", "a8", "a9", "a10", "a11", "a12", "a13", "a14", \
      "a15"

extern "C" __global__ void fma_f32(int rounds) {
  for (int i = 0; i < rounds; ++i) asm volatile(REPEAT(256, "v_fma_f32 v1, v2, v3, v1") ::: "v1", "v2", "v3");
}
extern "C" __global__ void fma_f32_packed(int rounds) {
  for (int i = 0; i < rounds; ++i)
    asm volatile(REPEAT(256, "v_pk_fma_f32 v[2:3], v[4:5], v[6:7], v[2:3]") ::: "v2", "v3", "v4", "v5", "v6", "v7");
}
extern "C" __global__ void fma_f64(int rounds) {
  for (int i = 0; i < rounds; ++i)
    asm volatile(REPEAT(256, "v_fma_f64 v[2:3], v[4:5], v[6:7], v[2:3]") ::: "v2", "v3", "v4", "v5", "v6", "v7");
}
extern "C" __global__ void matrix_f16(int rounds) {
  for (int i = 0; i < rounds; ++i)
    asm volatile(REPEAT(16, "v_mfma_f32_32x32x8f16 a[0:15], v[2:3], v[4:5], a[0:15]") ::: MATRIX_REGISTERS);
}
extern "C" __global__ void matrix_bf16(int rounds) {
  for (int i = 0; i < rounds; ++i)
    asm volatile(REPEAT(16, "v_mfma_f32_32x32x8bf16_1k a[0:15], v[2:3], v[4:5], a[0:15]") ::: MATRIX_REGISTERS);
}
extern "C" __global__ void matrix_f32(int rounds) {
  for (int i = 0; i < rounds; ++i)
    asm volatile(REPEAT(16, "v_mfma_f32_32x32x2f32 a[0:15], v2, v4, a[0:15]") ::: MATRIX_REGISTERS);
}
extern "C" __global__ void matrix_f64(int rounds) {
  for (int i = 0; i < rounds; ++i)
    asm volatile(REPEAT(16, "v_mfma_f64_16x16x4f64 a[0:7], v[2:3], v[4:5], a[0:7]") ::: MATRIX_REGISTERS);
}
#ifdef __gfx90a__  // gfx942 has other shapes
extern "C" __global__ void matrix_i8(int rounds) {
  for (int i = 0; i < rounds; ++i)
    asm volatile(REPEAT(16, "v_mfma_i32_32x32x8i8 a[0:15], v2, v4, a[0:15]") ::: MATRIX_REGISTERS);
}
#endif
// Every lane reads its own word, so all banks are busy; eight reads are in flight per wave.
extern "C" __global__ void lds(int rounds) {
  __shared__ int tile[1024];
  tile[threadIdx.x] = 0;
  __syncthreads();
  auto* at = (__attribute__((address_space(3))) int*)&tile[threadIdx.x];
  for (int i = 0; i < rounds; ++i)
    asm volatile(REPEAT(32, REPEAT(8, "ds_read_b32 v1, %0") "s_waitcnt lgkmcnt(0)")::"v"(at) : "v1");
}
