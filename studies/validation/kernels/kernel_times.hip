// Kernels equivalent to those of the MI300A recordings: same algorithm, launch shape, element type and access order.
// Parameters that may alias there may alias here, because this decides which values stay in registers.
#include <hip/hip_runtime.h>

__device__ int column() { return blockIdx.x * blockDim.x + threadIdx.x; }
__device__ int row() { return blockIdx.y * blockDim.y + threadIdx.y; }

extern "C" __global__ void vectoradd(float* __restrict__ sum, const float* __restrict__ left,
                                     const float* __restrict__ right, int width, int height) {
  const int at = row() * width + column();
  if (at < width * height) sum[at] = left[at] + right[at];
}

extern "C" __global__ void relu(const int count, float* from, float* to) {
  const int at = column();
  if (at < count) to[at] = from[at] > 0 ? from[at] : 0;
}

// The runtime's kernel for copies within the device: 16 bytes per lane.
extern "C" __global__ void copy(uint4* to, const uint4* from, unsigned long long count) {
  const size_t step = size_t{gridDim.x} * blockDim.x;
  for (size_t i = size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step) to[i] = from[i];
}

// 4 x 4 elements per work-item, tiles of 64 x 64 staged through the LDS, tiles ordered along diagonals.
extern "C" __global__ void matrixtranspose(float4* __restrict__ to, float4* __restrict__ from,
                                           float4* __restrict__ unused, unsigned width, unsigned height,
                                           unsigned tiles, unsigned first_x, unsigned first_y) {
  extern __shared__ float4 tile[];
  const unsigned x = threadIdx.x, y = threadIdx.y, side = blockDim.x;
  const unsigned tile_y = blockIdx.x + first_x, tile_x = (tile_y + blockIdx.y + first_y) % tiles;
  const int source = tile_x * side + x + (tile_y * side + y) * width * 4;
  const int put = y * side * 4 + x, get = x * side * 4 + y;
  tile[put] = from[source];
  tile[put + side] = from[source + width];
  tile[put + side * 2] = from[source + width * 2];
  tile[put + side * 3] = from[source + width * 3];
  __syncthreads();
  const int target = tile_y * side + x + (tile_x * side + y) * height * 4;
  const float4 a = tile[get], b = tile[get + side], c = tile[get + side * 2], d = tile[get + side * 3];
  to[target] = float4{a.x, b.x, c.x, d.x};
  to[target + height] = float4{a.y, b.y, c.y, d.y};
  to[target + height * 2] = float4{a.z, b.z, c.z, d.z};
  to[target + height * 3] = float4{a.w, b.w, c.w, d.w};
}

// One step of all-pairs shortest paths, via node `through`.
extern "C" __global__ void floydwarshall(unsigned* distance, unsigned* path, const unsigned nodes,
                                         const unsigned through) {
  const int x = column(), y = row(), k = through;
  const int known = distance[y * nodes + x];
  const int detour = distance[y * nodes + k] + distance[k * nodes + x];
  if (detour < known) {
    distance[y * nodes + x] = detour;
    path[y * nodes + x] = k;
  }
}

extern "C" __global__ void fir(float* out, float* taps, float* in, float* history, unsigned count) {
  const unsigned at = column();
  float sum = 0.0f;
  for (unsigned i = 0; i < count; ++i) {
    if (at >= i) {
      sum = sum + taps[i] * in[at - i];
    } else {
      sum = sum + taps[i] * history[count - (i - at)];
    }
  }
  out[at] = sum;
}

// Finds the nearest of a few centres for each point; loops over the features.
extern "C" __global__ void kmeans(float* features, float* centres, int* nearest, int points, int clusters, int count,
                                  int offset, int size) {
  const unsigned point = column();
  if (point >= points) return;
  int best = 0;
  float least = 3.40282347e+38f;
  for (int cluster = 0; cluster < clusters; ++cluster) {
    float distance = 0;
    for (int f = 0; f < count; ++f) {
      distance += (features[f * points + point] - centres[cluster * count + f]) *
                  (features[f * points + point] - centres[cluster * count + f]);
    }
    if (distance < least) {
      least = distance;
      best = cluster;
    }
  }
  nearest[point] = best;
}

// Matrix times vector by rows, then its transpose by columns; sums stay in memory because the pointers may alias.
// `steps`: the row or column length, or less when the time is extrapolated.
extern "C" __global__ void atax_rows(float* matrix, float* vector, float* sums, int rows, int columns, int steps) {
  const int i = column();
  if (i >= rows) return;
  for (int j = 0; j < steps; ++j) sums[i] += matrix[i * columns + j] * vector[j];
}
extern "C" __global__ void atax_columns(float* matrix, float* result, float* sums, int rows, int columns, int steps) {
  const int j = column();
  if (j >= columns) return;
  for (int i = 0; i < steps; ++i) result[j] += matrix[i * columns + j] * sums[i];
}

// Nine-point stencil: 16 rows per work-item, 64 columns per work-group, staged through the LDS with a halo.
constexpr int kRows = 16;
__device__ int bordered(int y, int x, int pitch) { return (y + 1) * (pitch + 2) + x + 1; }

extern "C" __global__ void stencil2d(float* from, float* to, const int alignment, float centre, float cardinal,
                                     float diagonal) {
  __shared__ float part[(kRows + 2) * (64 + 2)];
  const int x = threadIdx.y, y = threadIdx.x, width = blockDim.y;
  const int first = blockIdx.x * kRows + y, along = blockIdx.y * width + x;
  const int columns = gridDim.y * width + 2;
  const int pitch = columns + (columns % alignment == 0 ? 0 : alignment - columns % alignment) - 2;
  const auto bring = [&](int shift) {
    for (int i = 0; i < kRows + 2; ++i) {
      part[bordered(y - 1 + i, x + shift, width)] = from[bordered(first - 1 + i, along + shift, pitch)];
    }
  };
  bring(0);
  if (x == 0) {
    bring(-1);
  } else if (x == width - 1) {
    bring(1);
  }
  __syncthreads();
  const auto at = [&](int dy, int dx) { return part[bordered(y + dy, x + dx, width)]; };
  for (int i = 0; i < kRows; ++i) {
    const float middle = at(i, 0);
    const float beside = at(i - 1, 0) + at(i + 1, 0) + at(i, 1) + at(i, -1);
    const float across = at(i - 1, 1) + at(i + 1, 1) + at(i - 1, -1) + at(i + 1, -1);
    to[bordered(first + i, along, pitch)] = centre * middle + cardinal * beside + diagonal * across;
  }
}

// 4 x 4 elements per work-item; a tile of the left matrix is staged through global memory shared by all work-groups.
extern "C" __global__ void matrixmultiplication(float4* left, float4* right, float4* product, int width, float4* tile,
                                                int depth) {
  const int x = threadIdx.x, y = threadIdx.y, side = blockDim.x;
  const int all = gridDim.x * side, quarter = width / 4;
  const int put = x + side * (y << 2);
  float4 sum[4] = {};
  for (int step = 0; step < depth / 4 / side; ++step) {
    const int source = step * side + x + (y << 2) * quarter;
    tile[put] = left[source];
    tile[put + side] = left[source + quarter];
    tile[put + 2 * side] = left[source + 2 * quarter];
    tile[put + 3 * side] = left[source + 3 * quarter];
    __syncthreads();
    const int below = column() + (step * side << 2) * all;
    for (int j = 0; j < side * 4; j += 4) {
      float4 a[4];
      for (int k = 0; k < 4; ++k) a[k] = tile[(j >> 2) + (y * 4 + k) * side];
      const float4 b0 = right[below + j * all], b1 = right[below + (j + 1) * all], b2 = right[below + (j + 2) * all],
                   b3 = right[below + (j + 3) * all];
      __builtin_amdgcn_sched_barrier(0);  // the recorded times show one memory round trip here, not one per load
      for (int k = 0; k < 4; ++k) {
        sum[k].x += a[k].x * b0.x + a[k].y * b1.x + a[k].z * b2.x + a[k].w * b3.x;
        sum[k].y += a[k].x * b0.y + a[k].y * b1.y + a[k].z * b2.y + a[k].w * b3.y;
        sum[k].z += a[k].x * b0.z + a[k].y * b1.z + a[k].z * b2.z + a[k].w * b3.z;
        sum[k].w += a[k].x * b0.w + a[k].y * b1.w + a[k].z * b2.w + a[k].w * b3.w;
      }
    }
    __syncthreads();
  }
  const int target = column() + (row() << 2) * all;
  for (int k = 0; k < 4; ++k) product[target + k * all] = sum[k];
}

// All pairs of bodies; tiles of positions are staged through global memory shared by all work-groups.
extern "C" __global__ void nbody(float4* position, float4* velocity, int bodies, float step, float softening,
                                 float4* tile, float4* new_position, float4* new_velocity) {
  const unsigned me = threadIdx.x, body = column(), size = blockDim.x, tiles = bodies / size;
  const float4 here = position[body];
  float4 pull = {};
  for (int i = 0; i < static_cast<int>(tiles); ++i) {
    const int from = i * size + me;
    tile[me] = position[from];
    __syncthreads();
    for (unsigned j = 0; j < size; ++j) {
      const float x = tile[j].x - here.x, y = tile[j].y - here.y, z = tile[j].z - here.z;
      const float square = x * x + y * y + z * z, inverse = 1.0f / sqrtf(square + softening);
      const float weight = tile[j].w * (inverse * inverse * inverse);
      pull.x += weight * x;
      pull.y += weight * y;
      pull.z += weight * z;
    }
    __syncthreads();
  }
  const float4 before = velocity[body];
  new_position[body] = float4{here.x + before.x * step + pull.x * 0.5f * step * step,
                              here.y + before.y * step + pull.y * 0.5f * step * step,
                              here.z + before.z * step + pull.z * 0.5f * step * step, here.w};
  new_velocity[body] =
      float4{before.x + pull.x * step, before.y + pull.y * step, before.z + pull.z * step, before.w};
}
