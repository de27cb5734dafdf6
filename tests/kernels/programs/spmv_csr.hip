// Sparse matrix times vector in CSR form: one thread per row, and one wave per row.
#include "check.h"

#include <cmath>
#include <vector>

__global__ void row_per_thread(const int* start, const int* column, const float* value, const float* x, float* y,
                               int rows) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  float sum = 0;
  for (int i = start[row]; i < start[row + 1]; ++i) sum += value[i] * x[column[i]];
  y[row] = sum;
}

__global__ void row_per_wave(const int* start, const int* column, const float* value, const float* x, float* y,
                             int rows) {
  int row = (blockIdx.x * blockDim.x + threadIdx.x) / warpSize, lane = threadIdx.x % warpSize;
  if (row >= rows) return;
  float sum = 0;
  for (int i = start[row] + lane; i < start[row + 1]; i += warpSize) sum += value[i] * x[column[i]];
  for (int offset = warpSize / 2; offset > 0; offset /= 2) sum += __shfl_xor(sum, offset);
  if (lane == 0) y[row] = sum;
}

int main() {
  const int rows = 300;
  std::vector<int> start(1, 0), column;
  std::vector<float> value, x(rows), expected(rows), y(rows);
  for (int i = 0; i < rows; ++i) x[i] = float(i % 9) - 4;
  for (int row = 0; row < rows; ++row) {
    for (int k = 0; k < (row * row) % 97; ++k) {
      column.push_back((row * 31 + k * 17) % rows);
      value.push_back(float(k % 8) * 0.25f);
      expected[row] += value.back() * x[column.back()];
    }
    start.push_back(int(column.size()));
  }
  int *dstart, *dcolumn;
  float *dvalue, *dx, *dy;
  OK(hipMalloc(&dstart, start.size() * sizeof(int)));
  OK(hipMalloc(&dcolumn, column.size() * sizeof(int)));
  OK(hipMalloc(&dvalue, value.size() * sizeof(float)));
  OK(hipMalloc(&dx, rows * sizeof(float)));
  OK(hipMalloc(&dy, rows * sizeof(float)));
  OK(hipMemcpy(dstart, start.data(), start.size() * sizeof(int), hipMemcpyHostToDevice));
  OK(hipMemcpy(dcolumn, column.data(), column.size() * sizeof(int), hipMemcpyHostToDevice));
  OK(hipMemcpy(dvalue, value.data(), value.size() * sizeof(float), hipMemcpyHostToDevice));
  OK(hipMemcpy(dx, x.data(), rows * sizeof(float), hipMemcpyHostToDevice));
  for (int way = 0; way < 2; ++way) {
    OK(hipMemset(dy, 0xff, rows * sizeof(float)));
    if (way == 0)
      row_per_thread<<<(rows + 127) / 128, 128>>>(dstart, dcolumn, dvalue, dx, dy, rows);
    else
      row_per_wave<<<(rows + 3) / 4, 256>>>(dstart, dcolumn, dvalue, dx, dy, rows);
    OK(hipMemcpy(y.data(), dy, rows * sizeof(float), hipMemcpyDeviceToHost));
    CHECK(y == expected);  // all values are small multiples of 1/4: exact in any order
  }
  std::printf("spmv ok\n");
}
