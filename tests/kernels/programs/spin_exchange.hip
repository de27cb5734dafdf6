// Each work-group waits with an exchange that it repeats until the one before it has set its flag.
#include "check.h"

#include <cstdlib>

__global__ void relay(unsigned* flags) {
  const unsigned b = blockIdx.x;
  atomicExch(&flags[b], 1);
  if (b > 0) {
    while (atomicCAS(&flags[b - 1], 2, 2) == 0) {
    }
  }
}

int main(int argc, char** argv) {
  const int groups = argc > 1 ? std::atoi(argv[1]) : 64;
  unsigned* flags;
  OK(hipMalloc(&flags, groups * sizeof(unsigned)));
  OK(hipMemset(flags, 0, groups * sizeof(unsigned)));
  relay<<<groups, 64>>>(flags);
  OK(hipDeviceSynchronize());
  std::printf("relay ok\n");
  return 0;
}
