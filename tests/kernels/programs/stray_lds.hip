// Reaches behind a work-group's LDS of 256 bytes, which hardware allocates in blocks of 512.
#include <hip/hip_runtime.h>

#include <cstdio>
#include <cstdlib>

__global__ void stray(int* out, int far) {
  extern __shared__ int shared[];
  const int i = threadIdx.x;
  shared[i] = i;
  shared[far + i] = 100 + i;
  __syncthreads();
  out[i] = shared[far + i] + shared[i];
  out[64 + i] = atomicAdd(&shared[far + i], 1);
}

int main(int, char** words) {
  int *device, host[128];
  if (hipMalloc(&device, sizeof host) != hipSuccess) return 1;
  stray<<<1, 64, 256>>>(device, std::atoi(words[1]));
  if (hipMemcpy(host, device, sizeof host, hipMemcpyDeviceToHost) != hipSuccess) return 2;
  std::printf("%d %d\n", host[5], host[64 + 5]);
  return 0;
}
