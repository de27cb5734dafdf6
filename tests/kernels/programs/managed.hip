// hipMallocManaged and __managed__: one pointer, both sides.
#include "check.h"

__managed__ int counters[4] = {1, 2, 3, 4};
__managed__ float factor = 1.5f;

__global__ void scale(float* data, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) data[i] *= factor;
  if (i < 4) counters[i] += 10;
}

int main() {
  const int n = 1000;
  CHECK(counters[3] == 4 && factor == 1.5f);
  float* data;
  OK(hipMallocManaged(&data, n * sizeof(float)));
  for (int i = 0; i < n; ++i) data[i] = i;
  factor = 3.0f;
  OK(hipMemPrefetchAsync(data, n * sizeof(float), 0, 0));
  scale<<<4, 256>>>(data, n);
  OK(hipDeviceSynchronize());
  for (int i = 0; i < n; ++i) CHECK(data[i] == 3.0f * i);
  for (int i = 0; i < 4; ++i) CHECK(counters[i] == 11 + i);
  hipPointerAttribute_t attributes;
  OK(hipPointerGetAttributes(&attributes, data));
  CHECK(attributes.type == hipMemoryTypeManaged && attributes.isManaged);
  OK(hipFree(data));
  std::printf("managed ok\n");
  return 0;
}
