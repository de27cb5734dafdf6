// Host code only.
#include <hip/hip_runtime.h>

int main() {
  void* p;
  return hipMalloc(&p, 16) == hipSuccess ? 0 : 1;
}
