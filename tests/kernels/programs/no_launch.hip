// Has a kernel that it never launches.
#include <hip/hip_runtime.h>

__global__ void unused(int* p) { p[threadIdx.x] = 1; }

int main() { return 0; }
