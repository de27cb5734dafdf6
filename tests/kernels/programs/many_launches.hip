// More launches than are kept one by one.
#include "check.h"

__global__ void count(int* p) { p[threadIdx.x] += 1; }

int main(int argc, char** argv) {
  int n = argc > 1 ? std::atoi(argv[1]) : 300, host[64], *device;
  OK(hipMalloc(&device, sizeof host));
  OK(hipMemset(device, 0, sizeof host));
  for (int i = 0; i < n; ++i) count<<<1, 64>>>(device);
  OK(hipMemcpy(host, device, sizeof host, hipMemcpyDeviceToHost));
  for (int i = 0; i < 64; ++i) CHECK(host[i] == n);
  std::printf("launches ok\n");
  return 0;
}
