// OpenMP on the host: threads that launch kernels into streams of their own, and a sum in parallel.
#include "check.h"

#include <omp.h>

#include <vector>

constexpr int kParts = 4, kSize = 256;

__global__ void scale(int* p, int factor) { p[blockIdx.x * blockDim.x + threadIdx.x] *= factor; }

int main() {
  std::vector<int> host(kParts * kSize);
  for (int i = 0; i < kParts * kSize; ++i) host[i] = i;
#pragma omp parallel for num_threads(kParts)
  for (int part = 0; part < kParts; ++part) {
    int* device;
    hipStream_t stream;
    int* mine = host.data() + part * kSize;
    OK(hipStreamCreate(&stream));
    OK(hipMalloc(&device, kSize * sizeof(int)));
    OK(hipMemcpyAsync(device, mine, kSize * sizeof(int), hipMemcpyHostToDevice, stream));
    scale<<<2, kSize / 2, 0, stream>>>(device, part + 2);
    OK(hipMemcpyAsync(mine, device, kSize * sizeof(int), hipMemcpyDeviceToHost, stream));
    OK(hipStreamSynchronize(stream));
    OK(hipFree(device));
  }
  long sum = 0, expected = 0;
#pragma omp parallel for reduction(+ : sum)
  for (int i = 0; i < kParts * kSize; ++i) sum += host[i];
  for (int i = 0; i < kParts * kSize; ++i) expected += static_cast<long>(i) * (i / kSize + 2);
  CHECK(sum == expected && omp_get_max_threads() >= 1);
  std::printf("host threads ok\n");
}
