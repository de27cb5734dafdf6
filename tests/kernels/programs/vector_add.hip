// Three streams of floats, launched by <<<>>>, checked on the host; the last block is partly masked.
#include "check.h"

__global__ void vector_add(const float* a, const float* b, float* c, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i];
}

int main(int argc, char** argv) {
  int n = argc > 1 ? std::atoi(argv[1]) : 10000;
  size_t bytes = n * sizeof(float);
  float *a = (float*)malloc(bytes), *b = (float*)malloc(bytes), *c = (float*)malloc(bytes);
  for (int i = 0; i < n; ++i) a[i] = 0.5f * i, b[i] = 1.0f / (i + 1);
  float *da, *db, *dc;
  OK(hipMalloc(&da, bytes));
  OK(hipMalloc(&db, bytes));
  OK(hipMalloc(&dc, bytes));
  OK(hipMemcpy(da, a, bytes, hipMemcpyHostToDevice));
  OK(hipMemcpy(db, b, bytes, hipMemcpyHostToDevice));
  vector_add<<<(n + 255) / 256, 256>>>(da, db, dc, n);
  OK(hipGetLastError());
  OK(hipMemcpy(c, dc, bytes, hipMemcpyDeviceToHost));
  for (int i = 0; i < n; ++i) CHECK(c[i] == a[i] + b[i]);
  OK(hipFree(da));
  OK(hipFree(db));
  OK(hipFree(dc));
  std::printf("vector_add %d ok\n", n);
  return 0;
}
