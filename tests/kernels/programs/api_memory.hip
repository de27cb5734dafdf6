// Memory calls without any kernel: copies of all shapes, fills, pools, registration, bounds of allocations.
#include <cstring>

#include "check.h"

static void linear() {
  char host[256], back[256] = {};
  for (int i = 0; i < 256; ++i) host[i] = (char)i;
  char *a, *b;
  OK(hipMalloc(&a, 256));
  OK(hipMalloc(&b, 256));
  CHECK((uintptr_t)a % 256 == 0 && a != b);
  OK(hipMemcpy(a, host, 256, hipMemcpyHostToDevice));
  OK(hipMemcpy(b, a, 256, hipMemcpyDeviceToDevice));
  OK(hipMemcpy(back, b, 256, hipMemcpyDefault));
  CHECK(std::memcmp(host, back, 256) == 0);
  FAILS(hipMemcpy(a, host, 5000, hipMemcpyHostToDevice), hipErrorInvalidValue);
  FAILS(hipMemcpy(back, host, 16, hipMemcpyHostToDevice), hipErrorInvalidValue);
  FAILS(hipMemcpy(a, nullptr, 16, hipMemcpyHostToDevice), hipErrorInvalidValue);
  std::memset(back, 0, 256);
  OK(hipMemcpy(back, a, 256, hipMemcpyHostToDevice));  // the addresses say that it is the other way
  CHECK(std::memcmp(host, back, 256) == 0);
  OK(hipMemcpy(a, host, 0, hipMemcpyHostToDevice));
  const auto no_stream = (hipStream_t)0x1234;
  FAILS(hipMemcpyWithStream(a, host, 0, hipMemcpyHostToDevice, no_stream), hipErrorContextIsDestroyed);
  FAILS(hipMemcpyAsync(a, host, 0, hipMemcpyHostToDevice, no_stream), hipErrorContextIsDestroyed);
  FAILS(hipMemsetAsync(a, 0, 0, no_stream), hipErrorContextIsDestroyed);
  OK(hipMemset(a + 10, 0x5a, 20));
  FAILS(hipMemset(a, 0, 8192), hipErrorInvalidValue);
  FAILS(hipMemset(host, 0, 16), hipErrorInvalidValue);
  OK(hipMemsetD32(b, 0x01020304, 4));
  OK(hipMemsetD16(b + 16, 0x0506, 2));
  OK(hipMemcpy(back, a, 256, hipMemcpyDeviceToHost));
  CHECK(back[9] == 9 && back[10] == 0x5a && back[29] == 0x5a && back[30] == 30);
  OK(hipMemcpyDtoH(back, b, 20));
  CHECK(back[0] == 4 && back[3] == 1 && back[16] == 6 && back[19] == 5);
  OK(hipFree(a));
  FAILS(hipFree(a), hipErrorInvalidValue);
  FAILS(hipFree(b + 8), hipErrorInvalidValue);
  OK(hipFree(b));
  OK(hipFree(nullptr));
}

static void shaped() {
  int host[4][8], back[4][8] = {};
  for (int i = 0; i < 32; ++i) host[i / 8][i % 8] = i;
  hipPitchedPtr volume;
  OK(hipMalloc3D(&volume, make_hipExtent(sizeof host[0], 2, 2)));
  OK(hipMemset3D(volume, 0, make_hipExtent(sizeof host[0], 2, 2)));
  hipMemcpy3DParms p = {};
  p.srcPtr = make_hipPitchedPtr(host, sizeof host[0], 8, 2);
  p.dstPtr = volume;
  p.extent = make_hipExtent(sizeof host[0], 2, 2);
  p.kind = hipMemcpyHostToDevice;
  OK(hipMemcpy3D(&p));
  p.srcPtr = volume;
  p.dstPtr = make_hipPitchedPtr(back, sizeof back[0], 8, 2);
  p.kind = hipMemcpyDeviceToHost;
  OK(hipMemcpy3D(&p));
  CHECK(std::memcmp(host, back, sizeof host) == 0);
  FAILS(hipMemcpy2D(volume.ptr, 16, host, sizeof host[0], 32, 2, hipMemcpyHostToDevice), hipErrorInvalidPitchValue);
  OK(hipFree(volume.ptr));
}

static void pinned() {
  int *host, *alias, plain[4] = {1, 2, 3, 4};
  unsigned flags;
  OK(hipHostMalloc((void**)&host, 64, hipHostMallocMapped));
  host[3] = 42;
  OK(hipHostGetDevicePointer((void**)&alias, host, 0));
  CHECK(alias[3] == 42);
  OK(hipHostGetFlags(&flags, host));
  CHECK(flags == hipHostMallocMapped);
  OK(hipHostGetFlags(&(flags = 0), host + 4));
  CHECK(flags == hipHostMallocMapped);
  hipPointerAttribute_t attributes;
  OK(hipPointerGetAttributes(&attributes, host + 1));
  CHECK(attributes.type == hipMemoryTypeHost && attributes.allocationFlags == hipHostMallocMapped);
  OK(hipPointerGetAttributes(&attributes, nullptr));
  CHECK(attributes.type == hipMemoryTypeUnregistered && attributes.device == hipInvalidDeviceId);
  FAILS(hipHostGetDevicePointer((void**)&alias, host, 1), hipErrorInvalidValue);
  FAILS(hipHostGetDevicePointer((void**)&alias, plain, 0), hipErrorInvalidValue);
  OK(hipHostRegister(plain, sizeof plain, hipHostRegisterDefault));
  FAILS(hipHostRegister(plain, sizeof plain, hipHostRegisterDefault), hipErrorHostMemoryAlreadyRegistered);
  OK(hipHostGetDevicePointer((void**)&alias, plain, 0));
  CHECK(alias == plain);
  OK(hipHostUnregister(plain));
  FAILS(hipHostUnregister(plain), hipErrorHostMemoryNotRegistered);
  FAILS(hipHostUnregister(nullptr), hipErrorInvalidValue);
  FAILS(hipHostRegister(plain, sizeof plain, 0x40), hipErrorInvalidValue);
  FAILS(hipHostAlloc((void**)&alias, 64, 8), hipErrorInvalidValue);
  // Only registered memory can be unregistered, and only by that call released.
  FAILS(hipHostUnregister(host), hipErrorHostMemoryNotRegistered);
  OK(hipHostGetFlags(&flags, host));
  OK(hipHostRegister(plain, sizeof plain, hipHostRegisterDefault));
  FAILS(hipHostFree(plain), hipErrorInvalidValue);
  OK(hipHostUnregister(plain));
  OK(hipHostFree(host));
}

// Numbers of allocations, which no later one at the same address has, and what is told of no memory.
static void queries() {
  void* p;
  uint64_t first, second;
  size_t size = 7, pitch;
  for (uint64_t* id : {&first, &second}) {
    OK(hipMalloc(&p, 64));
    OK(hipPointerGetAttribute(id, HIP_POINTER_ATTRIBUTE_BUFFER_ID, p));
    OK(hipFree(p));
  }
  CHECK(first != second);
  OK(hipMemPtrGetInfo(nullptr, &size));
  CHECK(size == 0);
  FAILS(hipMemAllocPitch((hipDeviceptr_t*)&p, &pitch, 64, 4, 2), hipErrorInvalidValue);
  FAILS(hipMemAllocPitch((hipDeviceptr_t*)&p, &pitch, 64, 0, 4), hipErrorInvalidValue);
  OK(hipMemAllocPitch((hipDeviceptr_t*)&p, &pitch, 64, 4, 16));
  OK(hipFree(p));
}

static uint64_t attribute(hipMemPool_t pool, hipMemPoolAttr which) {
  uint64_t value = 0;
  OK(hipMemPoolGetAttribute(pool, which, &value));
  return value;
}

// What is told of a pool is of its own memory.
static void pool_use() {
  void *p, *q, *other;
  hipMemPool_t pool;
  hipMemPoolProps properties{};
  OK(hipMemPoolCreate(&pool, &properties));
  int reuse = 0;
  OK(hipMemPoolGetAttribute(pool, hipMemPoolReuseAllowOpportunistic, &reuse));
  CHECK(reuse == 1);
  OK(hipMalloc(&other, 4096));
  OK(hipMallocFromPoolAsync(&p, 1000, pool, 0));
  OK(hipMallocFromPoolAsync(&q, 500, pool, 0));
  CHECK(attribute(pool, hipMemPoolAttrUsedMemCurrent) == 1500);
  OK(hipFree(q));
  CHECK(attribute(pool, hipMemPoolAttrUsedMemCurrent) == 1000 && attribute(pool, hipMemPoolAttrUsedMemHigh) == 1500);
  CHECK(attribute(pool, hipMemPoolAttrReservedMemCurrent) >= 1000);
  uint64_t value = 7;
  FAILS(hipMemPoolSetAttribute(pool, hipMemPoolAttrUsedMemHigh, &value), hipErrorInvalidValue);
  FAILS(hipMemPoolSetAttribute(pool, hipMemPoolAttrUsedMemCurrent, &value), hipErrorInvalidValue);
  value = 0;
  OK(hipMemPoolSetAttribute(pool, hipMemPoolAttrUsedMemHigh, &value));
  CHECK(attribute(pool, hipMemPoolAttrUsedMemHigh) == 1000);
  OK(hipMemPoolDestroy(pool));
  OK(hipFreeAsync(p, 0));
  OK(hipFree(other));
  FAILS(hipMallocAsync(&p, 16, (hipStream_t)0x1234), hipErrorInvalidValue);
}

static void pools() {
  size_t before, after, total;
  OK(hipMemGetInfo(&before, &total));
  CHECK(before <= total);
  void *p, *q;
  OK(hipMallocAsync(&p, 1 << 20, 0));
  OK(hipMemGetInfo(&after, &total));
  CHECK(before - after >= 1 << 20);
  OK(hipFreeAsync(p, 0));
  OK(hipMemGetInfo(&after, &total));
  CHECK(before == after);
  hipMemPool_t pool;
  OK(hipDeviceGetDefaultMemPool(&pool, 0));
  uint64_t threshold = 1 << 30, read = 0;
  OK(hipMemPoolSetAttribute(pool, hipMemPoolAttrReleaseThreshold, &threshold));
  OK(hipMemPoolGetAttribute(pool, hipMemPoolAttrReleaseThreshold, &read));
  CHECK(read == threshold);
  hipMemPoolProps properties{};
  hipMemPool_t own, current;
  OK(hipMemPoolCreate(&own, &properties));
  OK(hipDeviceSetMemPool(0, own));
  OK(hipDeviceGetMemPool(&current, 0));
  CHECK(current == own);
  OK(hipMemPoolDestroy(own));
  OK(hipDeviceGetMemPool(&current, 0));
  CHECK(current == pool);
  FAILS(hipDeviceSetMemPool(1, pool), hipErrorInvalidValue);
  FAILS(hipMallocFromPoolAsync(&q, 16, own, 0), hipErrorInvalidValue);
  FAILS(hipMalloc(&q, total + 1), hipErrorOutOfMemory);
  CHECK(hipGetLastError() == hipErrorOutOfMemory && hipGetLastError() == hipSuccess);
  OK(hipMalloc(&p, 1000));
  void* base;
  size_t size;
  OK(hipMemGetAddressRange((hipDeviceptr_t*)&base, &size, (char*)p + 500));
  CHECK(base == p && size == 1000);
}

int main() {
  linear();
  shaped();
  pinned();
  queries();
  pools();
  pool_use();
  std::printf("memory ok\n");
  return 0;
}
