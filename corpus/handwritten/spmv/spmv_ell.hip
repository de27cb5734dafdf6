// Rows padded to equal length and stored column by column: one work-item per row again, but lanes read neighbouring
// words, for a third more entries.
//
// step: spmv 4 spmv_ell, after spmv_csr_vector
// paradigm: per-thread
// bound: gfx90a l2, gfx942 latency
// moves: SQ_WAVES down, SQ_INSTS down
// check: 3000
#include <hip/hip_runtime.h>

#include <cmath>
#include <cstdlib>
#include <iostream>
#include <vector>

#define HIP(x)                                                                           \
  do {                                                                                   \
    if (hipError_t e_ = (x)) {                                                           \
      std::cerr << "HIP error " << hipGetErrorName(e_) << " at " << __LINE__ << "\n";    \
      return 3;                                                                          \
    }                                                                                    \
  } while (false)

__global__ void ell(int n, int width, const int* __restrict__ cols, const float* __restrict__ vals,
                    const float* __restrict__ x, float* __restrict__ y) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= n) return;
  float sum = 0;
  for (int k = 0; k < width; ++k) {
    const int col = cols[k * n + row];
    if (col >= 0) sum += vals[k * n + row] * x[col];  // -1 pads
  }
  y[row] = sum;
}

int main(int argc, char** argv) {
  const int n = argc > 1 ? std::atoi(argv[1]) : 1 << 18, width = 24;
  std::vector<int> cols(n * width, -1);
  std::vector<float> vals(n * width), x(n), y(n);
  unsigned random = 5;
  for (int r = 0; r < n; ++r) {
    for (int k = 0; k < 8 + r % 3 * 8; ++k) {
      random = random * 1664525u + 1013904223u;
      cols[k * n + r] = (r + (random >> 20)) % n;
      vals[k * n + r] = 2.0f - k % 3;
    }
    x[r] = (r % 8) * 0.5f;
  }
  int* d_cols;
  float *d_vals, *d_x, *d_y;
  HIP(hipMalloc(&d_cols, cols.size() * 4));
  HIP(hipMalloc(&d_vals, vals.size() * 4));
  HIP(hipMalloc(&d_x, n * 4));
  HIP(hipMalloc(&d_y, n * 4));
  HIP(hipMemcpy(d_cols, cols.data(), cols.size() * 4, hipMemcpyHostToDevice));
  HIP(hipMemcpy(d_vals, vals.data(), vals.size() * 4, hipMemcpyHostToDevice));
  HIP(hipMemcpy(d_x, x.data(), n * 4, hipMemcpyHostToDevice));
  ell<<<(n + 255) / 256, 256>>>(n, width, d_cols, d_vals, d_x, d_y);
  HIP(hipMemcpy(y.data(), d_y, n * 4, hipMemcpyDeviceToHost));
  bool ok = true;
  for (int r = 0; r < n; ++r) {
    float want = 0;
    for (int k = 0; k < width; ++k)
      if (cols[k * n + r] >= 0) want += vals[k * n + r] * x[cols[k * n + r]];
    ok = ok && std::fabs(want - y[r]) < 1e-3f;
  }
  std::cout << (ok ? "PASS" : "FAIL") << "\n";
  return ok ? 0 : 1;
}
