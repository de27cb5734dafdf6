// Launches a kernel, then dereferences a null pointer on the host.
#include <hip/hip_runtime.h>

#include <cstdio>

__global__ void fine(int* p) { p[threadIdx.x] = 1; }

int main(int argc, char**) {
  int* p;
  if (hipMalloc(&p, 256) != hipSuccess) return 1;
  fine<<<1, 64>>>(p);
  std::printf("launched\n");
  std::fflush(stdout);
  volatile int* null = argc > 100 ? p : nullptr;
  return *null;
}
