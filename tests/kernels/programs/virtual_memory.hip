// Virtual memory management: a buffer that grows in place, contents that survive a move, and what is refused.
#include <sys/mman.h>

#include <vector>

#include "check.h"

__global__ void count_up(int* x, size_t n) {
  size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
  if (i < n) x[i] += (int)i;
}

int main() {
  hipMemAllocationProp wish = {};
  wish.type = hipMemAllocationTypePinned;
  wish.location.type = hipMemLocationTypeDevice;
  size_t page, size;
  OK(hipMemGetAllocationGranularity(&page, &wish, hipMemAllocationGranularityMinimum));
  size = page / sizeof(int);
  char *base, *other;
  hipMemGenericAllocationHandle_t first, second;
  OK(hipMemAddressReserve((void**)&base, 4 * page, 0, nullptr, 0));
  OK(hipMemAddressReserve((void**)&other, page, 0, nullptr, 0));
  FAILS(hipMemCreate(&first, page + 1, &wish, 0), hipErrorInvalidValue);
  OK(hipMemCreate(&first, page, &wish, 0));
  OK(hipMemCreate(&second, page, &wish, 0));
  OK(hipMemMap(base, page, 0, first, 0));
  hipMemAccessDesc access = {wish.location, hipMemAccessFlagsProtReadWrite};
  OK(hipMemSetAccess(base, page, &access, 1));
  FAILS(hipMemSetAccess(base, 2 * page, &access, 1), hipErrorInvalidValue);
  OK(hipMemMap(base + page, page, 0, second, 0));
  FAILS(hipMemMap(base + page, page, 0, first, 0), hipErrorNotSupported);
  OK(hipMemSetAccess(base, 2 * page, &access, 1));
  OK(hipMemsetD32(base, 7, 2 * size));
  count_up<<<(2 * size + 255) / 256, 256>>>((int*)base, 2 * size);
  std::vector<int> host(2 * size);
  OK(hipMemcpy(host.data(), base, 2 * page, hipMemcpyDeviceToHost));
  for (size_t i = 0; i < 2 * size; ++i) CHECK(host[i] == 7 + (int)i);
  FAILS(hipMemcpy(host.data(), base + page, 2 * page, hipMemcpyDeviceToHost), hipErrorInvalidValue);
  FAILS(hipFree(base), hipErrorInvalidValue);
  // The second page goes elsewhere, with what is in it.
  OK(hipMemUnmap(base + page, page));
  FAILS(hipMemcpy(host.data(), base, 2 * page, hipMemcpyDeviceToHost), hipErrorInvalidValue);
  OK(hipMemMap(other, page, 0, second, 0));
  OK(hipMemSetAccess(other, page, &access, 1));
  OK(hipMemcpy(host.data(), other, page, hipMemcpyDeviceToHost));
  CHECK(host[0] == 7 + (int)size && host[size - 1] == 6 + 2 * (int)size);
  FAILS(hipMemAddressFree(other, page), hipErrorInvalidValue);
  OK(hipMemUnmap(other, page));
  OK(hipMemUnmap(base, page));
  OK(hipMemRelease(first));
  OK(hipMemRelease(second));
  FAILS(hipMemRelease(second), hipErrorInvalidValue);
  OK(hipMemAddressFree(other, page));
  OK(hipMemAddressFree(base, 4 * page));
  // Pages that the program itself took away cannot come back.
  OK(hipMemAddressReserve((void**)&base, page, 0, nullptr, 0));
  OK(hipMemCreate(&first, page, &wish, 0));
  OK(hipMemMap(base, page, 0, first, 0));
  CHECK(munmap(base, page) == 0);
  FAILS(hipMemUnmap(base, page), hipErrorInvalidValue);
  FAILS(hipMemAddressFree(base, page), hipErrorInvalidValue);
  int start = -1;
  void* p;
  OK(hipMalloc(&p, 1000));
  OK(hipPointerGetAttribute(&size, HIP_POINTER_ATTRIBUTE_RANGE_SIZE, (char*)p + 10));
  OK(hipPointerGetAttribute(&start, HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL, p));
  CHECK(size == 1000 && start == 0);
  std::printf("virtual memory ok\n");
  return 0;
}
