/* Statements: labels, goto, switch, enums, typedefs, C arrays, globals, forward declarations, attributes, C style. */
#include "hip/hip_runtime.h"
#include <stdio.h>
typedef struct node_s {
  int key;
  struct node_s* next;
} node_t;
typedef float (*callback_t)(float arg, int times);
enum { SIZE = 64, ROUNDS = 4 };
enum class Phase : unsigned char { Load, Work = 3, Store };
static __constant__ int table[ROUNDS] = {1, 2, 3, 5};
__device__ __managed__ int hits;
__device__ static float step(float value, int times);
constexpr int square(int n) { return n * n; }
static_assert(square(8) == SIZE, "SIZE is square");
inline namespace v1 {
namespace {
struct alignas(16) Packed {
  char tag;
  float body[3];
};
}  // namespace
}  // namespace v1
namespace short_name = v1;

__global__ __launch_bounds__(SIZE) void machine(float* __restrict__ out, const int n, [[maybe_unused]] int spare) {
  __shared__ alignas(16) float tile[SIZE + 1];
  const int lane = threadIdx.x;
  Phase phase = Phase::Load;
  short_name::Packed packed = {'t', {1.f, 2.f, 3.f}};
  float value = 0.f;
  int round = 0;
again:
  switch (phase) {
    case Phase::Load:
      tile[lane] = out[lane];
      __syncthreads();
      phase = Phase::Work;
      goto again;
    case Phase::Work:
      value = step(tile[lane] + packed.body[round % 3], table[round]);
      if (++round < n) goto again;
      phase = Phase::Store;
      [[fallthrough]];
    default:
      break;
  }
  do {
    if (value > 1e6f) continue;
    value += 1.f;
  } while (value < 10.f);
  if (lane == 0) atomicAdd(&hits, round);
  out[lane] = value;
}
__device__ static float step(float v, int repeats) {
  while (repeats-- > 0) v = v * 0.5f + 1.f;
  return v;
}
static float host_step(float arg, int times) { return arg * times; }

int main(void) {
  float *p, h[SIZE];
  node_t second = {2, NULL}, first = {1, &second};
  callback_t callback = &host_step;
  int i, keys = 0;
  for (i = 0; i < SIZE; i++) h[i] = callback((float)i, 2);
  for (struct node_s* n = &first; n; n = n->next) keys += n->key;
  if (hipMalloc((void**)&p, sizeof h) != hipSuccess) return 1;
  if (hipMemcpy(p, h, sizeof h, hipMemcpyHostToDevice) != hipSuccess) return 1;
  machine<<<1, SIZE>>>(p, ROUNDS, 0);
  if (hipMemcpy(h, p, sizeof h, hipMemcpyDeviceToHost) != hipSuccess) return 1;
  printf("%.2f %.2f %d\n", h[0], h[SIZE - 1], keys);
  return 0;
}
