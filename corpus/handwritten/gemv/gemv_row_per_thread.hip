// Matrix times vector with a row per work-item of a row-major matrix: neighbouring lanes read a row apart, and each line
// must stay in a cache until its 32 elements are used.
//
// step: gemv 1 gemv_row_per_thread
// paradigm: per-thread
// bound: gfx90a l2, gfx942 latency
// check: 300 130
#include <hip/hip_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

__global__ void gemv(const float* a, const float* x, float* y, int rows, int columns) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  float sum = 0;
  for (int c = 0; c < columns; ++c) sum += a[row * columns + c] * x[c];
  y[row] = sum;
}

int main(int argc, char** argv) {
  const int rows = argc > 1 ? std::atoi(argv[1]) : 16384, columns = argc > 2 ? std::atoi(argv[2]) : 1024;
  std::vector<float> a(rows * columns), x(columns), y(rows);
  for (int i = 0; i < rows * columns; ++i) a[i] = static_cast<float>(i % 8);
  for (int c = 0; c < columns; ++c) x[c] = static_cast<float>(c % 4);
  float *da, *dx, *dy;
  if (hipMalloc(&da, a.size() * 4) != hipSuccess || hipMalloc(&dx, columns * 4) != hipSuccess) return 1;
  if (hipMalloc(&dy, rows * 4) != hipSuccess) return 1;
  (void)hipMemcpy(da, a.data(), a.size() * 4, hipMemcpyHostToDevice);
  (void)hipMemcpy(dx, x.data(), columns * 4, hipMemcpyHostToDevice);
  gemv<<<(rows + 63) / 64, 64>>>(da, dx, dy, rows, columns);
  (void)hipMemcpy(y.data(), dy, rows * 4, hipMemcpyDeviceToHost);
  for (int r = 0; r < rows; ++r) {
    double want = 0;
    for (int c = 0; c < columns; ++c) want += a[r * columns + c] * x[c];
    if (std::fabs(want - y[r]) > 1e-3 * want) return std::printf("FAIL: row %d\n", r), EXIT_FAILURE;
  }
  std::printf("PASS\n");
  return EXIT_SUCCESS;
}
