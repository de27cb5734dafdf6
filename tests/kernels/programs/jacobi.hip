// Jacobi iteration for the Poisson equation: residual by wave shuffles and an atomic, timed by events.
#include "check.h"

#include <cmath>
#include <utility>
#include <vector>

__global__ void sweep(const double* u, const double* f, double* next, double* change, int n) {
  int x = blockIdx.x * blockDim.x + threadIdx.x + 1, y = blockIdx.y * blockDim.y + threadIdx.y + 1;
  double difference = 0;
  if (x < n - 1 && y < n - 1) {
    int i = y * n + x;
    next[i] = 0.25 * (u[i - 1] + u[i + 1] + u[i - n] + u[i + n] - f[i]);
    difference = fabs(next[i] - u[i]);
  }
  for (int offset = 32; offset > 0; offset /= 2) difference += __shfl_down(difference, offset);
  if ((threadIdx.y * blockDim.x + threadIdx.x) % 64 == 0) atomicAdd(change, difference);
}

int main() {
  const int n = 34, iterations = 20;
  std::vector<double> f(n * n), u(n * n, 0.0), next(n * n, 0.0), got(n * n);
  for (int i = 0; i < n * n; ++i) f[i] = ((i * 7) % 16 - 8) / 16.0;
  double *du, *df, *dnext, *dchange;
  size_t bytes = f.size() * sizeof(double);
  OK(hipMalloc(&du, bytes));
  OK(hipMalloc(&df, bytes));
  OK(hipMalloc(&dnext, bytes));
  OK(hipMalloc(&dchange, sizeof(double)));
  OK(hipMemset(du, 0, bytes));
  OK(hipMemset(dnext, 0, bytes));
  OK(hipMemcpy(df, f.data(), bytes, hipMemcpyHostToDevice));
  hipEvent_t start, stop;
  OK(hipEventCreate(&start));
  OK(hipEventCreate(&stop));
  OK(hipEventRecord(start));
  double last = 0, expected = 0;
  for (int k = 0; k < iterations; ++k) {
    OK(hipMemset(dchange, 0, sizeof(double)));
    sweep<<<dim3(2, 4), dim3(16, 8)>>>(du, df, dnext, dchange, n);
    std::swap(du, dnext);
  }
  OK(hipEventRecord(stop));
  OK(hipEventSynchronize(stop));
  float ms = 0;
  OK(hipEventElapsedTime(&ms, start, stop));
  CHECK(ms > 0 && ms < 1000);
  OK(hipMemcpy(&last, dchange, sizeof last, hipMemcpyDeviceToHost));
  OK(hipMemcpy(got.data(), du, bytes, hipMemcpyDeviceToHost));
  for (int k = 0; k < iterations; ++k) {
    expected = 0;
    for (int y = 1; y < n - 1 && y <= 32; ++y)
      for (int x = 1; x < n - 1 && x <= 32; ++x) {
        int i = y * n + x;
        next[i] = 0.25 * (u[i - 1] + u[i + 1] + u[i - n] + u[i + n] - f[i]);
        expected += std::fabs(next[i] - u[i]);
      }
    std::swap(u, next);
  }
  for (int i = 0; i < n * n; ++i) CHECK(std::fabs(got[i] - u[i]) < 1e-12);
  CHECK(std::fabs(last - expected) < 1e-9 * expected);
  std::printf("jacobi ok\n");
}
