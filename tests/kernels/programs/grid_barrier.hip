// Cooperative kernels: every work-group reads what its neighbour wrote before the barrier of the whole grid.
#include <hip/hip_cooperative_groups.h>

#include "check.h"

namespace cg = cooperative_groups;

__global__ void relay(int* now, int* next, int rounds) {
  cg::grid_group grid = cg::this_grid();
  unsigned me = grid.thread_rank();
  for (int r = 0; r < rounds; ++r) {
    next[me] = now[(me + 64) % grid.size()] + 1;
    grid.sync();
    int* other = now;
    now = next;
    next = other;
  }
}

__global__ void alone(int* valid) {
  cg::multi_grid_group all = cg::this_multi_grid();
  valid[0] = cg::this_grid().is_valid();
  valid[1] = all.is_valid() ? (int)(all.num_grids() * 1000 + all.size()) : 0;
  if (all.is_valid()) all.sync();
}

int main() {
  constexpr int kGroups = 200, kItems = kGroups * 64;
  static int host[kItems];
  int *a, *b, rounds = 4;
  OK(hipMalloc(&a, sizeof host));
  OK(hipMalloc(&b, sizeof host));
  for (int i = 0; i < kItems; ++i) host[i] = i;
  OK(hipMemcpy(a, host, sizeof host, hipMemcpyHostToDevice));
  void* args[] = {&a, &b, &rounds};
  OK(hipLaunchCooperativeKernel(relay, dim3(kGroups), dim3(64), args, 0, nullptr));
  OK(hipMemcpy(host, a, sizeof host, hipMemcpyDeviceToHost));
  for (int i = 0; i < kItems; ++i) CHECK(host[i] == (i + 256) % kItems + 4);
  int per_cu = 0, cus = 0;
  OK(hipOccupancyMaxActiveBlocksPerMultiprocessor(&per_cu, relay, 64, 0));
  OK(hipDeviceGetAttribute(&cus, hipDeviceAttributeMultiprocessorCount, 0));
  FAILS(hipLaunchCooperativeKernel(relay, dim3(per_cu * cus + 1), dim3(64), args, 0, nullptr),
        hipErrorCooperativeLaunchTooLarge);
  FAILS(hipLaunchCooperativeKernel(relay, dim3(0), dim3(64), args, 0, nullptr), hipErrorInvalidConfiguration);
  void* flag[] = {&a};
  OK(hipLaunchCooperativeKernel(alone, dim3(2), dim3(64), flag, 0, nullptr));
  OK(hipMemcpy(host, a, 8, hipMemcpyDeviceToHost));
  CHECK(host[0] == 1 && host[1] == 1128);
  alone<<<2, 64>>>(a);
  OK(hipMemcpy(host, a, 8, hipMemcpyDeviceToHost));
  CHECK(host[0] == 0 && host[1] == 0);
  // The same as an attribute of a launch, which counts if its value is not 0.
  hipLaunchAttribute cooperative{};
  cooperative.id = hipLaunchAttributeCooperative;
  hipLaunchConfig_t config{};
  config.gridDim = dim3(2), config.blockDim = dim3(64), config.attrs = &cooperative, config.numAttrs = 1;
  HIP_LAUNCH_CONFIG driver{2, 1, 1, 64, 1, 1, 0, nullptr, &cooperative, 1};
  hipFunction_t function;
  OK(hipGetFuncBySymbol(&function, (const void*)alone));
  for (int value : {1, 0}) {
    cooperative.val.cooperative = value;
    OK(hipLaunchKernelExC(&config, (const void*)alone, flag));
    OK(hipMemcpy(host, a, 4, hipMemcpyDeviceToHost));
    CHECK(host[0] == value);
    OK(hipDrvLaunchKernelEx(&driver, function, flag, nullptr));
    OK(hipMemcpy(host, a, 4, hipMemcpyDeviceToHost));
    CHECK(host[0] == value);
  }
  config.gridDim = dim3(per_cu * cus + 1);
  cooperative.val.cooperative = 1;
  FAILS(hipLaunchKernelExC(&config, (const void*)relay, args), hipErrorCooperativeLaunchTooLarge);
  std::printf("grid barrier ok\n");
  return 0;
}
