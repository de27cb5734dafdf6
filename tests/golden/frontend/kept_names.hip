// Names that must stay: found by string at run time, printed by the program, used by inline assembly, defined elsewhere.
#include <hip/hip_runtime.h>
#include <cassert>
#include <cstdio>
#include <cstring>
#include <typeinfo>
extern "C" int usleep(unsigned microseconds);
extern "C" __global__ void by_name(int* out) { out[0] = 1; }
struct Printed {
  int plain;
};
static const char* whoAmI() { return __func__; }
template <typename T>
const char* whatAmI(T) { return __PRETTY_FUNCTION__; }
__device__ int guarded(int depth) {
  assert(depth < 10);
  return depth + 1;
}
__global__ void assembly(int* out, int scale) {
  int result;
  asm volatile("v_mov_b32 %[result], %[value]" : [result] "=v"(result) : [value] "v"(scale));
  out[threadIdx.x] = result + guarded(2);
}
int main() {
  hipModule_t module_;
  hipFunction_t function;
  if (hipModuleLoad(&module_, "absent.co") == hipSuccess && hipModuleGetFunction(&function, module_, "by_name") == hipSuccess) return 2;
  printf("%s %zu %d\n", whoAmI(), strlen(whatAmI(Printed{1})), typeid(Printed).name()[0]);
  int* out = nullptr;
  if (hipMalloc(&out, 64 * sizeof(int)) != hipSuccess) return 1;
  by_name<<<1, 1>>>(out);
  hipLaunchKernelGGL(assembly, dim3(1), dim3(64), 0, 0, out, 3);
  usleep(1);
  return hipDeviceSynchronize() != hipSuccess;
}
