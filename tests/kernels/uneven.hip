// Work that only some work-groups, waves or lanes do; the others leave at once or wait.
#include <hip/hip_runtime.h>

// A chain of dependent loads: the next address depends on the value, which is zero.
__device__ float follow(const float* x, int at, int steps, int mask) {
  float sum = 0;
  for (int step = 0; step < steps; ++step) {
    sum += x[at];
    at = (at * 17 + 64 * step + static_cast<int>(sum * 1e-30f)) & mask;
  }
  return sum;
}

extern "C" __global__ void guarded(float* x, int items, int steps, int mask) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < items) x[i] = follow(x, i & mask, steps, mask);
}

extern "C" __global__ void first_wave_works(float* x, int steps, int mask) {
  if (threadIdx.x >= 64) return;
  x[blockIdx.x * blockDim.x + threadIdx.x] = follow(x, blockIdx.x * 97, steps, mask);
}

extern "C" __global__ void others_wait(float* x, int steps, int mask) {
  __shared__ float sum;
  if (threadIdx.x == 0) sum = follow(x, blockIdx.x * 97, steps, mask);
  __syncthreads();
  x[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

// In turn each wave works while the others wait for it.
extern "C" __global__ void take_turns(float* x, int steps, int mask) {
  const int wave = threadIdx.x / 64;
  float sum = 0;
  for (int turn = 0; turn < 4; ++turn) {
    if (wave == turn) sum = follow(x, blockIdx.x * 97 + wave * 1024, steps, mask);
    __syncthreads();
  }
  x[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

// All work-groups do the same, but the upper ones return at their guard.
extern "C" __global__ void guarded_columns(float* x, const float* y, int groups, int turns) {
  if (static_cast<int>(blockIdx.x) >= groups) return;
  float sum = 0;
  const int lanes = groups * blockDim.x, i = blockIdx.x * blockDim.x + threadIdx.x;
  for (int turn = 0; turn < turns; ++turn) sum += y[turn * lanes + i];
  x[i] = sum;
}

extern "C" __global__ void nothing() {}

// Each of 27 groups is a box of 3 x 3 x 3 and visits its neighbours: 8, 12, 18 or 27.
extern "C" __global__ void lasting(float* x, int steps, int mask) {
  int neighbours = 1;
  for (int box = blockIdx.x, axis = 0; axis < 3; ++axis, box /= 3) neighbours *= box % 3 == 1 ? 3 : 2;
  x[blockIdx.x * blockDim.x + threadIdx.x] = follow(x, blockIdx.x * 97 + threadIdx.x, steps * neighbours / 8, mask);
}
