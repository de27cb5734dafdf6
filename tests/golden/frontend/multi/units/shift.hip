#include "common.h"
#define BLOCK 128
static int calls = 0;
namespace {
struct Params { float by, unused; };
__device__ float apply(Params p, float x) { return p.by + x; }
}  // namespace
static __global__ void kernel(float* p, int n, Params params) {
  const int i = blockIdx.x * BLOCK + threadIdx.x;
  if (i < n) p[i] = apply(params, p[i]);
}
void launchShift(const Task& task, float by) {
  ++calls;
  kernel<<<(task.count + BLOCK - 1) / BLOCK, BLOCK>>>(task.data, task.count, Params{by, 0.0f});
}
