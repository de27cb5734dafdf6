// Programs for budget_prices.py: argv[1] chooses the kernel, which is launched argv[2] times.
#include <hip/hip_runtime.h>

#include <cstdlib>
#include <cstring>

constexpr int kSide = 512, kElements = 1 << 20;

__global__ void stream(const float* a, float* b, int) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  b[i] = a[i] + 1;
}

__global__ void stencil(const float* a, float* b, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= kSide && i < n - kSide) b[i] = a[i] + a[i - 1] + a[i + 1] + a[i - kSide] + a[i + kSide];
}

__global__ void gather(const float* a, float* b, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  b[i] = a[static_cast<unsigned>(i) * 40503u % n];
}

__global__ void alu(const float* a, float* b, int) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  float x = a[i], y = 0;
  for (int k = 0; k < 100; ++k) {
    x = x * 0.5f + y;
    y = y * x + 1;
  }
  b[i] = x + y;
}

__global__ void doubles(const float* a, float* b, int) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  double x = a[i];
  for (int k = 0; k < 50; ++k) x = x * x * 0.5 + sqrt(x + k);
  b[i] = static_cast<float>(x);
}

__global__ void tiles(const float* a, float* b, int) {
  __shared__ float p[16][16], q[16][16];
  const int x = blockIdx.x * 16 + threadIdx.x % 16, y = blockIdx.y * 16 + threadIdx.x / 16;
  float sum = 0;
  for (int k = 0; k < kSide; k += 16) {
    p[threadIdx.x / 16][threadIdx.x % 16] = a[y * kSide + k + threadIdx.x % 16];
    q[threadIdx.x / 16][threadIdx.x % 16] = a[(k + threadIdx.x / 16) * kSide + x];
    __syncthreads();
    for (int j = 0; j < 16; ++j) sum += p[threadIdx.x / 16][j] * q[j][threadIdx.x % 16];
    __syncthreads();
  }
  b[y * kSide + x] = sum;
}

__global__ void count(const float* a, float* b, int) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  atomicAdd(reinterpret_cast<int*>(b) + static_cast<int>(a[i]) % 1000, 1);
}

__global__ void small(const float* a, float* b, int n) {
  if (static_cast<int>(threadIdx.x) < n) b[threadIdx.x] = a[threadIdx.x] + 1;
}

using Kernel = void (*)(const float*, float*, int);
struct Choice {
  const char* name;
  Kernel kernel;
  dim3 grid;
};

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const dim3 all(kElements / 256), square(kSide / 16, kSide / 16);
  const Choice choices[] = {{"stream", stream, all}, {"stencil", stencil, all}, {"gather", gather, all},
                            {"alu", alu, all},       {"doubles", doubles, all}, {"tiles", tiles, square},
                            {"count", count, all},   {"small", small, dim3(1)}};
  float *a, *b;
  if (hipMalloc(&a, kElements * sizeof *a) != hipSuccess || hipMalloc(&b, kElements * sizeof *b) != hipSuccess) return 1;
  if (hipMemset(a, 0, kElements * sizeof *a) != hipSuccess) return 1;
  for (const Choice& c : choices) {
    if (std::strcmp(c.name, argv[1]) != 0) continue;
    for (int i = 0; i < std::atoi(argv[2]); ++i) {
      c.kernel<<<c.grid, 256>>>(a, b, kElements - i);  // another argument each time: no launch repeats an earlier one
    }
    return hipDeviceSynchronize();
  }
  return 3;
}
