// Two kernels, one launched several times with two shapes; templates and overloads keep their own names.
#include "check.h"

template <typename T, int Factor>
__global__ void fill(T* data, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) data[i] = static_cast<T>(i * Factor);
}

struct Pair {
  int a;
  double b;
};

__global__ void combine(Pair pair, const int* x, const double* y, double* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = pair.a * x[i] + pair.b * y[i];
}

int main() {
  const int n = 500;
  int* x;
  double *y, *out, got[n];
  OK(hipMalloc(&x, n * sizeof(int)));
  OK(hipMalloc(&y, n * sizeof(double)));
  OK(hipMalloc(&out, sizeof got));
  fill<int, 3><<<8, 64>>>(x, n);
  fill<double, 5><<<8, 64>>>(y, n);
  for (int i = 0; i < 3; ++i) combine<<<8, 64>>>(Pair{i + 1, 0.5}, x, y, out, n);
  combine<<<4, 128>>>(Pair{2, 0.25}, x, y, out, n);
  OK(hipMemcpy(got, out, sizeof got, hipMemcpyDeviceToHost));
  for (int i = 0; i < n; ++i) CHECK(got[i] == 6.0 * i + 1.25 * i);
  std::printf("two kernels ok\n");
  return 0;
}
