#include <hip/hip_runtime.h>

__device__ float twice(float x) {
  return 2.0f * x + 1.0f;  // line 4
}

__global__ void scale(const float* a, float* b, int* count, int n, int stride) {
  __shared__ float tile[64 * 33];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float sum = 0;
  for (int k = 0; k < n; ++k) {
    sum += twice(a[(i * stride + k * 67) % 65536]);  // line 12: scattered
  }
  tile[threadIdx.x * 32 % (64 * 33)] = sum;  // line 14: bank conflicts
  __syncthreads();
  if (sum > 5) atomicAdd(count, 1);  // line 16
  b[i] = tile[(threadIdx.x * 32 + 32) % (64 * 33)];
}

int main() {
  float *a, *b;
  int* count;
  if (hipMalloc(&a, 65536 * 4) || hipMalloc(&b, 65536 * 4) || hipMalloc(&count, 4)) return 1;
  if (hipMemset(a, 0, 65536 * 4) || hipMemset(count, 0, 4)) return 1;
  scale<<<16, 256>>>(a, b, count, 10, 16);
  scale<<<8, 256>>>(a, b, count, 20, 1);
  return hipDeviceSynchronize();
}
