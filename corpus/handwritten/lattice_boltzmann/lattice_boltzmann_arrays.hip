// One plane per distribution: the same arithmetic and bytes, but every access of a wavefront is along one row.
//
// step: lattice_boltzmann 2 lattice_boltzmann_arrays, after lattice_boltzmann_structs
// paradigm: per-thread
// bound: gfx90a hbm, gfx942 infinity
// moves: TCP_TOTAL_CACHE_ACCESSES down, TCC_REQ down, Duration down
// check: 64 64
#include <hip/hip_runtime.h>

#include <cmath>
#include <cstdlib>
#include <iostream>
#include <vector>

struct Lattice {
  int w, h;
  __host__ __device__ int at(int q, int x, int y) const { return (q * h + y) * w + x; }
};

// Pulls the nine distributions of (x, y) from its neighbours, relaxes them, and writes them to the cell.
__host__ __device__ inline void relax(Lattice l, const float* from, float* to, int x, int y) {
  const int east = x + 1 == l.w ? 0 : x + 1, west = x == 0 ? l.w - 1 : x - 1;
  const int north = y + 1 == l.h ? 0 : y + 1, south = y == 0 ? l.h - 1 : y - 1;
  float f[9] = {from[l.at(0, x, y)],        from[l.at(1, west, y)],     from[l.at(2, x, south)],
                from[l.at(3, east, y)],     from[l.at(4, x, north)],    from[l.at(5, west, south)],
                from[l.at(6, east, south)], from[l.at(7, east, north)], from[l.at(8, west, north)]};
  const float rho = f[0] + f[1] + f[2] + f[3] + f[4] + f[5] + f[6] + f[7] + f[8];
  const float ux = (f[1] - f[3] + f[5] - f[6] - f[7] + f[8]) / rho, uy = (f[2] - f[4] + f[5] + f[6] - f[7] - f[8]) / rho;
  const float still = 1 - 1.5f * (ux * ux + uy * uy), toward[9] = {0, ux, uy, -ux, -uy, ux + uy, uy - ux, -ux - uy, ux - uy};
#pragma unroll
  for (int q = 0; q < 9; ++q) {
    const float weight = q == 0 ? 4.0f / 9 : q < 5 ? 1.0f / 9 : 1.0f / 36, c = 3 * toward[q];
    to[l.at(q, x, y)] = f[q] - 1.2f * (f[q] - weight * rho * (still + c + 0.5f * c * c));
  }
}

__global__ void sweep(Lattice l, const float* from, float* to) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
  if (x < l.w) relax(l, from, to, x, y);
}

int main(int argc, char** argv) {
  const Lattice l{argc > 1 ? std::atoi(argv[1]) : 1024, argc > 2 ? std::atoi(argv[2]) : 1024};
  std::vector<float> a(9 * l.w * l.h), b(a.size()), want(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = 0.1f + 0.002f * (i % 23);
  float *da = nullptr, *db = nullptr;
  for (float** p : {&da, &db}) {
    if (hipMalloc(p, a.size() * sizeof(float)) == hipSuccess) continue;
    std::cerr << "no memory\n";
    return 2;
  }
  (void)hipMemcpy(da, a.data(), a.size() * sizeof(float), hipMemcpyHostToDevice);
  sweep<<<dim3((l.w + 127) / 128, l.h), 128>>>(l, da, db);
  (void)hipMemcpy(b.data(), db, b.size() * sizeof(float), hipMemcpyDeviceToHost);
  bool ok = true;
  for (int y = 0; y < l.h; y += 3)
    for (int x = 0; x < l.w; ++x) {
      relax(l, a.data(), want.data(), x, y);
      for (int q = 0; q < 9; ++q) ok = ok && std::abs(want[l.at(q, x, y)] - b[l.at(q, x, y)]) < 1e-5f;
    }
  std::cout << (ok ? "PASS" : "FAIL") << "\n";
  return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
