// D2Q9 lattice Boltzmann on a periodic plane, the nine distributions of a cell side by side: lanes are 36 bytes apart in
// each of eighteen accesses.
//
// step: lattice_boltzmann 1 lattice_boltzmann_structs
// paradigm: per-thread
// bound: gfx90a l2, gfx942 vl1d
// check: 64 64
#include <hip/hip_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

__constant__ constexpr int kX[9] = {0, 1, 0, -1, 0, 1, -1, -1, 1}, kY[9] = {0, 0, 1, 0, -1, 1, 1, -1, -1};
constexpr float kOmega = 1.2f;

__host__ __device__ void collide(float (&f)[9]) {
  float rho = 0, ux = 0, uy = 0;
  for (int q = 0; q < 9; ++q) rho += f[q], ux += f[q] * kX[q], uy += f[q] * kY[q];
  ux /= rho;
  uy /= rho;
  for (int q = 0; q < 9; ++q) {
    const float weight = q == 0 ? 4.0f / 9 : q < 5 ? 1.0f / 9 : 1.0f / 36, cu = 3 * (kX[q] * ux + kY[q] * uy);
    f[q] += kOmega * (weight * rho * (1 + cu + 0.5f * cu * cu - 1.5f * (ux * ux + uy * uy)) - f[q]);
  }
}

struct Cell {
  float f[9];
};

__host__ __device__ void step(const Cell* from, Cell* to, int x, int y, int w, int h) {
  float f[9];
  for (int q = 0; q < 9; ++q) f[q] = from[(y - kY[q] + h) % h * w + (x - kX[q] + w) % w].f[q];
  collide(f);
  for (int q = 0; q < 9; ++q) to[y * w + x].f[q] = f[q];
}

__global__ void stream_collide(const Cell* from, Cell* to, int w, int h) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
  if (x < w) step(from, to, x, y, w, h);
}

int main(int argc, char** argv) {
  const int w = argc > 1 ? std::atoi(argv[1]) : 1024, h = argc > 2 ? std::atoi(argv[2]) : 1024;
  std::vector<Cell> a(w * h), b(w * h);
  for (int i = 0; i < w * h; ++i)
    for (int q = 0; q < 9; ++q) a[i].f[q] = 0.1f + 0.001f * ((i + q * q) % 17);
  Cell *da, *db;
  if (hipMalloc(&da, a.size() * sizeof(Cell)) != hipSuccess || hipMalloc(&db, a.size() * sizeof(Cell)) != hipSuccess) return 1;
  (void)hipMemcpy(da, a.data(), a.size() * sizeof(Cell), hipMemcpyHostToDevice);
  stream_collide<<<dim3((w + 127) / 128, h), 128>>>(da, db, w, h);
  (void)hipMemcpy(b.data(), db, b.size() * sizeof(Cell), hipMemcpyDeviceToHost);
  std::vector<Cell> want(w * h);
  for (int i = 0; i < w * h; i += 13) {
    step(a.data(), want.data(), i % w, i / w, w, h);
    for (int q = 0; q < 9; ++q)
      if (std::fabs(want[i].f[q] - b[i].f[q]) > 1e-5f) return std::printf("FAIL: cell %d\n", i), EXIT_FAILURE;
  }
  std::printf("PASS\n");
  return EXIT_SUCCESS;
}
