// Softmax over rows of 1,024, one work-item per row: three sweeps (maximum, sum, result), and neighbouring lanes read
// addresses a row apart.
//
// step: softmax 1 softmax_row_per_thread
// paradigm: per-thread
// bound: gfx90a l2, gfx942 latency
// check: 100 256
#include <hip/hip_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

__global__ void softmax(const float* in, float* out, int rows, int columns) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  const float* x = in + row * columns;
  float largest = -INFINITY, sum = 0;
  for (int c = 0; c < columns; ++c) largest = fmaxf(largest, x[c]);
  for (int c = 0; c < columns; ++c) sum += __expf(x[c] - largest);
  for (int c = 0; c < columns; ++c) out[row * columns + c] = __expf(x[c] - largest) / sum;
}

int main(int argc, char** argv) {
  const int rows = argc > 1 ? std::atoi(argv[1]) : 8192, columns = argc > 2 ? std::atoi(argv[2]) : 1024;
  std::vector<float> x(rows * columns), y(rows * columns);
  for (int i = 0; i < rows * columns; ++i) x[i] = static_cast<float>(i * 29 % 101) / 10;
  float *in, *out;
  if (hipMalloc(&in, x.size() * 4) != hipSuccess || hipMalloc(&out, y.size() * 4) != hipSuccess) return 1;
  (void)hipMemcpy(in, x.data(), x.size() * 4, hipMemcpyHostToDevice);
  softmax<<<(rows + 63) / 64, 64>>>(in, out, rows, columns);
  (void)hipMemcpy(y.data(), out, y.size() * 4, hipMemcpyDeviceToHost);
  for (int r = 0; r < rows; r += 1 + rows / 100) {
    double sum = 0;
    for (int c = 0; c < columns; ++c) sum += std::exp(static_cast<double>(x[r * columns + c]));
    for (int c = 0; c < columns; ++c) {
      const double want = std::exp(static_cast<double>(x[r * columns + c])) / sum;
      if (std::fabs(want - y[r * columns + c]) > 1e-4 * want) return std::printf("FAIL: row %d\n", r), 1;
    }
  }
  std::printf("PASS\n");
  return 0;
}
