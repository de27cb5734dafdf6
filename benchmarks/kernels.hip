// Kernels of sim_speed.py, one for each path of the simulator that matters, and products of sampling_error.py.
#include <hip/hip_runtime.h>

typedef _Float16 half_pair __attribute__((ext_vector_type(2)));
typedef _Float16 half_quad __attribute__((ext_vector_type(4)));
typedef float float_16 __attribute__((ext_vector_type(16)));

// Packed f32 multiply-adds, nothing else.
extern "C" __global__ void alu(float* out, int n) {
  float x = threadIdx.x, y = 0.5f, z = 1.5f, w = 2.5f;
  for (int i = 0; i < n; ++i) {
    x = x * 0.99f + 0.1f; y = y * 0.98f + 0.2f; z = z * 0.97f + 0.3f; w = w * 0.96f + 0.4f;
    x = x * 0.95f + 0.1f; y = y * 0.94f + 0.2f; z = z * 0.93f + 0.3f; w = w * 0.92f + 0.4f;
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = x + y + z + w;
}
// 32-bit and 64-bit integers, shifts, compares and selects.
extern "C" __global__ void integers(float* out, int n) {
  unsigned a = threadIdx.x, b = blockIdx.x;
  unsigned long long c = a;
  for (int i = 0; i < n; ++i) {
    a = (a ^ (a << 13)) + b;
    b = a > b ? b + 7 : (a >> 3) * 5;
    c = (c << 3) + a;
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = a + b + (unsigned)(c >> 32);
}
// Half of the lanes are off.
extern "C" __global__ void some_lanes(float* out, int n) {
  float x = threadIdx.x, y = 1;
  if (threadIdx.x & 1) {
    for (int i = 0; i < n; ++i) {
      x = __builtin_fmaf(x, y, 1.0f);
      y = x > 9.0f ? y - x : x * y;
    }
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = x + y;
}
extern "C" __global__ void halves(float* out, int n) {
  half_pair x = {(_Float16)threadIdx.x, 1}, y = {(_Float16)0.5f, (_Float16)0.25f};
  for (int i = 0; i < n; ++i) x = __builtin_elementwise_fma(x, y, y) + y;
  out[blockIdx.x * blockDim.x + threadIdx.x] = x[0] + x[1];
}
extern "C" __global__ void transcendental(float* out, int n) {
  float x = threadIdx.x;
  for (int i = 0; i < n; ++i) x = __builtin_amdgcn_exp2f(__builtin_amdgcn_sinf(x)) + __builtin_amdgcn_rsqf(x);
  out[blockIdx.x * blockDim.x + threadIdx.x] = x;
}
extern "C" __global__ void matrix(float* out, int n) {
  float_16 sum = {};
  half_quad a = {1, 2, 3, 4};
  for (int i = 0; i < n; ++i) sum = __builtin_amdgcn_mfma_f32_32x32x8f16(a, a, sum, 0, 0, 0);
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum[0];
}
extern "C" __global__ void lds(float* out, int n) {
  __shared__ float tile[512];
  float x = threadIdx.x;
  for (int i = 0; i < n; ++i) {
    tile[threadIdx.x] = x;
    __syncthreads();
    x += tile[(threadIdx.x + 1) & 255] * tile[(threadIdx.x * 2) & 255];
    __syncthreads();
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = x;
}
// As streaming kernels are: one element of eight bytes per work-item, once.
extern "C" __global__ void streaming(const double* a, double* c, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] = a[i];
}
extern "C" __global__ void vector_add(const float* a, const float* b, float* c, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i];
}

// --- products of square matrices, n a multiple of the tile, by work-groups of 256 -------------------------------------

// Each work-item keeps kPer x kPer sums; tiles of the factors pass through the LDS, kBuffers of them in turn.
template <int kPer, int kDeep, int kBuffers>
__device__ void product(float* c, const float* a, const float* b, int n) {
  constexpr int kTile = 16 * kPer;
  __shared__ float as[kBuffers][kDeep][kTile], bs[kBuffers][kDeep][kTile];
  const int t = threadIdx.x, x = t % 16 * kPer, y = t / 16 * kPer;
  const size_t row = blockIdx.y * kTile, col = blockIdx.x * kTile;
  float sum[kPer][kPer] = {};
  const auto fetch = [&](int k0, int buffer) {
    for (int i = t; i < kTile * kDeep; i += 256) {
      as[buffer][i % kDeep][i / kDeep] = a[(row + i / kDeep) * n + k0 + i % kDeep];
      bs[buffer][i / kTile][i % kTile] = b[(size_t)(k0 + i / kTile) * n + col + i % kTile];
    }
  };
  if (kBuffers > 1) fetch(0, 0);
  for (int k0 = 0, at = 0; k0 < n; k0 += kDeep) {
    if (kBuffers == 1) fetch(k0, 0);
    __syncthreads();
    if (kBuffers > 1 && k0 + kDeep < n) fetch(k0 + kDeep, 1 - at);
    for (int k = 0; k < kDeep; ++k) {
      for (int i = 0; i < kPer; ++i) {
        for (int j = 0; j < kPer; ++j) sum[i][j] += as[at][k][y + i] * bs[at][k][x + j];
      }
    }
    if (kBuffers > 1)
      at = 1 - at;
    else
      __syncthreads();
  }
  for (int i = 0; i < kPer; ++i) {
    for (int j = 0; j < kPer; ++j) c[(row + y + i) * n + col + x + j] = sum[i][j];
  }
}
// An element for each work-item, as a first version has it.
extern "C" __global__ void __launch_bounds__(256) product_naive(float* c, const float* a, const float* b, int n) {
  const int col = blockIdx.x * 16 + threadIdx.x % 16, row = blockIdx.y * 16 + threadIdx.x / 16;
  float sum = 0;
  for (int k = 0; k < n; ++k) sum += a[(size_t)row * n + k] * b[(size_t)k * n + col];
  c[(size_t)row * n + col] = sum;
}
extern "C" __global__ void __launch_bounds__(256) product_16(float* c, const float* a, const float* b, int n) {
  product<1, 16, 1>(c, a, b, n);
}
extern "C" __global__ void __launch_bounds__(256) product_64(float* c, const float* a, const float* b, int n) {
  product<4, 16, 1>(c, a, b, n);
}
extern "C" __global__ void __launch_bounds__(256) product_64_buffered(float* c, const float* a, const float* b, int n) {
  product<4, 16, 2>(c, a, b, n);
}
extern "C" __global__ void __launch_bounds__(256) product_128(float* c, const float* a, const float* b, int n) {
  product<8, 8, 1>(c, a, b, n);
}
// Halves, by matrix instructions: tiles of 64 x 64, a quarter for each wave; b is given transposed.
extern "C" __global__ void __launch_bounds__(256)
    product_matrix(float* c, const _Float16* a, const _Float16* b, int n) {
  constexpr int kTile = 64, kDeep = 32;
  __shared__ half_quad as[kTile][kDeep / 4], bs[kTile][kDeep / 4];
  const int t = threadIdx.x, lane = t % 64, wave = t / 64;
  const size_t row = blockIdx.y * kTile, col = blockIdx.x * kTile;
  const int y = wave / 2 * 32, x = wave % 2 * 32;
  float_16 sum = {};
  for (int k0 = 0; k0 < n; k0 += kDeep) {
    for (int i = t; i < kTile * kDeep / 4; i += 256) {
      const int r = i / (kDeep / 4), q = i % (kDeep / 4);
      as[r][q] = *(const half_quad*)&a[(row + r) * n + k0 + 4 * q];
      bs[r][q] = *(const half_quad*)&b[(col + r) * n + k0 + 4 * q];
    }
    __syncthreads();
    for (int q = 0; q < kDeep / 4; q += 2) {
      const int k = q + lane / 32;
      sum = __builtin_amdgcn_mfma_f32_32x32x8f16(as[y + lane % 32][k], bs[x + lane % 32][k], sum, 0, 0, 0);
    }
    __syncthreads();
  }
  for (int i = 0; i < 16; ++i) {
    const int r = y + i / 4 * 8 + lane / 32 * 4 + i % 4;
    c[(row + r) * n + col + x + lane % 32] = sum[i];
  }
}
