// A sparse matrix of halves times a vector, one work-group per row: a row's few values and indices end inside a line
// that the next row begins with, and the next work-group runs on another chiplet.
//
// step: spmv_rows 1 spmv_rows
// paradigm: per-tile
// bound: gfx90a dispatch, gfx942 dispatch
// check: 512
#include <hip/hip_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

constexpr int kThreads = 128;

__global__ void multiply(const _Float16* x, const _Float16* values, const int* columns, const int* starts, float* y) {
  __shared__ float part[kThreads];
  const int row = blockIdx.x, end = starts[row + 1];
  float sum = 0;
  for (int i = starts[row] + threadIdx.x; i < end; i += kThreads) sum += (float)values[i] * (float)x[columns[i]];
  part[threadIdx.x] = sum;
  __syncthreads();
  for (int step = kThreads / 2; step > 0; step /= 2) {
    if (threadIdx.x < step) part[threadIdx.x] += part[threadIdx.x + step];
    __syncthreads();
  }
  if (threadIdx.x == 0) y[row] = part[0];
}

template <typename T>
T* on_device(const std::vector<T>& host) {
  T* device = nullptr;
  if (hipMalloc(&device, host.size() * sizeof(T)) != hipSuccess) std::exit(1);
  (void)hipMemcpy(device, host.data(), host.size() * sizeof(T), hipMemcpyHostToDevice);
  return device;
}

int main(int argc, char** argv) {
  const int n = argc > 1 ? std::atoi(argv[1]) : 8192;
  std::vector<int> starts(1, 0), columns;
  std::vector<_Float16> values, x(n);
  unsigned random = 12345;
  for (int i = 0; i < n; ++i) x[i] = (_Float16)(float)(i % 17);
  for (int row = 0; row < n; ++row) {
    for (int column = 0; column < n; ++column) {  // one in a hundred
      random = random * 1664525u + 1013904223u;
      if ((random >> 8) % 100 != 0) continue;
      columns.push_back(column);
      values.push_back((_Float16)(float)((random >> 20) % 7));
    }
    starts.push_back((int)columns.size());
  }
  std::vector<float> y(n);
  float* result = on_device(y);
  multiply<<<n, kThreads>>>(on_device(x), on_device(values), on_device(columns), on_device(starts), result);
  (void)hipMemcpy(y.data(), result, n * sizeof(float), hipMemcpyDeviceToHost);
  for (int row = 0; row < n; row += 3) {
    float expected = 0;
    for (int i = starts[row]; i < starts[row + 1]; ++i) expected += (float)values[i] * (float)x[columns[i]];
    if (std::fabs(y[row] - expected) > 1e-3f * (1 + expected)) return std::printf("FAIL in row %d\n", row), 1;
  }
  std::printf("PASS\n");
  return 0;
}
