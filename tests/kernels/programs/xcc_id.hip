// The die that a work-group says it runs on is the one it was placed on.
#include "check.h"

constexpr int kGroups = 20;

__global__ void where(int* out) {
  int die;
  asm volatile("s_getreg_b32 %0, hwreg(HW_REG_XCC_ID, 0, 4)" : "=s"(die));
  if (threadIdx.x == 0) out[blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z)] = die;
}

int main() {
  int *out, host[2 * kGroups];
  OK(hipMalloc(&out, sizeof host));
  where<<<dim3(5, 2, 2), 128>>>(out);
  where<<<kGroups, 64>>>(out + kGroups);
  OK(hipMemcpy(host, out, sizeof host, hipMemcpyDeviceToHost));
  for (int die : host) std::printf("%d", die);
  std::printf("\n");
  return 0;
}
