// One's own names that the library uses too: members x/size/data, functions max/swap, variables count/index, C names.
#include <hip/hip_runtime.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <algorithm>
#include <vector>

struct float5 {
  float x, y, z, w, v;
};
struct Buffer {
  float* data;
  size_t size;
  int count;
};
__host__ __device__ inline float max(float5 f) { return f.x > f.v ? f.x : f.v; }
template <typename T>
__host__ __device__ void exchange(T& a, T& b) { T t = a; a = b; b = t; }
static int index(const Buffer& b, int i) { return b.count > i ? i : 0; }
template <typename V>
__host__ __device__ float firstOf(const V& v) { return v.x; }
template <typename C>
size_t lengthOf(const C& c) { return c.size(); }

extern "C" __global__ void kernel(Buffer buffer, float4 extra, float5 own) {
  int x = threadIdx.x, y = blockIdx.x, min = blockDim.x;
  float4 v = make_float4(x, y, min, 0);
  v.x += own.x + firstOf(extra) + firstOf(own);
  v.w = fmaxf(v.x, fabsf(own.v)) + max(own) + max(x, 3);
  exchange(v.x, v.y);
  if (x < static_cast<int>(buffer.size)) buffer.data[x] = v.x + v.y + v.w + sqrtf(extra.z) + __popc(x);
}

int main(int argc, char** argv) {
  Buffer buffer;
  memset(&buffer, 0, sizeof buffer);
  buffer.size = 64;
  buffer.count = argc;
  if (hipMalloc(reinterpret_cast<void**>(&buffer.data), buffer.size * sizeof(float)) != hipSuccess) return 1;
  float5 own = {.x = 1, .y = 2, .z = 3, .w = 4, .v = 5};
  void* args[] = {&buffer, nullptr, &own};
  float4 extra = make_float4(9, 8, 16, 6);
  args[1] = &extra;
  dim3 grid(1), block(64);
  if (hipLaunchKernel(reinterpret_cast<const void*>(kernel), grid, block, args, 0, nullptr) != hipSuccess) return 1;
  std::vector<float> data(buffer.size);
  if (hipMemcpy(data.data(), buffer.data, data.size() * sizeof(float), hipMemcpyDeviceToHost) != hipSuccess) return 1;
  int count = std::count(data.begin(), data.end(), 0.0f);
  std::swap(data[0], data[1]);
  printf("%d %d %zu %.2f %s\n", count, index(buffer, 5), lengthOf(data), data[0], argv[0] ? "x size data" : "");
  return count + abs(0);
}
