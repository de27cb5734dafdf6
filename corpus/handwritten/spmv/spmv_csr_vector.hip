// Sixteen lanes share a row: they read neighbouring entries and add their products by shuffles.
//
// step: spmv 3 spmv_csr_vector, after spmv_csr_scalar
// paradigm: per-wave
// bound: gfx90a l2, gfx942 vl1d
// moves: TCP_TOTAL_CACHE_ACCESSES down, SQ_WAVES up
// check: 3000
#include <hip/hip_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

constexpr int kLanes = 16;

struct Csr {
  int rows;
  const int *start, *cols;
  const double* values;
};

__global__ void multiply(Csr a, const double* x, double* y) {
  const int row = (blockIdx.x * blockDim.x + threadIdx.x) / kLanes, lane = threadIdx.x % kLanes;
  double sum = 0;
  if (row < a.rows)
    for (int k = a.start[row] + lane; k < a.start[row + 1]; k += kLanes) sum += a.values[k] * x[a.cols[k]];
  for (int d = kLanes / 2; d > 0; d /= 2) sum += __shfl_down(sum, d, kLanes);
  if (row < a.rows && lane == 0) y[row] = sum;
}

template <class T>
struct OnDevice {
  T* data = nullptr;
  OnDevice(const std::vector<T>& v) {
    if (hipMalloc(&data, v.size() * sizeof(T)) != hipSuccess) abort();
    if (hipMemcpy(data, v.data(), v.size() * sizeof(T), hipMemcpyHostToDevice) != hipSuccess) abort();
  }
  ~OnDevice() { (void)hipFree(data); }
};

int main(int argc, char** argv) {
  const int n = argc > 1 ? atoi(argv[1]) : 1 << 18;
  std::vector<int> start(n + 1), cols;
  std::vector<double> values, x(n), y(n);
  unsigned seed = 5;
  for (int r = 0; r < n; ++r) {
    start[r + 1] = start[r] + 8 + r % 3 * 8;
    for (int k = start[r]; k < start[r + 1]; ++k) {
      seed = seed * 1664525u + 1013904223u;
      cols.push_back((r + (seed >> 20)) % n);
      values.push_back(1.0 / (1 + k % 10));
    }
    x[r] = r % 100;
  }
  OnDevice<int> d_start(start), d_cols(cols);
  OnDevice<double> d_values(values), d_x(x), d_y(y);
  multiply<<<(n * kLanes + 255) / 256, 256>>>({n, d_start.data, d_cols.data, d_values.data}, d_x.data, d_y.data);
  (void)hipMemcpy(y.data(), d_y.data, n * sizeof(double), hipMemcpyDeviceToHost);
  double error = 0;
  for (int r = 0; r < n; ++r) {
    for (int k = start[r]; k < start[r + 1]; ++k) y[r] -= values[k] * x[cols[k]];
    error = fmax(error, fabs(y[r]));
  }
  printf("%s, largest error %g\n", error < 1e-9 ? "PASS" : "FAIL", error);
  return error < 1e-9 ? 0 : 1;
}
