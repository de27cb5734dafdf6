// Short integers in device printf, and more text than the buffer of a launch holds if there is an argument.
#include <hip/hip_runtime.h>

#include <cstdio>

__global__ void speak() { printf("%02hhx %hhd %hu %hd\n", (signed char)-1, 300, 70000, 65535); }
__global__ void fill_up() { printf("line %d of many that no buffer of this size has room for at once\n", threadIdx.x); }

int main(int argc, char**) {
  if (argc > 1) {
    fill_up<<<1024, 256>>>();
  } else {
    speak<<<1, 1>>>();
  }
  return hipDeviceSynchronize();
}
