// Is told to stop while the runtime library writes down a launch: at one of the last allocations of a launch. Argument:
// how many allocations before the end.
#include <signal.h>

#include <cstdlib>
#include <new>

#include "check.h"

static long until_stop = -1, allocations = 0;

void* operator new(size_t size) {
  ++allocations;
  if (until_stop-- == 0) raise(SIGTERM);
  if (void* p = std::malloc(size)) return p;
  throw std::bad_alloc();
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, size_t) noexcept { std::free(p); }

__global__ void a_kernel_with_a_long_name(int* x) { x[threadIdx.x] += 1; }

int main(int, char** argv) {
  int* x;
  OK(hipMalloc(&x, 64 * sizeof(int)));
  for (int i = 0; i < 3; ++i) {
    allocations = 0;
    a_kernel_with_a_long_name<<<1, 64>>>(x);
  }
  until_stop = allocations - std::atol(argv[1]);
  a_kernel_with_a_long_name<<<1, 64>>>(x);
  until_stop = -1;
  std::printf("not stopped\n");
  return 0;
}
