// A tree reduction in static and in dynamic LDS, with barriers.
#include "check.h"

__global__ void reduce_static(const int* in, int* out) {
  __shared__ int part[256];
  int t = threadIdx.x;
  part[t] = in[blockIdx.x * 256 + t];
  __syncthreads();
  for (int s = 128; s > 0; s >>= 1) {
    if (t < s) part[t] += part[t + s];
    __syncthreads();
  }
  if (t == 0) out[blockIdx.x] = part[0];
}

__global__ void reduce_dynamic(const int* in, int* out) {
  extern __shared__ int shared[];
  int t = threadIdx.x;
  shared[t] = in[blockIdx.x * blockDim.x + t];
  __syncthreads();
  for (int s = blockDim.x / 2; s > 0; s >>= 1) {
    if (t < s) shared[t] += shared[t + s];
    __syncthreads();
  }
  if (t == 0) out[blockIdx.x] = shared[0];
}

int main() {
  const int blocks = 12, n = blocks * 256;
  static int in[n];
  int expected[blocks] = {}, out[blocks];
  for (int i = 0; i < n; ++i) in[i] = (i * 7919) % 1000 - 500, expected[i / 256] += in[i];
  int *din, *dout;
  OK(hipMalloc(&din, sizeof in));
  OK(hipMalloc(&dout, sizeof out));
  OK(hipMemcpy(din, in, sizeof in, hipMemcpyHostToDevice));
  reduce_static<<<blocks, 256>>>(din, dout);
  OK(hipMemcpy(out, dout, sizeof out, hipMemcpyDeviceToHost));
  for (int b = 0; b < blocks; ++b) CHECK(out[b] == expected[b]);
  OK(hipMemset(dout, 0, sizeof out));
  reduce_dynamic<<<blocks, 256, 256 * sizeof(int)>>>(din, dout);
  OK(hipMemcpy(out, dout, sizeof out, hipMemcpyDeviceToHost));
  for (int b = 0; b < blocks; ++b) CHECK(out[b] == expected[b]);
  std::printf("reduction ok\n");
  return 0;
}
