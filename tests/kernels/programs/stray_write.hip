// Writes behind an array of three rows; the argument is how many bytes behind its start.
#include <hip/hip_runtime.h>

#include <cstdio>
#include <cstdlib>

__global__ void stray(char* p, long far) { *reinterpret_cast<int*>(p + far + threadIdx.x * 4) = 7; }

int main(int, char** words) {
  char* p;
  if (hipMalloc(&p, 2700) != hipSuccess) return 1;
  for (int i = 0; i < 2; ++i) stray<<<1, 64>>>(p, std::atol(words[1]));
  std::printf("after %d\n", static_cast<int>(hipDeviceSynchronize()));
  return 0;
}
