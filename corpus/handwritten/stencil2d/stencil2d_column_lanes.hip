// Five-point Laplacian with neighbouring lanes down a column: every access of a wavefront touches 16 rows for four columns.
//
// step: stencil2d 1 stencil2d_column_lanes
// paradigm: per-thread
// bound: gfx90a l2, gfx942 vl1d
// check: 130
#include <hip/hip_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

__global__ void laplace(const float* u, float* v, int n) {
  const int y = blockIdx.x * blockDim.x + threadIdx.x + 1, x = blockIdx.y * blockDim.y + threadIdx.y + 1;
  if (x >= n - 1 || y >= n - 1) return;
  const int i = y * n + x;
  v[i] = u[i - 1] + u[i + 1] + u[i - n] + u[i + n] - 4 * u[i];
}

int main(int argc, char** argv) {
  const int n = argc > 1 ? std::atoi(argv[1]) : 3072;
  const std::size_t bytes = sizeof(float) * n * n;
  std::vector<float> u(n * n), v(n * n);
  for (int i = 0; i < n * n; ++i) u[i] = std::sin(0.001f * (i % 10007));
  float *du = nullptr, *dv = nullptr;
  if (hipMalloc(&du, bytes) != hipSuccess || hipMalloc(&dv, bytes) != hipSuccess) return EXIT_FAILURE;
  (void)hipMemcpy(du, u.data(), bytes, hipMemcpyHostToDevice);
  laplace<<<dim3((n + 13) / 16, (n + 13) / 16), dim3(16, 16)>>>(du, dv, n);
  (void)hipMemcpy(v.data(), dv, bytes, hipMemcpyDeviceToHost);
  double worst = 0;
  for (int y = 1; y < n - 1; y += 3)
    for (int x = 1; x < n - 1; ++x) {
      const int i = y * n + x;
      worst = std::fmax(worst, std::fabs(u[i - 1] + u[i + 1] + u[i - n] + u[i + n] - 4 * u[i] - v[i]));
    }
  std::printf("%s, largest error %g\n", worst < 1e-5 ? "PASS" : "FAIL", worst);
  return worst < 1e-5 ? EXIT_SUCCESS : EXIT_FAILURE;
}
