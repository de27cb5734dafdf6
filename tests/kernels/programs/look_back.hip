// A prefix sum in one pass: each work-group waits until the one before it has stored its sum.
#include <hip/hip_runtime.h>
#include <cstdio>
#include <vector>

__global__ void scan(const int* in, int* out, volatile int* sums, int n) {
  __shared__ int before, items[256];
  const int x = threadIdx.x, i = blockIdx.x * 256 + x;
  items[x] = in[i];
  __syncthreads();
  for (int d = 1; d < 256; d *= 2) {
    const int left = x >= d ? items[x - d] : 0;
    __syncthreads();
    items[x] += left;
    __syncthreads();
  }
  if (x == 0) {
    before = 0;
    while (blockIdx.x && (before = sums[blockIdx.x - 1]) == -1) {
    }
    sums[blockIdx.x] = before + items[255];
  }
  __syncthreads();
  out[i] = before + items[x];
}

int main() {
  const int n = 1024 * 256;
  std::vector<int> host(n, 1);
  int *in, *out, *sums;
  if (hipMalloc(&in, n * 4) || hipMalloc(&out, n * 4) || hipMalloc(&sums, n / 64)) return 1;
  (void)hipMemcpy(in, host.data(), n * 4, hipMemcpyHostToDevice);
  (void)hipMemset(sums, 0xff, n / 64);
  scan<<<n / 256, 256>>>(in, out, sums, n);
  (void)hipMemcpy(host.data(), out, n * 4, hipMemcpyDeviceToHost);
  for (int i = 0; i < n; ++i) {
    if (host[i] != i + 1) return 2;
  }
  std::puts("PASS");
}
