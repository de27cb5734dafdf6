// One launch with a work-group per row: sum and sum of squares in the same sweep, and the second read of the row comes
// from cache.
//
// step: layernorm 2 layernorm_one_launch, after layernorm_three_launches
// paradigm: per-tile
// bound: gfx90a hbm, gfx942 infinity
// moves: FETCH_SIZE down, SQ_WAVES down, Duration down
// check: 65 256
#include <hip/hip_runtime.h>
#include <thrust/device_vector.h>

#include <cmath>
#include <cstdlib>
#include <iostream>
#include <vector>

__global__ __launch_bounds__(256) void layer_norm(const float* x, const float* gamma, const float* beta, float* y,
                                                  int columns, float eps) {
  __shared__ float sums[256], squares[256];
  const float* row = x + blockIdx.x * columns;
  const int t = threadIdx.x;
  float sum = 0, square = 0;
  for (int c = t; c < columns; c += 256) {
    const float v = row[c];
    sum += v;
    square += v * v;
  }
  sums[t] = sum;
  squares[t] = square;
  __syncthreads();
  for (int d = 128; d > 0; d >>= 1) {
    if (t < d) {
      sums[t] += sums[t + d];
      squares[t] += squares[t + d];
    }
    __syncthreads();
  }
  const float mean = sums[0] / columns, scale = rsqrtf(squares[0] / columns - mean * mean + eps);
  for (int c = t; c < columns; c += 256) y[blockIdx.x * columns + c] = (row[c] - mean) * scale * gamma[c] + beta[c];
}

int main(int argc, char** argv) {
  const int rows = argc > 1 ? atoi(argv[1]) : 16384, columns = argc > 2 ? atoi(argv[2]) : 1024;
  std::vector<float> x(rows * columns), g(columns), b(columns);
  for (int i = 0; i < rows * columns; i++) x[i] = std::sin(0.1f * (i % 1000));
  for (int c = 0; c < columns; c++) g[c] = 0.5f + c % 4, b[c] = 0.1f * (c % 7);
  thrust::device_vector<float> dx(x), dg(g), db(b), dy(x.size());
  layer_norm<<<rows, 256>>>(dx.data().get(), dg.data().get(), db.data().get(), dy.data().get(), columns, 1e-5f);
  std::vector<float> y(x.size());
  thrust::copy(dy.begin(), dy.end(), y.begin());
  for (int r = 0; r < rows; r += 53) {
    double m = 0, v = 0;
    for (int c = 0; c < columns; c++) m += x[r * columns + c], v += double(x[r * columns + c]) * x[r * columns + c];
    m /= columns;
    v = v / columns - m * m;
    for (int c = 0; c < columns; c++) {
      const double want = (x[r * columns + c] - m) / std::sqrt(v + 1e-5) * g[c] + b[c];
      if (std::abs(want - y[r * columns + c]) > 2e-3) {
        std::cout << "FAIL: row " << r << ", column " << c << "\n";
        return 1;
      }
    }
  }
  std::cout << "PASS\n";
}
