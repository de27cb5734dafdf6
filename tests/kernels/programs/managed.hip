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
  // Advice changes nothing but the answers to questions about it.
  int* advised;
  int answers[2] = {7, 7}, prefetched = 7, mostly = 7;
  OK(hipMallocManaged(&advised, 4096));
  OK(hipMemRangeGetAttribute(&prefetched, 4, hipMemRangeAttributeLastPrefetchLocation, advised, 4096));
  CHECK(prefetched == hipInvalidDeviceId);
  OK(hipMemAdvise(advised, 4096, hipMemAdviseSetReadMostly, 0));
  OK(hipMemAdvise(advised, 4096, hipMemAdviseSetAccessedBy, 0));
  OK(hipMemPrefetchAsync(advised, 4096, hipCpuDeviceId, nullptr));
  void* places[] = {&mostly, answers, &prefetched};
  size_t sizes[] = {4, 8, 4};
  hipMemRangeAttribute asked[] = {hipMemRangeAttributeReadMostly, hipMemRangeAttributeAccessedBy,
                                  hipMemRangeAttributeLastPrefetchLocation};
  OK(hipMemRangeGetAttributes(places, sizes, asked, 3, advised, 4096));
  CHECK(mostly == 1 && answers[0] == 0 && answers[1] == hipInvalidDeviceId && prefetched == hipCpuDeviceId);
  OK(hipMemAdvise(advised, 4096, hipMemAdviseUnsetReadMostly, 0));
  OK(hipMemRangeGetAttribute(&mostly, 4, hipMemRangeAttributeReadMostly, advised, 4096));
  CHECK(mostly == 0);
  FAILS(hipMemRangeGetAttribute(&mostly, 4, hipMemRangeAttributeReadMostly, advised, 8192), hipErrorInvalidValue);
  FAILS(hipMemPrefetchAsync(advised, 4096, 5, nullptr), hipErrorInvalidDevice);
  OK(hipFree(advised));
  hipMemPool_t pool;
  hipMemAccessDesc rights = {{hipMemLocationTypeDevice, 0}, hipMemAccessFlagsProtReadWrite};
  hipMemAccessFlags granted = hipMemAccessFlagsProtNone;
  OK(hipDeviceGetDefaultMemPool(&pool, 0));
  OK(hipMemPoolSetAccess(pool, &rights, 1));
  OK(hipMemPoolGetAccess(&granted, pool, &rights.location));
  CHECK(granted == hipMemAccessFlagsProtReadWrite);
  rights.location.id = 1;
  FAILS(hipMemPoolSetAccess(pool, &rights, 1), hipErrorInvalidDevice);
  std::printf("managed ok\n");
  return 0;
}
