// A recursion that needs about 41 KB of stack in each lane, with the limit that the argument gives, in bytes.
#include "check.h"

__device__ __noinline__ int descend(int n) {
  volatile int room[64];
  for (int i = 0; i < 64; ++i) room[i] = n + i;
  return n == 0 ? room[0] : descend(n - 1) + room[63] - room[62];
}
__global__ void recurse(int* out, int depth) { out[threadIdx.x] = descend(depth); }

int main(int, char** words) {
  int *out, result = 0;
  OK(hipMalloc(&out, 256));
  OK(hipDeviceSetLimit(hipLimitStackSize, std::atoi(words[1])));
  recurse<<<1, 64>>>(out, 150);
  OK(hipMemcpy(&result, out, sizeof result, hipMemcpyDeviceToHost));
  std::printf("%d\n", result);
}
