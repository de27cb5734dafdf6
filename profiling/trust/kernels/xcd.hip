// Kernels whose L2 hit rate depends on which XCD a work-group runs on, in the shape of recorded ones: work-group w runs on
// XCD w % 8, tiles run down the columns of the matrix. Each is there as it comes and with its work-groups renamed.
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
#define STENCIL(names)                                                                      \
  extern "C" __global__ void stencil_##names(const _Float16* in, _Float16* out, int n) { \
    stencil<Names::names>(in, out, n);                                                      \
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

// C = A * B in halves with matrix instructions. One work-group of 256 per CU does tiles of 256 x 256 one after the other,
// in steps of 64 along K; tiles are counted down the columns of bands of eight. What is left when every work-group has
// done as many is shared out by steps; sums of parts of a tile stay in `parts`.
using Float32x16 = float __attribute__((ext_vector_type(16)));
using Half8 = _Float16 __attribute__((ext_vector_type(8)));
constexpr int kSide = 256, kStep = 64, kBand = 8, kBlocks = 4, kBlock = 32;

struct Product {
  const _Float16 *a, *b;
  _Float16* c;
  float* parts;
  int n;
};

__device__ Tile tile_in_bands(int number, int tiles) {
  int band = number / (kBand * tiles), within = number % (kBand * tiles);
  return {band * kBand + within % kBand, within / kBand};
}

__device__ void add_steps(const Product& p, Tile tile, int first, int last, Float32x16 (&sum)[kBlocks][kBlocks]) {
  __shared__ _Float16 left[kSide][kStep], right[kStep][kSide];
  int wave = threadIdx.x / 64, lane = threadIdx.x % 64;
  int row = wave / 2 * kSide / 2, column = wave % 2 * kSide / 2;
  for (int step = first; step < last; ++step) {
    for (int part = 0; part < 8; ++part) {
      int y = part * 32 + threadIdx.x / 8, x = threadIdx.x % 8 * 8;
      *(Half8*)&left[y][x] = *(const Half8*)(p.a + (size_t)(tile.row * kSide + y) * p.n + step * kStep + x);
      int k = part * 8 + threadIdx.x / 32, at = threadIdx.x % 32 * 8;
      *(Half8*)&right[k][at] = *(const Half8*)(p.b + (size_t)(step * kStep + k) * p.n + tile.column * kSide + at);
    }
    __syncthreads();
    for (int s = 0; s < kStep; s += 8) {
      int k = s + lane / 32 * 4;
      Half4 x[kBlocks], y[kBlocks];
      for (int i = 0; i < kBlocks; ++i) {
        x[i] = *(Half4*)&left[row + i * kBlock + lane % 32][k];
        for (int e = 0; e < 4; ++e) y[i][e] = right[k + e][column + i * kBlock + lane % 32];
      }
      for (int i = 0; i < kBlocks; ++i) {
        for (int j = 0; j < kBlocks; ++j) sum[i][j] = __builtin_amdgcn_mfma_f32_32x32x8f16(y[j], x[i], sum[i][j], 0, 0, 0);
      }
    }
    __syncthreads();
  }
}

// A lane has four neighbours of one row, eight columns apart.
template <class T>
__device__ void put(T* to, int pitch, const Float32x16 (&sum)[kBlocks][kBlocks]) {
  using Four = T __attribute__((ext_vector_type(4)));
  int wave = threadIdx.x / 64, lane = threadIdx.x % 64;
  to += (size_t)(wave / 2 * kSide / 2 + lane % 32) * pitch + wave % 2 * kSide / 2 + lane / 32 * 4;
  for (int i = 0; i < kBlocks; ++i) {
    for (int j = 0; j < kBlocks; ++j) {
      for (int e = 0; e < 16; e += 4) {
        Four four = {(T)sum[i][j][e], (T)sum[i][j][e + 1], (T)sum[i][j][e + 2], (T)sum[i][j][e + 3]};
        *(Four*)(to + (size_t)i * kBlock * pitch + j * kBlock + e * 2) = four;
      }
    }
  }
}

__device__ void product(const Product& p, int name) {
  int tiles = p.n / kSide, steps = p.n / kStep, groups = gridDim.x;
  int whole = tiles * tiles / groups * groups, shared = (tiles * tiles - whole) * steps;
  int begin = whole * steps + (int)((long)shared * name / groups);
  int end = whole * steps + (int)((long)shared * (name + 1) / groups);
  for (int number = name; number < whole || begin < end; number += groups) {
    int first = 0, last = steps, own = number;
    if (number >= whole) {
      own = begin / steps, first = begin % steps;
      last = min(steps, first + end - begin);
      begin += last - first;
    }
    Tile tile = tile_in_bands(own, tiles);
    Float32x16 sum[kBlocks][kBlocks] = {};
    add_steps(p, tile, first, last, sum);
    if (last - first == steps) {
      put(p.c + (size_t)tile.row * kSide * p.n + tile.column * kSide, p.n, sum);
    } else {
      put(p.parts + (size_t)name * kSide * kSide, kSide, sum);
    }
  }
}
extern "C" __global__ __launch_bounds__(256) void gemm_plain(Product p) { product(p, blockIdx.x); }
extern "C" __global__ __launch_bounds__(256) void gemm_chunked(Product p) { product(p, chunk(blockIdx.x, gridDim.x)); }

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
