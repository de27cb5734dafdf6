// Kernels whose L2 hit rate depends on which XCD a work-group runs on. Work-group w runs on XCD w % 8; `chunked` renames
// the work-groups so that each XCD gets one contiguous eighth of the grid.
#include <hip/hip_fp16.h>
#include <hip/hip_runtime.h>

constexpr int kXcds = 8, kTile = 32, kVector = 4;
using Half4 = _Float16 __attribute__((ext_vector_type(4)));

__device__ int group_number(int groups, bool chunked) {
  int w = blockIdx.x;
  return chunked ? w % kXcds * (groups / kXcds) + w / kXcds : w;
}

// Five points of a matrix of halves; a work-group of 256 does a tile of 32 x 32, tiles run down the columns first.
template <bool chunked>
__device__ void stencil(const _Float16* in, _Float16* out, int n) {
  int tiles = n / kTile, w = group_number(tiles * tiles, chunked);
  int row = w % tiles * kTile + threadIdx.x / (kTile / kVector);
  int column = w / tiles * kTile + threadIdx.x % (kTile / kVector) * kVector;
  const _Float16* here = in + (size_t)row * n + column;
  Half4 zero = {0, 0, 0, 0};
  Half4 middle = *(const Half4*)here;
  Half4 up = row > 0 ? *(const Half4*)(here - n) : zero;
  Half4 down = row + 1 < n ? *(const Half4*)(here + n) : zero;
  Half4 left, right;
  for (int i = 0; i < kVector; ++i) {
    left[i] = column + i > 0 ? here[i - 1] : (_Float16)0;
    right[i] = column + i + 1 < n ? here[i + 1] : (_Float16)0;
  }
  Half4 sum = (_Float16)0.5f * middle + (_Float16)0.125f * (up + down + left + right);
  *(Half4*)(out + (size_t)row * n + column) = sum;
}
extern "C" __global__ void stencil_plain(const _Float16* in, _Float16* out, int n) { stencil<false>(in, out, n); }
extern "C" __global__ void stencil_chunked(const _Float16* in, _Float16* out, int n) { stencil<true>(in, out, n); }

// Transposes a matrix of halves through the LDS, tiles of 32 x 32 as above.
template <bool chunked>
__device__ void transpose(const _Float16* in, _Float16* out, int n) {
  __shared__ _Float16 tile[kTile][kTile + 2];
  int tiles = n / kTile, w = group_number(tiles * tiles, chunked);
  int top = w % tiles * kTile, left = w / tiles * kTile;
  int y = threadIdx.x / (kTile / kVector), x = threadIdx.x % (kTile / kVector) * kVector;
  Half4 values = *(const Half4*)(in + (size_t)(top + y) * n + left + x);
  for (int i = 0; i < kVector; ++i) tile[x + i][y] = values[i];
  __syncthreads();
  for (int i = 0; i < kVector; ++i) values[i] = tile[y][x + i];
  *(Half4*)(out + (size_t)(left + y) * n + top + x) = values;
}
extern "C" __global__ void transpose_plain(const _Float16* in, _Float16* out, int n) { transpose<false>(in, out, n); }
extern "C" __global__ void transpose_chunked(const _Float16* in, _Float16* out, int n) { transpose<true>(in, out, n); }

// C = A * B in halves with matrix instructions: a work-group of 256 does 128 x 128, in steps of 32 along K.
using Float16x4 = _Float16 __attribute__((ext_vector_type(4)));
using Float32x16 = float __attribute__((ext_vector_type(16)));
constexpr int kSide = 128, kStep = 32, kPad = 8;
using Half8 = _Float16 __attribute__((ext_vector_type(8)));

template <bool chunked>
__device__ void gemm(const _Float16* a, const _Float16* b_transposed, float* c, int n) {
  __shared__ _Float16 left[kSide][kStep + kPad], right[kSide][kStep + kPad];
  int tiles = n / kSide, w = group_number(tiles * tiles, chunked);
  int top = w / tiles * kSide, first = w % tiles * kSide;
  int wave = threadIdx.x / 64, lane = threadIdx.x % 64;
  int row = wave / 2 * 64, column = wave % 2 * 64;
  Float32x16 sum[2][2] = {};
  for (int k = 0; k < n; k += kStep) {
    for (int part = 0; part < 2; ++part) {
      int y = part * 64 + threadIdx.x / 4, x = threadIdx.x % 4 * 8;
      *(Half8*)&left[y][x] = *(const Half8*)(a + (size_t)(top + y) * n + k + x);
      *(Half8*)&right[y][x] = *(const Half8*)(b_transposed + (size_t)(first + y) * n + k + x);
    }
    __syncthreads();
    for (int s = 0; s < kStep; s += 8) {
      for (int i = 0; i < 2; ++i) {
        for (int j = 0; j < 2; ++j) {
          Float16x4 x = *(Float16x4*)&left[row + i * 32 + lane % 32][s + lane / 32 * 4];
          Float16x4 y = *(Float16x4*)&right[column + j * 32 + lane % 32][s + lane / 32 * 4];
          sum[i][j] = __builtin_amdgcn_mfma_f32_32x32x8f16(x, y, sum[i][j], 0, 0, 0);
        }
      }
    }
    __syncthreads();
  }
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 2; ++j) {
      for (int e = 0; e < 16; ++e) {
        int y = top + row + i * 32 + e / 4 * 8 + lane / 32 * 4 + e % 4, x = first + column + j * 32 + lane % 32;
        c[(size_t)y * n + x] = sum[i][j][e];
      }
    }
  }
}
extern "C" __global__ __launch_bounds__(256) void gemm_plain(const _Float16* a, const _Float16* b, float* c, int n) {
  gemm<false>(a, b, c, n);
}
extern "C" __global__ __launch_bounds__(256) void gemm_chunked(const _Float16* a, const _Float16* b, float* c, int n) {
  gemm<true>(a, b, c, n);
}

// Softmax of one row of 4096 halves per work-group of 256: read once, kept in registers, written once.
template <bool chunked>
__device__ void softmax(const _Float16* in, _Float16* out, int rows) {
  __shared__ float waves[4];
  constexpr int kEach = 4;  // vectors of four per lane
  size_t row = (size_t)group_number(rows, chunked) * (256 * kEach * kVector);
  Half4 values[kEach];
  float sum = 0;
  for (int i = 0; i < kEach; ++i) {
    values[i] = *(const Half4*)(in + row + (i * 256 + threadIdx.x) * kVector);
    for (int e = 0; e < kVector; ++e) sum += __expf((float)values[i][e]);
  }
  for (int lane = 32; lane > 0; lane /= 2) sum += __shfl_xor(sum, lane);
  if (threadIdx.x % 64 == 0) waves[threadIdx.x / 64] = sum;
  __syncthreads();
  float scale = 1 / (waves[0] + waves[1] + waves[2] + waves[3]);
  for (int i = 0; i < kEach; ++i) {
    for (int e = 0; e < kVector; ++e) values[i][e] = (_Float16)(__expf((float)values[i][e]) * scale);
    *(Half4*)(out + row + (i * 256 + threadIdx.x) * kVector) = values[i];
  }
}
extern "C" __global__ void softmax_plain(const _Float16* in, _Float16* out, int rows) { softmax<false>(in, out, rows); }
extern "C" __global__ void softmax_chunked(const _Float16* in, _Float16* out, int rows) { softmax<true>(in, out, rows); }
