// Hostile device code: the first argument says which kernel.
#include <hip/hip_runtime.h>

#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <string>

__global__ void endless(int* p) {
  while (true) __hip_atomic_fetch_add(p, 1, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
__global__ void beyond(int* p) { p[(1u << 28) + threadIdx.x] = 1; }
__global__ void before(int* p) { p[-(1 << 28)] = 1; }
__global__ void null(int* p) { *reinterpret_cast<volatile int*>(p[0] * 8) = 1; }
__global__ void at(int* p, unsigned long place) { p[0] = *reinterpret_cast<volatile int*>(place); }
__global__ void write_at(unsigned long place) { *reinterpret_cast<volatile int*>(place) = 0x41414141; }
__global__ void trap(int* p) {
  if (p[0] == 0) __builtin_trap();
}
__global__ void waits(int* p) {  // for what no work-item does
  while (__hip_atomic_load(p, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT) == 0) __builtin_amdgcn_s_sleep(127);
}
__global__ void formats(int* p, const char* text) { printf("%s %n %lx\n", text, p, 1ul); }
__global__ void floods(int* p) {
  for (int i = 0; i < 1 << 20; ++i) printf("%d %d %d %d\n", i, p[0], i, i);
}
__device__ __attribute__((noinline)) int deep(volatile int* p, int n) {
  volatile int frame[64];
  frame[n & 63] = n;
  return n == 0 ? frame[0] : deep(p, n - 1 + p[0]) + frame[n & 63];
}
__global__ void recurses(int* p) { p[1] = deep(p, 1 << 24); }
__global__ void jumps(int* p, unsigned long place) {
  auto f = reinterpret_cast<void (*)(int*)>(place + p[0]);
  f(p);
}

namespace {
int host_secret = 7;
int* p;

int ended() {
  const hipError_t launched = hipGetLastError();
  const hipError_t error = launched == hipSuccess ? hipDeviceSynchronize() : launched;
  std::printf("ended: %d\n", error == hipSuccess);
  return error != hipSuccess;
}

unsigned long address(const void* place) { return reinterpret_cast<unsigned long>(place); }

const std::map<std::string, std::function<void()>> deeds = {
    {"endless", [] { endless<<<1, 64>>>(p); }},
    {"beyond", [] { beyond<<<1, 64>>>(p); }},
    {"before", [] { before<<<1, 1>>>(p); }},
    {"null", [] { null<<<1, 1>>>(p); }},
    {"reads the host", [] { at<<<1, 1>>>(p, address(&host_secret)); }},
    {"writes the host", [] { write_at<<<1, 1>>>(address(&host_secret)); }},
    {"writes code", [] { write_at<<<1, 1>>>(address(reinterpret_cast<void*>(&std::puts))); }},
    {"trap", [] { trap<<<1, 64>>>(p); }},
    {"waits for nothing", [] { waits<<<1, 64>>>(p); }},
    {"formats", [] { formats<<<1, 1>>>(p, reinterpret_cast<const char*>(16)); }},
    {"floods", [] { floods<<<1, 64>>>(p); }},
    {"recurses", [] { recurses<<<1, 64>>>(p); }},
    {"jumps", [] { jumps<<<1, 1>>>(p, address(&host_secret)); }},
    {"a huge grid", [] { endless<<<dim3(2147483647, 65535, 65535), 1024>>>(p); }},
    {"a huge block", [] { trap<<<1, dim3(1024, 1024, 64)>>>(p); }},
};
}  // namespace

int main(int, char** words) {
  if (hipMalloc(&p, 256) != hipSuccess || hipMemset(p, 0, 256) != hipSuccess) return 9;
  deeds.at(words[1])();
  const int failed = ended();
  return host_secret == 7 ? failed : 42;
}
