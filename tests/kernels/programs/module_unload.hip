// Loads, uses and unloads the code object named by its argument: the heap stays as large as it is.
#include <malloc.h>

#include "check.h"

// Long code, so that what is kept of it is large.
extern "C" __global__ void long_code(int* p) {
  asm volatile(".rept 20000\n s_nop 0\n .endr");
  p[threadIdx.x] = 1;
}

static void use(const char* path, int* p) {
  hipModule_t module;
  hipFunction_t kernel;
  OK(hipModuleLoad(&module, path));
  OK(hipModuleGetFunction(&kernel, module, "long_code"));
  void* params[] = {&p};
  OK(hipModuleLaunchKernel(kernel, 1, 1, 1, 64, 1, 1, 0, nullptr, params, nullptr));
  OK(hipModuleUnload(module));
}

static size_t heap_bytes() {
  const auto heap = mallinfo2();
  return heap.uordblks + heap.hblkhd;
}

int main(int, char** argv) {
  int* p;
  OK(hipMalloc(&p, 256));
  use(argv[1], p);
  const size_t before = heap_bytes();
  for (int i = 0; i < 4; ++i) use(argv[1], p);
  const size_t after = heap_bytes();
  if (after > before + (1 << 20)) std::printf("%zu bytes more\n", after - before);
  std::printf("unload ok\n");
  return 0;
}
