// Device queries, occupancy, error texts, launch shapes that the runtime refuses, calls that are not supported.
#include <cstring>

#include "check.h"

__global__ void small(int* p) { p[threadIdx.x] = 1; }
__global__ __launch_bounds__(128) void bounded(int* p) { p[threadIdx.x] = 2; }
__global__ void lds_user(int* p) {
  __shared__ int big[8192];  // 32 KiB
  big[threadIdx.x] = p[threadIdx.x];
  __syncthreads();
  p[threadIdx.x] = big[threadIdx.x ^ 1];
}

static void device() {
  int count, id, cus, warp;
  OK(hipGetDeviceCount(&count));
  OK(hipGetDevice(&id));
  CHECK(count == 1 && id == 0);
  OK(hipSetDevice(0));
  FAILS(hipSetDevice(1), hipErrorInvalidDevice);
  hipDeviceProp_t p;
  OK(hipGetDeviceProperties(&p, 0));
  FAILS(hipGetDeviceProperties(&p, 1), hipErrorInvalidDevice);
  OK(hipDeviceGetAttribute(&cus, hipDeviceAttributeMultiprocessorCount, 0));
  OK(hipDeviceGetAttribute(&warp, hipDeviceAttributeWarpSize, 0));
  CHECK(p.warpSize == 64 && warp == 64 && cus == p.multiProcessorCount && p.maxThreadsPerBlock == 1024);
  CHECK(p.totalGlobalMem > 0 && p.sharedMemPerBlock == 65536 && p.major == 9);
  std::printf("%s | %s | %d CUs | %d MHz\n", p.name, p.gcnArchName, cus, p.clockRate / 1000);
  char bus[32];
  OK(hipDeviceGetPCIBusId(bus, sizeof bus, 0));
  OK(hipDeviceGetByPCIBusId(&id, bus));
  int can = 1;
  OK(hipDeviceCanAccessPeer(&can, 0, 0));
  CHECK(can == 0);
}

static void occupancy() {
  int groups, grid, block;
  OK(hipOccupancyMaxActiveBlocksPerMultiprocessor(&groups, small, 256, 0));
  CHECK(groups == 8);  // 32 waves per CU, 4 waves each
  OK(hipOccupancyMaxActiveBlocksPerMultiprocessor(&groups, small, 64, 0));
  CHECK(groups == 32);
  OK(hipOccupancyMaxActiveBlocksPerMultiprocessor(&groups, lds_user, 64, 0));
  CHECK(groups == 2);  // 64 KiB of LDS, 32 KiB each
  OK(hipOccupancyMaxActiveBlocksPerMultiprocessor(&groups, bounded, 256, 0));
  CHECK(groups == 0);
  OK(hipOccupancyMaxPotentialBlockSize(&grid, &block, small, 0, 0));
  CHECK(block == 1024 && grid > 0);
  hipFuncAttributes attributes;
  OK(hipFuncGetAttributes(&attributes, (const void*)lds_user));
  CHECK(attributes.sharedSizeBytes == 32768 && attributes.maxThreadsPerBlock == 1024);
  OK(hipFuncGetAttributes(&attributes, (const void*)bounded));
  OK(hipFuncSetCacheConfig((const void*)bounded, hipFuncCachePreferL1));
  CHECK(hipFuncSetCacheConfig(nullptr, hipFuncCachePreferL1) == hipErrorInvalidDeviceFunction);
  CHECK(hipFuncSetSharedMemConfig((const void*)bounded, (hipSharedMemConfig)7) == hipErrorInvalidValue);
  CHECK(attributes.maxThreadsPerBlock == 128);
}

static void function_attributes() {
  const void* kernel = (const void*)lds_user;
  const auto dynamic = hipFuncAttributeMaxDynamicSharedMemorySize;
  const auto carveout = hipFuncAttributePreferredSharedMemoryCarveout;
  hipFuncAttributes attributes;
  OK(hipFuncGetAttributes(&attributes, kernel));
  CHECK(attributes.maxDynamicSharedSizeBytes == 32768);
  FAILS(hipFuncSetAttribute(kernel, dynamic, 32769), hipErrorInvalidValue);
  FAILS(hipFuncSetAttribute(kernel, (hipFuncAttribute)3, 1), hipErrorInvalidValue);
  FAILS(hipFuncSetAttribute(kernel, carveout, 101), hipErrorInvalidValue);
  OK(hipFuncSetAttribute(kernel, carveout, -1));
  OK(hipFuncSetAttribute(kernel, dynamic, 2048));
  OK(hipFuncGetAttributes(&attributes, kernel));
  CHECK(attributes.maxDynamicSharedSizeBytes == 2048 && attributes.preferredShmemCarveout == -1);
}

static void refused() {
  int* p;
  OK(hipMalloc(&p, 4096));
  small<<<1, 1025>>>(p);
  CHECK(hipGetLastError() == hipErrorInvalidConfiguration);
  small<<<0, 64>>>(p);
  CHECK(hipPeekAtLastError() == hipErrorInvalidConfiguration && hipGetLastError() == hipErrorInvalidConfiguration);
  small<<<1, dim3(32, 32, 2)>>>(p);
  CHECK(hipGetLastError() == hipErrorInvalidConfiguration);
  lds_user<<<1, 64, 40000>>>(p);
  CHECK(hipGetLastError() == hipErrorInvalidConfiguration);
  bounded<<<1, 256>>>(p);
  CHECK(hipGetLastError() == hipErrorLaunchFailure);
  CHECK(hipGetLastError() == hipSuccess);
  void* args[] = {&p};
  FAILS(hipLaunchKernel((const void*)&refused, dim3(1), dim3(64), args, 0, 0), hipErrorInvalidDeviceFunction);
  FAILS(hipLaunchCooperativeKernel((const void*)small, dim3(1 << 20), dim3(64), args, 0, 0),
        hipErrorCooperativeLaunchTooLarge);
  FAILS(hipStreamDestroy((hipStream_t)&p), hipErrorContextIsDestroyed);
  FAILS(hipEventRecord((hipEvent_t)&p, 0), hipErrorInvalidHandle);
  FAILS(hipGraphicsUnmapResources(0, nullptr, nullptr), hipErrorNotSupported);
  FAILS(hipIpcGetMemHandle(nullptr, p), hipErrorNotSupported);
  (void)hipGetLastError();
}

static void masks_of_streams() {
  hipStream_t all, some;
  OK(hipStreamCreate(&all));
  const uint32_t wanted[2] = {0xf0f0f0f0u, 5};
  OK(hipExtStreamCreateWithCUMask(&some, 2, wanted));
  uint32_t mask[10];
  OK(hipExtStreamGetCUMask(some, 10, mask));
  CHECK(mask[0] == wanted[0] && mask[1] == wanted[1] && mask[2] == 0);
  OK(hipExtStreamGetCUMask(all, 10, mask));
  int cus, bits = 0;
  OK(hipDeviceGetAttribute(&cus, hipDeviceAttributeMultiprocessorCount, 0));
  for (uint32_t word : mask) bits += __builtin_popcount(word);
  CHECK(bits == cus && mask[0] == ~0u);
  FAILS(hipExtStreamGetCUMask(all, 1, mask), hipErrorInvalidValue);
  FAILS(hipExtStreamCreateWithCUMask(&some, 0, wanted), hipErrorInvalidValue);
}

int main() {
  masks_of_streams();
  device();
  occupancy();
  function_attributes();
  refused();
  CHECK(std::strcmp(hipGetErrorName(hipErrorInvalidValue), "hipErrorInvalidValue") == 0);
  CHECK(std::strcmp(hipGetErrorString(hipErrorOutOfMemory), "out of memory") == 0);
  CHECK(std::strcmp(hipGetErrorString(hipSuccess), "no error") == 0);
  std::printf("device ok\n");
  return 0;
}
