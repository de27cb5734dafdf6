// y = A x with A as a list of (row, column, value): one work-item per entry, and an atomic addition for each.
//
// step: spmv 1 spmv_coo_atomic
// paradigm: per-thread
// bound: gfx90a l2, gfx942 l2
// check: 3000
#include <hip/hip_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

__global__ void spmv(const int* rows, const int* cols, const float* values, const float* x, float* y, int entries) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < entries) unsafeAtomicAdd(&y[rows[i]], values[i] * x[cols[i]]);
}

template <typename T>
T* to_device(const std::vector<T>& from) {
  T* p = nullptr;
  if (hipMalloc(&p, from.size() * sizeof(T)) != hipSuccess) std::exit(2);
  (void)hipMemcpy(p, from.data(), from.size() * sizeof(T), hipMemcpyHostToDevice);
  return p;
}

int main(int argc, char** argv) {
  const int n = argc > 1 ? std::atoi(argv[1]) : 1 << 18;
  std::vector<int> rows, cols;
  std::vector<float> values, x(n), y(n), want(n);
  unsigned random = 5;
  for (int r = 0; r < n; ++r) {
    const int length = 8 + r % 3 * 8;  // 8 to 24 entries around the diagonal
    for (int k = 0; k < length; ++k) {
      random = random * 1664525u + 1013904223u;
      rows.push_back(r);
      cols.push_back((r + (random >> 20)) % n);
      values.push_back(static_cast<float>(k % 5 + 1));
    }
  }
  for (int i = 0; i < n; ++i) x[i] = 1.0f + i % 4;
  for (std::size_t i = 0; i < rows.size(); ++i) want[rows[i]] += values[i] * x[cols[i]];
  const int entries = static_cast<int>(rows.size());
  float* dy = to_device(y);
  spmv<<<(entries + 255) / 256, 256>>>(to_device(rows), to_device(cols), to_device(values), to_device(x), dy, entries);
  (void)hipMemcpy(y.data(), dy, n * sizeof(float), hipMemcpyDeviceToHost);
  int wrong = 0;
  for (int i = 0; i < n; ++i) wrong += std::fabs(y[i] - want[i]) > 1e-3f * (1 + want[i]);
  std::printf("%s (%d of %d rows wrong)\n", wrong ? "FAIL" : "PASS", wrong, n);
  return wrong ? EXIT_FAILURE : EXIT_SUCCESS;
}
