// Kernels whose L2 hit rate depends on which XCD a work-group runs on, in the shape of recorded ones: work-group w runs
// on XCD w % 8, tiles run down the columns of the matrix. Each is there as it comes and with its work-groups renamed.
#include <hip/hip_fp16.h>
#include <hip/hip_runtime.h>

constexpr int kXcds = 8, kTile = 32, kVector = 4;
using Half4 = _Float16 __attribute__((ext_vector_type(4)));

// The eighth of `count` things that belong to the XCD, one after the other.
__device__ int chunk(int number, int count) { return number % kXcds * (count / kXcds) + number / kXcds; }

struct Tile {
  int row, column;
};

// `chunked` counts tiles along the rows and gives each eighth of them to the work-groups of one remainder modulo eight,
// which is a column of tiles for the work-groups of one XCD; `banded` gives an XCD 32 rows of tiles, one after another.
enum class Names { plain, chunked, banded };
template <Names names>
__device__ Tile tile_of(int w, int tiles) {
  int number = w % tiles * tiles + w / tiles;
  if (names == Names::chunked) number = chunk(number, tiles * tiles);
  if (names == Names::banded) {
    int round = number / kXcds;
    number = round % tiles * tiles + round / tiles * kXcds + number % kXcds;
  }
  return {number / tiles, number % tiles};
}

// A load of its own, as the recorded program has one for each neighbour, even where another has read the same.
__device__ _Float16 alone(const _Float16* at) {
  auto* global = (const __attribute__((address_space(1))) _Float16*)at;
  asm("" : "+v"(global));
  return *global;
}

// Five points of a matrix of halves; a work-group of 256 does a tile of 32 x 32.
template <Names names>
__device__ void stencil(const _Float16* in, _Float16* out, int n) {
  Tile tile = tile_of<names>(blockIdx.x, n / kTile);
  int row = tile.row * kTile + threadIdx.x / (kTile / kVector);
  int column = tile.column * kTile + threadIdx.x % (kTile / kVector) * kVector;
  const _Float16* here = in + (size_t)row * n + column;
  Half4 zero = {0, 0, 0, 0};
  Half4 middle = *(const Half4*)here;
  Half4 up = row > 0 ? *(const Half4*)(here - n) : zero;
  Half4 down = row + 1 < n ? *(const Half4*)(here + n) : zero;
  Half4 left, right;
  for (int i = 0; i < kVector; ++i) {
    left[i] = column + i > 0 ? alone(here + i - 1) : (_Float16)0;
    right[i] = column + i + 1 < n ? alone(here + i + 1) : (_Float16)0;
  }
  Half4 sum = (_Float16)0.5f * middle + (_Float16)0.125f * (up + down + left + right);
  *(Half4*)(out + (size_t)row * n + column) = sum;
}
#define STENCIL(names)                                                                   \
  extern "C" __global__ void stencil_##names(const _Float16* in, _Float16* out, int n) { \
    stencil<Names::names>(in, out, n);                                                   \
  }
STENCIL(plain)
STENCIL(chunked)
STENCIL(banded)

// Transposes a matrix of halves through the LDS, tiles of 32 x 32 as above.
template <Names names>
__device__ void transpose(const _Float16* in, _Float16* out, int n) {
  __shared__ _Float16 values[kTile][kTile + 2];
  Tile tile = tile_of<names>(blockIdx.x, n / kTile);
  int top = tile.row * kTile, left = tile.column * kTile;
  int y = threadIdx.x / (kTile / kVector), x = threadIdx.x % (kTile / kVector) * kVector;
  Half4 four = *(const Half4*)(in + (size_t)(top + y) * n + left + x);
  for (int i = 0; i < kVector; ++i) values[x + i][y] = four[i];
  __syncthreads();
  for (int i = 0; i < kVector; ++i) four[i] = values[y][x + i];
  *(Half4*)(out + (size_t)(left + y) * n + top + x) = four;
}
extern "C" __global__ void transpose_plain(const _Float16* in, _Float16* out, int n) {
  transpose<Names::plain>(in, out, n);
}
extern "C" __global__ void transpose_chunked(const _Float16* in, _Float16* out, int n) {
  transpose<Names::chunked>(in, out, n);
}

// C = A * B in halves with matrix instructions: a work-group of 256 does 128 x 128, in steps of 32 along K.
using Float32x16 = float __attribute__((ext_vector_type(16)));
constexpr int kSide = 128, kStep = 32, kPad = 8;
using Half8 = _Float16 __attribute__((ext_vector_type(8)));

__device__ void gemm(const _Float16* a, const _Float16* b_transposed, float* c, int n, int w) {
  __shared__ _Float16 left[kSide][kStep + kPad], right[kSide][kStep + kPad];
  int tiles = n / kSide;
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
          Half4 x = *(Half4*)&left[row + i * 32 + lane % 32][s + lane / 32 * 4];
          Half4 y = *(Half4*)&right[column + j * 32 + lane % 32][s + lane / 32 * 4];
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
  gemm(a, b, c, n, blockIdx.x);
}
extern "C" __global__ __launch_bounds__(256) void gemm_chunked(const _Float16* a, const _Float16* b, float* c, int n) {
  gemm(a, b, c, n, chunk(blockIdx.x, gridDim.x));
}

// Softmax of one row of 4096 halves per work-group of 256: read once, kept in registers, written once.
__device__ void softmax(const _Float16* in, _Float16* out, int number) {
  __shared__ float waves[4];
  constexpr int kEach = 4;  // vectors of four per lane
  size_t row = (size_t)number * (256 * kEach * kVector);
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
extern "C" __global__ void softmax_plain(const _Float16* in, _Float16* out, int rows) { softmax(in, out, blockIdx.x); }
extern "C" __global__ void softmax_chunked(const _Float16* in, _Float16* out, int rows) {
  softmax(in, out, chunk(blockIdx.x, rows));
}
