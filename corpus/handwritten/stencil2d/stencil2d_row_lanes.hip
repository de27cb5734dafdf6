// The same Laplacian with lanes along a row: each access of a wavefront is two or three lines, and neighbours are vL1D
// hits.
//
// step: stencil2d 2 stencil2d_row_lanes, after stencil2d_column_lanes
// paradigm: per-thread
// bound: gfx90a hbm, gfx942 dispatch
// moves: TCP_TOTAL_CACHE_ACCESSES down, TCC_REQ down, Duration down
// check: 130
#include <hip/hip_runtime.h>

#include <cmath>
#include <cstdlib>
#include <iostream>
#include <vector>

struct Grid {
  int nx, ny;
  __host__ __device__ int at(int x, int y) const { return y * nx + x; }
};

__global__ void laplacian(Grid g, const float* __restrict__ u, float* __restrict__ out) {
  const int x = 1 + blockIdx.x * blockDim.x + threadIdx.x;
  const int y = 1 + blockIdx.y * blockDim.y + threadIdx.y;
  if (x < g.nx - 1 && y < g.ny - 1)
    out[g.at(x, y)] = u[g.at(x - 1, y)] + u[g.at(x + 1, y)] + u[g.at(x, y - 1)] + u[g.at(x, y + 1)] - 4.f * u[g.at(x, y)];
}

int main(int argc, char** argv) {
  const int n = argc > 1 ? std::atoi(argv[1]) : 3072;
  const Grid g{n, argc > 2 ? std::atoi(argv[2]) : n};
  std::vector<float> u(g.nx * g.ny), got(u.size());
  for (int y = 0; y < g.ny; ++y)
    for (int x = 0; x < g.nx; ++x) u[g.at(x, y)] = static_cast<float>(x * x % 64 + y);
  float *du, *dout;
  hipError_t e = hipMalloc(&du, u.size() * sizeof(float));
  if (e == hipSuccess) e = hipMalloc(&dout, u.size() * sizeof(float));
  if (e == hipSuccess) e = hipMemcpy(du, u.data(), u.size() * sizeof(float), hipMemcpyHostToDevice);
  if (e != hipSuccess) return std::cerr << hipGetErrorString(e) << "\n", 1;
  laplacian<<<dim3((g.nx + 61) / 64, (g.ny + 1) / 4), dim3(64, 4)>>>(g, du, dout);
  e = hipMemcpy(got.data(), dout, got.size() * sizeof(float), hipMemcpyDeviceToHost);
  if (e != hipSuccess) return std::cerr << hipGetErrorString(e) << "\n", 1;
  int wrong = 0;
  for (int y = 1; y < g.ny - 1; y += 2)
    for (int x = 1; x < g.nx - 1; ++x) {
      const float want =
          u[g.at(x - 1, y)] + u[g.at(x + 1, y)] + u[g.at(x, y - 1)] + u[g.at(x, y + 1)] - 4.f * u[g.at(x, y)];
      wrong += std::abs(want - got[g.at(x, y)]) > 0.01f;
    }
  std::cout << (wrong ? "FAIL " : "PASS ") << wrong << "\n";
  return wrong != 0;
}
