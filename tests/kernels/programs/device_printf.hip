// Device printf keeps its place between host prints.
#include <hip/hip_runtime.h>

#include <cstdio>

__global__ void speak(int base, double x) {
  if (threadIdx.x == 0) printf("device %d %s %.3f %c%%\n", base + (int)blockIdx.x, "says", x, 'k');
}

int main() {
  std::printf("host before\n");
  speak<<<2, 64>>>(40, 0.125);
  if (hipDeviceSynchronize() != hipSuccess) return 1;
  std::printf("host between\n");
  speak<<<1, 64>>>(7, -2.5);
  if (hipDeviceSynchronize() != hipSuccess) return 1;
  std::printf("host after\n");
  return 0;
}
