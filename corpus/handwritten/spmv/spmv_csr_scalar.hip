// The same matrix in compressed rows, one work-item per row: no atomics and no row indices, but neighbouring lanes now
// read entries a row apart, and lanes with short rows wait for those with long ones, which costs more
// than the atomics did.
//
// step: spmv 2 spmv_csr_scalar, after spmv_coo_atomic
// paradigm: per-thread
// bound: gfx90a l2, gfx942 infinity
// moves: TCC_ATOMIC down, Duration up
// check: 3000
#include <hip/hip_runtime.h>
#include <thrust/device_vector.h>

#include <cmath>
#include <cstdlib>
#include <iostream>
#include <vector>

__global__ void spmv_csr(int n, const int* start, const int* col, const float* val, const float* x, float* y) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= n) return;
  float sum = 0;
  for (int k = start[row]; k < start[row + 1]; ++k) sum += val[k] * x[col[k]];
  y[row] = sum;
}

int main(int argc, char** argv) {
  const int n = argc > 1 ? atoi(argv[1]) : 1 << 18;
  std::vector<int> start{0}, col;
  std::vector<float> val, x(n);
  unsigned random = 5;
  for (int r = 0; r < n; ++r) {
    for (int k = 0; k < 8 + r % 3 * 8; ++k) {
      random = random * 1664525u + 1013904223u;
      col.push_back((r + (random >> 20)) % n);
      val.push_back(0.5f * (k % 7));
    }
    start.push_back(col.size());
    x[r] = 0.25f * (r % 11);
  }
  thrust::device_vector<int> d_start(start), d_col(col);
  thrust::device_vector<float> d_val(val), d_x(x), d_y(n);
  spmv_csr<<<(n + 255) / 256, 256>>>(n, d_start.data().get(), d_col.data().get(), d_val.data().get(),
                                     d_x.data().get(), d_y.data().get());
  std::vector<float> y(n);
  thrust::copy(d_y.begin(), d_y.end(), y.begin());
  for (int r = 0; r < n; ++r) {
    double want = 0;
    for (int k = start[r]; k < start[r + 1]; ++k) want += val[k] * x[col[k]];
    if (std::abs(want - y[r]) > 1e-3 * (1 + want)) {
      std::cout << "FAIL: row " << r << ": " << y[r] << ", expected " << want << "\n";
      return 1;
    }
  }
  std::cout << "PASS\n";
  return 0;
}
