// Seven-point Laplacian of an nx * ny * nz grid of doubles, in the variants whose L2 traffic was recorded on an MI250X.
#include <hip/hip_runtime.h>

struct Grid {
  int nx, ny, nz;
  double cx, cy, cz, centre;  // weights
};

template <bool streaming>
__device__ void put(double* to, double value) {
  if constexpr (streaming) {
    __builtin_nontemporal_store(value, to);
  } else {
    *to = value;
  }
}

template <bool streaming>
__device__ void point(double* f, const double* u, Grid g) {
  int i = threadIdx.x + blockIdx.x * blockDim.x;
  int j = threadIdx.y + blockIdx.y * blockDim.y;
  int k = threadIdx.z + blockIdx.z * blockDim.z;
  if (i == 0 || j == 0 || k == 0 || i >= g.nx - 1 || j >= g.ny - 1 || k >= g.nz - 1) return;
  int plane = g.nx * g.ny;
  size_t at = i + g.nx * j + plane * k;
  double value = u[at] * g.centre + (u[at - 1] + u[at + 1]) * g.cx + (u[at - g.nx] + u[at + g.nx]) * g.cy +
                 (u[at - plane] + u[at + plane]) * g.cz;
  put<streaming>(f + at, value);
}

// Each lane computes M rows in sequence, reading the neighbours row by row.
template <int M>
__device__ void rows_in_turn(double* f, const double* u, Grid g) {
  int i = threadIdx.x + blockIdx.x * blockDim.x;
  int j = M * (threadIdx.y + blockIdx.y * blockDim.y);
  int k = threadIdx.z + blockIdx.z * blockDim.z;
  if (i == 0 || k == 0 || i >= g.nx - 1 || k >= g.nz - 1) return;
  int plane = g.nx * g.ny;
  size_t at = i + g.nx * j + plane * k;
  double sum[M] = {};
  for (int row = 0; row < M; ++row) {
    const double* here = u + at + row * g.nx;
    double middle = here[0];
    sum[row] += middle * g.centre + (here[-1] + here[1]) * g.cx;
    if (row == 0) sum[row] += here[-g.nx] * g.cy;
    if (row > 0) sum[row - 1] += middle * g.cy;
    if (row < M - 1) sum[row + 1] += middle * g.cy;
    if (row == M - 1) sum[row] += here[g.nx] * g.cy;
    sum[row] += (here[-plane] + here[plane]) * g.cz;
  }
  for (int row = 0; row < M; ++row) {
    if (j + row > 0 && j + row < g.ny - 1) f[at + row * g.nx] = sum[row];
  }
}

// Each lane computes M rows, reading plane by plane in address order.
template <int M, bool streaming>
__device__ void planes_in_turn(double* f, const double* u, Grid g, int i, int j, int k) {
  if (i == 0 || k == 0 || i >= g.nx - 1 || k >= g.nz - 1) return;
  int plane = g.nx * g.ny;
  size_t at = i + g.nx * j + plane * k;
  double sum[M] = {};
  for (int row = 0; row < M; ++row) sum[row] += u[at - plane + row * g.nx] * g.cz;
  sum[0] += j > 0 ? u[at - g.nx] * g.cy : 0;
  for (int row = 0; row < M; ++row) {
    const double* here = u + at + row * g.nx;
    sum[row] += here[-1] * g.cx;
    double middle = here[0];
    sum[row] += middle * g.centre;
    sum[row] += here[1] * g.cx;
    if (row > 0) sum[row - 1] += middle * g.cy;
    if (row < M - 1) sum[row + 1] += middle * g.cy;
  }
  sum[M - 1] += j < g.ny - M ? u[at + M * g.nx] * g.cy : 0;
  for (int row = 0; row < M; ++row) sum[row] += u[at + plane + row * g.nx] * g.cz;
  for (int row = 0; row < M; ++row) {
    if (j + row > 0 && j + row < g.ny - 1) put<streaming>(f + at + row * g.nx, sum[row]);
  }
}

#define ORDERED(name, M, streaming, bounds)                                                    \
  extern "C" __global__ bounds void name(double* f, const double* u, Grid g, int first_row) {  \
    int i = threadIdx.x + blockIdx.x * blockDim.x;                                             \
    int j = first_row + M * (threadIdx.y + blockIdx.y * blockDim.y);                           \
    int k = threadIdx.z + blockIdx.z * blockDim.z;                                             \
    planes_in_turn<M, streaming>(f, u, g, i, j, k);                                            \
  }
#define IN_TURN(name, M)                                                                       \
  extern "C" __global__ void name(double* f, const double* u, Grid g) { rows_in_turn<M>(f, u, g); }
#define BOUNDED __launch_bounds__(256)

extern "C" __global__ void point_plain(double* f, const double* u, Grid g) { point<false>(f, u, g); }
extern "C" __global__ void point_streaming(double* f, const double* u, Grid g) { point<true>(f, u, g); }
IN_TURN(in_turn_1, 1)
IN_TURN(in_turn_2, 2)
IN_TURN(in_turn_4, 4)
IN_TURN(in_turn_8, 8)
IN_TURN(in_turn_16, 16)
ORDERED(ordered_1, 1, false, )
ORDERED(ordered_2, 2, false, )
ORDERED(ordered_4, 4, false, )
ORDERED(ordered_8, 8, false, )
ORDERED(ordered_16, 16, false, )
ORDERED(bounded_1, 1, false, BOUNDED)
ORDERED(bounded_2, 2, false, BOUNDED)
ORDERED(bounded_4, 4, false, BOUNDED)
ORDERED(bounded_8, 8, false, BOUNDED)
ORDERED(bounded_16, 16, false, BOUNDED)
ORDERED(streaming_8, 8, true, BOUNDED)
ORDERED(streaming_8_wide, 8, true, )

// Work-groups run along y, then z, then x.
extern "C" __global__ BOUNDED void turned_8(double* f, const double* u, Grid g) {
  int i = threadIdx.x + blockIdx.z * blockDim.x;
  int j = 8 * (threadIdx.y + blockIdx.x * blockDim.y);
  int k = threadIdx.z + blockIdx.y * blockDim.z;
  planes_in_turn<8, true>(f, u, g, i, j, k);
}
