// Bitonic sort: small strides in LDS, large ones in global memory, one launch per pass.
#include "check.h"

#include <algorithm>
#include <vector>

constexpr int kBlock = 256;

__device__ void order(unsigned& a, unsigned& b, bool up) {
  if ((a > b) == up) {
    unsigned t = a;
    a = b;
    b = t;
  }
}

__global__ void far_pass(unsigned* data, int size, int stride) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, other = i ^ stride;
  if (other > i) order(data[i], data[other], (i & size) == 0);
}

__global__ void near_passes(unsigned* data, int size, int stride) {
  __shared__ unsigned part[kBlock];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  part[threadIdx.x] = data[i];
  __syncthreads();
  for (; stride > 0; stride >>= 1) {
    int other = threadIdx.x ^ stride;
    if (other > (int)threadIdx.x) order(part[threadIdx.x], part[other], (i & size) == 0);
    __syncthreads();
  }
  data[i] = part[threadIdx.x];
}

int main() {
  const int n = 2048;
  std::vector<unsigned> data(n), sorted;
  unsigned seed = 12345;
  for (unsigned& v : data) v = seed = seed * 1664525u + 1013904223u;
  sorted = data;
  std::sort(sorted.begin(), sorted.end());
  unsigned* d;
  OK(hipMalloc(&d, n * sizeof(unsigned)));
  OK(hipMemcpy(d, data.data(), n * sizeof(unsigned), hipMemcpyHostToDevice));
  for (int size = 2; size <= n; size *= 2) {
    int stride = size / 2;
    for (; stride >= kBlock; stride /= 2) far_pass<<<n / kBlock, kBlock>>>(d, size, stride);
    near_passes<<<n / kBlock, kBlock>>>(d, size, stride);
  }
  OK(hipMemcpy(data.data(), d, n * sizeof(unsigned), hipMemcpyDeviceToHost));
  CHECK(data == sorted);
  std::printf("bitonic sort ok\n");
}
