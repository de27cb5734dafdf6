// Short integers in device printf; with an argument, strings that are said to be wide, or more text than the buffer of a
// launch holds.
#include <hip/hip_runtime.h>

#include <cstdio>
#include <cstring>

__global__ void speak() { printf("%02hhx %hhd %hu %hd\n", (signed char)-1, 300, 70000, 65535); }
__global__ void fill_up() { printf("line %d of many that no buffer of this size has room for at once\n", threadIdx.x); }
__global__ void speak_wide() { printf("%ls|%5.3ls|%hs\n", (const wchar_t*)"wide", (const wchar_t*)"text", "short"); }

int main(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], "wide") == 0) {
    speak_wide<<<1, 1>>>();
  } else if (argc > 1) {
    fill_up<<<1024, 256>>>();
  } else {
    speak<<<1, 1>>>();
  }
  return hipDeviceSynchronize();
}
