#include "common.h"
#define BLOCK 64
static int calls = 0;
namespace {
struct Params { float factor; };
__device__ float apply(Params p, float x) { return p.factor * x; }
}  // namespace
static __global__ void kernel(float* p, int n, Params params) {
  const int i = blockIdx.x * BLOCK + threadIdx.x;
  if (i < n) p[i] = apply(params, p[i]);
}
void launchScale(const Task& task, float factor) {
  ++calls;
  kernel<<<(task.count + BLOCK - 1) / BLOCK, BLOCK>>>(task.data, task.count, Params{factor});
}
