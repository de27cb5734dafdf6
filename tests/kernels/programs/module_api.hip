// Loads the code object named by its argument and launches by name, with both ways of passing arguments.
#include <cstring>

#include "check.h"

__device__ int offset = 5;

extern "C" __global__ void shift(int* data, int n, int by) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) data[i] += by + offset;
}

int main(int argc, char** argv) {
  CHECK(argc == 2);
  hipModule_t module;
  hipFunction_t kernel, none;
  FAILS(hipModuleLoad(&module, "no-such-file.co"), hipErrorFileNotFound);
  OK(hipModuleLoad(&module, argv[1]));
  OK(hipModuleGetFunction(&kernel, module, "shift"));
  FAILS(hipModuleGetFunction(&none, module, "nothing"), hipErrorNotFound);
  hipDeviceptr_t address;
  size_t size;
  OK(hipModuleGetGlobal(&address, &size, module, "offset"));
  CHECK(size == sizeof(int));
  int value = 11;
  OK(hipMemcpyHtoD(address, &value, sizeof value));
  const int n = 200;
  int host[n] = {}, *data;
  OK(hipMalloc(&data, sizeof host));
  OK(hipMemset(data, 0, sizeof host));
  int count = n, by = 100;
  void* params[] = {&data, &count, &by};
  OK(hipModuleLaunchKernel(kernel, 4, 1, 1, 64, 1, 1, 0, 0, params, nullptr));
  struct {
    int* data;
    int count, by;
  } packed{data, n, 1000};
  size_t bytes = sizeof packed;
  void* extra[] = {HIP_LAUNCH_PARAM_BUFFER_POINTER, &packed, HIP_LAUNCH_PARAM_BUFFER_SIZE, &bytes, HIP_LAUNCH_PARAM_END};
  OK(hipModuleLaunchKernel(kernel, 4, 1, 1, 64, 1, 1, 0, 0, nullptr, extra));
  OK(hipMemcpy(host, data, sizeof host, hipMemcpyDeviceToHost));
  for (int i = 0; i < n; ++i) CHECK(host[i] == 111 + 1011);
  OK(hipModuleUnload(module));
  FAILS(hipModuleUnload(module), hipErrorInvalidHandle);
  std::printf("module ok\n");
  return 0;
}
