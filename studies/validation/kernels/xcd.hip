// Kernels, shaped like recorded ones, whose L2 hit rate depends on the XCD of a work-group: work-group w runs on XCD
// w % 8, tiles are numbered down the columns of the matrix. Each exists unchanged and with renumbered work-groups.
#include <hip/hip_fp16.h>
#include <hip/hip_runtime.h>

constexpr int kXcds = 8, kTile = 32, kVector = 4;
using Half4 = _Float16 __attribute__((ext_vector_type(4)));

// Gives each XCD a contiguous eighth of `count` items.
__device__ int chunk(int number, int count) { return number % kXcds * (count / kXcds) + number / kXcds; }

struct Tile {
  int row, column;
};

// `chunked` numbers tiles along the rows and gives each eighth of them to the work-groups of one remainder modulo 8,
// which is a column of tiles for the work-groups of one XCD; `banded` gives an XCD 32 consecutive rows of tiles.
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

// A separate load per neighbour, as in the recorded program, even if another lane loads the same element.
__device__ _Float16 alone(const _Float16* at) {
  auto* global = (const __attribute__((address_space(1))) _Float16*)at;
  asm("" : "+v"(global));
  return *global;
}

// Five-point stencil on a matrix of halves; a work-group of 256 computes a tile of 32 x 32.
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

// C = A * B in halves with matrix instructions, in steps of 64 along K; a work-group of 256 computes tiles of
// kRows x 256, numbered down the columns of bands of eight.
using Half8 = _Float16 __attribute__((ext_vector_type(8)));
using Float32x16 = float __attribute__((ext_vector_type(16)));
constexpr int kStep = 64, kSlice = 8, kBand = 8, kColumns = 256, kDown = 4, kBlock = 32;

struct Product {
  const _Float16 *a, *b;
  _Float16* c;
  float* parts;
  int n;
};

// Emulates a build that spills registers: explicit scratch accesses, independent of the compiler's register allocation.
// All words are written before a tile and read after it. The words reloaded in each step are every second one, as in
// the recorded build; most are zeros, and they are added to the LDS indices.
struct Spilled {
  static constexpr int kWords = 369, kApart = 2, kAddresses = 8;
  using Word = volatile __attribute__((address_space(5))) int;
  using Address = volatile __attribute__((address_space(5))) long;
  Word* words;
  __device__ void clear() {
    for (int i = 0; i < kWords; ++i) words[i] = 0;
  }
  __device__ void read() {
    for (int i = 0; i < kWords; ++i) (void)words[i];
  }
  __device__ Address& row(int part) { return ((Address*)words)[part]; }
  __device__ int zero(int i) { return words[2 * kAddresses + kApart * i]; }
};
// The same interface for a build without spills.
struct Kept {
  long rows[Spilled::kAddresses];
  __device__ void clear() {}
  __device__ void read() {}
  __device__ long& row(int part) { return rows[part]; }
  __device__ int zero(int) { return 0; }
};

// Parameters in which the two recorded programs differ: rows of a tile, how many of the four waves are stacked along
// the rows, and how much of B a lane loads at a time.
template <int rows, int waves_down, class FromB, class Registers>
struct Gemm {
  static constexpr int kRows = rows, kAcross = kColumns * waves_down / 4 / kBlock,
                       kWidth = sizeof(FromB) / sizeof(_Float16);
  static constexpr int kPartsA = kRows / 32, kPartsB = kStep / kWidth;
  using Sum = Float32x16[kDown][kAcross];

  // First row and column of the calling wave in the tile.
  static __device__ Tile corner() {
    int wave = threadIdx.x / 64;
    return {wave * waves_down / 4 * kDown * kBlock, wave % (4 / waves_down) * kAcross * kBlock};
  }

  static __device__ void add_steps(const Product& p, Tile tile, int first, int last, Registers& kept, Sum& sum) {
    __shared__ _Float16 left[kRows][kStep], right[kStep][kColumns];
    int lane = threadIdx.x % 64, row = corner().row + lane % 32, column = corner().column + lane % 32;
    int y = threadIdx.x / 8, x = threadIdx.x % 8 * 8;
    int k = threadIdx.x * kWidth / kColumns, at = threadIdx.x * kWidth % kColumns;
    kept.clear();
#pragma unroll
    for (int i = 0; i < kPartsA; ++i) kept.row(i) = (long)(tile.row * kRows + i * 32 + y) * p.n + x;
#pragma unroll 1
    for (int step = first; step < last; ++step) {
      const _Float16* from_b = p.b + (long)(step * kStep + k) * p.n + tile.column * kColumns + at;
      Half8 a[kPartsA];
      FromB b[kPartsB];
#pragma unroll
      for (int i = 0; i < kPartsB; ++i) b[i] = *(const FromB*)(from_b + (long)i * kWidth * p.n);
#pragma unroll
      for (int i = 0; i < kPartsA; ++i) a[i] = *(const Half8*)(p.a + kept.row(i) + step * kStep);
      __syncthreads();
#pragma unroll
      for (int i = 0; i < kPartsB; ++i) *(FromB*)&right[i * kWidth + k][at] = b[i];
#pragma unroll
      for (int i = 0; i < kPartsA; ++i) *(Half8*)&left[i * 32 + y][x] = a[i];
      __syncthreads();
#pragma unroll 1
      for (int s = 0; s < kStep / kSlice; ++s) add_slice(left, right, row, column, s, kept, sum);
    }
    kept.read();
  }

  static __device__ void add_slice(const _Float16 (&left)[kRows][kStep], const _Float16 (&right)[kStep][kColumns],
                                   int row, int column, int s, Registers& kept, Sum& sum) {
    int k = s * kSlice + threadIdx.x % 64 / 32 * 4;
    Half4 u[kDown], v[kAcross];
#pragma unroll
    for (int i = 0; i < kDown; ++i) u[i] = *(const Half4*)&left[row + i * kBlock][k + kept.zero(s * kDown + i)];
#pragma unroll
    for (int j = 0; j < kAcross; ++j) {
#pragma unroll
      for (int e = 0; e < 4; ++e) v[j][e] = right[k + e][column + j * kBlock];
    }
#pragma unroll
    for (int i = 0; i < kDown; ++i) {
#pragma unroll
      for (int j = 0; j < kAcross; ++j)
        sum[i][j] = __builtin_amdgcn_mfma_f32_32x32x8f16(v[j], u[i], sum[i][j], 0, 0, 0);
    }
  }

  // A lane holds groups of four neighbouring elements of one row; the groups are eight columns apart.
  template <class T>
  static __device__ void put(T* to, int pitch, const Sum& sum) {
    using Four = T __attribute__((ext_vector_type(4)));
    int lane = threadIdx.x % 64;
    to += (long)(corner().row + lane % 32) * pitch + corner().column + lane / 32 * 4;
#pragma unroll
    for (int i = 0; i < kDown; ++i) {
#pragma unroll
      for (int j = 0; j < kAcross; ++j) {
#pragma unroll
        for (int e = 0; e < 16; e += 4) {
          Four four = {(T)sum[i][j][e], (T)sum[i][j][e + 1], (T)sum[i][j][e + 2], (T)sum[i][j][e + 3]};
          *(Four*)(to + (long)i * kBlock * pitch + j * kBlock + e * 2) = four;
        }
      }
    }
  }

  static __device__ void put_tile(const Product& p, Tile tile, const Sum& sum) {
    put(p.c + (long)tile.row * kRows * p.n + tile.column * kColumns, p.n, sum);
  }
};

__device__ Tile tile_in_bands(int number, int columns) {
  int band = number / (kBand * columns), within = number % (kBand * columns);
  return {band * kBand + within % kBand, within / kBand};
}

// One work-group per tile.
using ByTiles = Gemm<128, 1, Half8, Kept>;
__device__ void tiles_product(const Product& p, Tile tile) {
  Kept kept;
  ByTiles::Sum sum = {};
  ByTiles::add_steps(p, tile, 0, p.n / kStep, kept, sum);
  ByTiles::put_tile(p, tile, sum);
}
#define TILES(form, tile)                                                    \
  extern "C" __global__ __launch_bounds__(256) void gemm_##form(Product p) { \
    int columns = p.n / kColumns;                                            \
    tiles_product(p, tile);                                                  \
  }
TILES(plain, tile_in_bands(blockIdx.x, columns))
TILES(chunked, tile_in_bands(chunk(blockIdx.x, gridDim.x), columns))
// Numbers a tile along the rows and renumbers it into contiguous eighths: of tiles ordered in bands, an XCD then works
// on eight rows and four columns at a time.
__device__ Tile rechunked(Tile tile, int columns, int count) {
  int number = chunk(tile.row * columns + tile.column, count);
  return {number / columns, number % columns};
}
TILES(rechunked, rechunked(tile_in_bands(blockIdx.x, columns), columns, gridDim.x))

// One work-group per CU loops over tiles. The remaining tiles, fewer than work-groups, are split by steps along K;
// partial sums of a tile are stored in `parts`.
using Persistent = Gemm<256, 2, _Float16, Spilled>;
__device__ void persistent_product(const Product& p, int name) {
  int memory[Spilled::kWords];
  Spilled spilled{(Spilled::Word*)memory};
  int columns = p.n / kColumns, tiles = p.n / Persistent::kRows * columns, steps = p.n / kStep, groups = gridDim.x;
  int whole = tiles / groups * groups, shared = (tiles - whole) * steps;
  int begin = whole * steps + (int)((long)shared * name / groups);
  int end = whole * steps + (int)((long)shared * (name + 1) / groups);
#pragma unroll 1
  for (int number = name; number < whole || begin < end; number += groups) {
    int first = 0, last = steps, own = number;
    if (number >= whole) {
      own = begin / steps, first = begin % steps;
      last = min(steps, first + end - begin);
      begin += last - first;
    }
    Tile tile = tile_in_bands(own, columns);
    Persistent::Sum sum = {};
    Persistent::add_steps(p, tile, first, last, spilled, sum);
    if (last - first == steps) {
      Persistent::put_tile(p, tile, sum);
    } else {
      Persistent::put(p.parts + (long)name * Persistent::kRows * kColumns, kColumns, sum);
    }
  }
}
#define PERSISTENT(form, name) \
  extern "C" __global__ __launch_bounds__(256) void persistent_##form(Product p) { persistent_product(p, name); }
PERSISTENT(plain, blockIdx.x)
PERSISTENT(chunked, chunk(blockIdx.x, gridDim.x))
PERSISTENT(dealt, blockIdx.x % (gridDim.x / kXcds) * kXcds + blockIdx.x / (gridDim.x / kXcds))

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
