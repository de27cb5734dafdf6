// Layer norm over rows of 1,024 as three launches: means, variances, and normalisation, each with a work-group per row;
// the input is read from memory three times.
//
// step: layernorm 1 layernorm_three_launches
// paradigm: multi-pass
// bound: gfx90a hbm, gfx942 infinity
// check: 65 256
#include <hip/hip_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

constexpr int kThreads = 128;

__device__ float sum_of_group(float v) {
  __shared__ float line[kThreads];
  line[threadIdx.x] = v;
  for (int half = kThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) line[threadIdx.x] += line[threadIdx.x + half];
  }
  return line[0];  // for work-item 0
}

__global__ void mean_of_rows(const float* x, float* mean, int columns) {
  float sum = 0;
  for (int c = threadIdx.x; c < columns; c += kThreads) sum += x[blockIdx.x * columns + c];
  sum = sum_of_group(sum);
  if (threadIdx.x == 0) mean[blockIdx.x] = sum / columns;
}

__global__ void scale_of_rows(const float* x, const float* mean, float* scale, int columns) {
  float sum = 0;
  for (int c = threadIdx.x; c < columns; c += kThreads) {
    const float d = x[blockIdx.x * columns + c] - mean[blockIdx.x];
    sum += d * d;
  }
  sum = sum_of_group(sum);
  if (threadIdx.x == 0) scale[blockIdx.x] = rsqrtf(sum / columns + 1e-5f);
}

__global__ void normalise(const float* x, const float* mean, const float* scale, const float* gamma, const float* beta,
                          float* y, int columns) {
  for (int c = threadIdx.x; c < columns; c += kThreads) {
    const int i = blockIdx.x * columns + c;
    y[i] = (x[i] - mean[blockIdx.x]) * scale[blockIdx.x] * gamma[c] + beta[c];
  }
}

int main(int argc, char** argv) {
  const int rows = argc > 1 ? std::atoi(argv[1]) : 16384, columns = argc > 2 ? std::atoi(argv[2]) : 1024;
  std::vector<float> x(rows * columns), y(rows * columns), gamma(columns), beta(columns);
  for (int i = 0; i < rows * columns; ++i) x[i] = static_cast<float>(i % 37) * (i / columns % 5 + 1);
  for (int c = 0; c < columns; ++c) gamma[c] = 1 + c % 3, beta[c] = c % 2;
  float *dx, *dy, *mean, *scale, *dg, *db;
  for (auto [p, n] : {std::pair{&dx, rows * columns}, {&dy, rows * columns}, {&mean, rows}, {&scale, rows}, {&dg, columns}, {&db, columns}})
    if (hipMalloc(p, n * sizeof(float)) != hipSuccess) return 1;
  (void)hipMemcpy(dx, x.data(), x.size() * 4, hipMemcpyHostToDevice);
  (void)hipMemcpy(dg, gamma.data(), columns * 4, hipMemcpyHostToDevice);
  (void)hipMemcpy(db, beta.data(), columns * 4, hipMemcpyHostToDevice);
  mean_of_rows<<<rows, kThreads>>>(dx, mean, columns);
  scale_of_rows<<<rows, kThreads>>>(dx, mean, scale, columns);
  normalise<<<rows, kThreads>>>(dx, mean, scale, dg, db, dy, columns);
  (void)hipMemcpy(y.data(), dy, y.size() * 4, hipMemcpyDeviceToHost);
  int wrong = 0;
  for (int r = 0; r < rows; r += 1 + rows / 300) {
    const float* row = &x[r * columns];
    double m = 0, v = 0;
    for (int c = 0; c < columns; ++c) m += row[c] / columns;
    for (int c = 0; c < columns; ++c) v += (row[c] - m) * (row[c] - m) / columns;
    for (int c = 0; c < columns; ++c)
      wrong += std::fabs((row[c] - m) / std::sqrt(v + 1e-5) * gamma[c] + beta[c] - y[r * columns + c]) > 1e-3;
  }
  std::printf("%s\n", wrong ? "FAIL" : "PASS");
  return wrong ? EXIT_FAILURE : EXIT_SUCCESS;
}
