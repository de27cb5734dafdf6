// Requests at the edge of what calls allow: small launch bounds, sizes that wrap, ranges that overlap.
#include <hip/hip_ext.h>

#include "check.h"

__global__ __launch_bounds__(32) void narrow(int* p) { p[threadIdx.x] = 1; }
__global__ void with_lds(int* p) {
  __shared__ int some[1024];
  some[threadIdx.x] = p[threadIdx.x];
  __syncthreads();
  p[threadIdx.x] = some[threadIdx.x ^ 1];
}

static void small_blocks() {
  int grid, block;
  OK(hipOccupancyMaxPotentialBlockSize(&grid, &block, with_lds, 0, 48));
  CHECK(block == 48 && grid > 0);
  OK(hipOccupancyMaxPotentialBlockSize(&grid, &block, narrow, 0, 0));
  CHECK(block == 32 && grid > 0);
  OK(hipOccupancyMaxPotentialBlockSize(&grid, &block, with_lds, 0, 100));
  CHECK(block == 100 || block == 64);
}

static void too_much_lds() {
  int groups, *p;
  OK(hipMalloc(&p, 4096));
  void* args[] = {&p};
  hipFunction_t function;
  OK(hipGetFuncBySymbol(&function, (const void*)with_lds));
  for (size_t lds : {SIZE_MAX, SIZE_MAX - 4095, size_t{1} << 32}) {
    OK(hipOccupancyMaxActiveBlocksPerMultiprocessor(&groups, with_lds, 64, lds));
    CHECK(groups == 0);
    FAILS(hipLaunchKernel((const void*)with_lds, 1, 64, args, lds, nullptr), hipErrorInvalidConfiguration);
    FAILS(hipExtModuleLaunchKernel(function, 64, 1, 1, 64, 1, 1, lds, nullptr, args, nullptr, nullptr, nullptr),
          hipErrorInvalidConfiguration);
  }
  (void)hipGetLastError();
  OK(hipFree(p));
}

static void fills() {
  char* p;
  OK(hipMalloc(&p, 4096));
  hipGraph_t graph;
  hipGraphNode_t node;
  OK(hipGraphCreate(&graph, 0));
  hipMemsetParams fill = {};
  fill.dst = p;
  fill.value = 7;
  fill.height = 1;
  fill.width = 16;
  for (unsigned bytes : {0u, 3u, 8u, 64u}) {
    fill.elementSize = bytes;
    FAILS(hipGraphAddMemsetNode(&node, graph, nullptr, 0, &fill), hipErrorInvalidValue);
  }
  fill.elementSize = 4;
  fill.width = (SIZE_MAX >> 2) + 2;  // 4 bytes, if it wraps
  FAILS(hipGraphAddMemsetNode(&node, graph, nullptr, 0, &fill), hipErrorInvalidValue);
  fill.width = 16;
  OK(hipGraphAddMemsetNode(&node, graph, nullptr, 0, &fill));
  fill.elementSize = 64;
  FAILS(hipGraphMemsetNodeSetParams(node, &fill), hipErrorInvalidValue);
  OK(hipGraphDestroy(graph));
  OK(hipFree(p));
}

static void stack() {
  size_t before, after;
  OK(hipDeviceGetLimit(&before, hipLimitStackSize));
  FAILS(hipDeviceSetLimit(hipLimitStackSize, size_t{1} << 32), hipErrorInvalidValue);
  FAILS(hipDeviceSetLimit(hipLimitStackSize, (256 << 10) + 1), hipErrorInvalidValue);
  OK(hipDeviceGetLimit(&after, hipLimitStackSize));
  CHECK(after == before);
  OK(hipDeviceSetLimit(hipLimitStackSize, 128 << 10));
}

static void registrations() {
  static char memory[4096];
  void* device;
  OK(hipHostRegister(memory + 1024, 1024, hipHostRegisterDefault));
  for (int at : {1023, 1024, 1500, 2047, 0}) {
    FAILS(hipHostRegister(memory + at, at == 0 ? 4096 : 8, hipHostRegisterDefault), hipErrorHostMemoryAlreadyRegistered);
  }
  OK(hipHostGetDevicePointer(&device, memory + 2040, 0));
  OK(hipHostRegister(memory, 1024, hipHostRegisterDefault));
  OK(hipHostRegister(memory + 2048, 1024, hipHostRegisterDefault));
  for (int at : {0, 1024, 2048}) OK(hipHostUnregister(memory + at));
}

static void events() {
  hipEvent_t event;
  for (unsigned flags : {8u, 16u, 4u, hipEventReleaseToDevice | hipEventReleaseToSystem}) {
    FAILS(hipEventCreateWithFlags(&event, flags), hipErrorInvalidValue);
  }
  OK(hipEventCreateWithFlags(&event, hipEventInterprocess | hipEventDisableTiming | hipEventReleaseToSystem));
  OK(hipEventDestroy(event));
}

static void reset_with_a_mapping() {
  constexpr size_t kBytes = 2 << 20;
  size_t before, after, total;
  void* at;
  hipMemGenericAllocationHandle_t handle;
  hipMemAllocationProp prop = {};
  prop.type = hipMemAllocationTypePinned;
  prop.location = {hipMemLocationTypeDevice, 0};
  OK(hipMemGetInfo(&before, &total));
  OK(hipMemAddressReserve(&at, kBytes, 0, nullptr, 0));
  OK(hipMemCreate(&handle, kBytes, &prop, 0));
  OK(hipMemMap(at, kBytes, 0, handle, 0));
  OK(hipMemset(at, 1, kBytes));
  OK(hipDeviceReset());
  OK(hipMemGetInfo(&after, &total));
  CHECK(after == before);
  // The same addresses again, with nothing of what was there.
  char byte = 1;
  OK(hipMemAddressReserve(&at, kBytes, 0, nullptr, 0));
  OK(hipMemCreate(&handle, kBytes, &prop, 0));
  OK(hipMemMap(at, kBytes, 0, handle, 0));
  OK(hipMemcpy(&byte, at, 1, hipMemcpyDeviceToHost));
  CHECK(byte == 0);
}

int main() {
  small_blocks();
  too_much_lds();
  fills();
  stack();
  registrations();
  events();
  reset_with_a_mapping();
  std::printf("limits ok\n");
  return 0;
}
