// Gravitation of all pairs, every work-item reads all bodies from global memory: the same address for all lanes, served
// by scalar loads and the cache.
//
// step: nbody 1 nbody_global
// paradigm: per-thread
// bound: gfx90a valu, gfx942 valu
// check: 500
#include <hip/hip_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

// One work-item of `accelerations`; the last parameters stand for the built-in coordinates.
static __device__ __forceinline__ void accelerations_item(const float4* bodies, float3* out, int n, const dim3 threadIdx, const dim3 blockIdx, const dim3 blockDim, const dim3 gridDim) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float4 me = bodies[i];
  float3 a = {0, 0, 0};
  
#pragma unroll 8
  for (int j = 0; j < n; ++j) {
    const float4 other = bodies[j];
    const float dx = other.x - me.x, dy = other.y - me.y, dz = other.z - me.z;
    const float inverse = 1.0f / sqrtf(dx * dx + dy * dy + dz * dz + 0.01f);
    const float f = other.w * inverse * inverse * inverse;
    a.x += f * dx;
    a.y += f * dy;
    a.z += f * dz;
  }
  out[i] = a;
}

__global__ __launch_bounds__(256) void accelerations(const float4* bodies, float3* out, int n, unsigned lane_groups_x, unsigned lane_groups_y, unsigned lane_groups_z) {
  const dim3 lane_block(128, 1, 1), lane_groups(lane_groups_x, lane_groups_y, lane_groups_z);
  const unsigned lane_x = blockIdx.x * 256 + threadIdx.x;
  const unsigned lane_y = blockIdx.y;
  const unsigned lane_z = blockIdx.z;
  if (lane_x < lane_groups.x * 128) {
    accelerations_item(bodies, out, n, dim3(lane_x % 128, 0, 0), dim3(lane_x / 128, lane_y, lane_z), lane_block, lane_groups);
  }
}

int main(int argc, char** argv) {
  const int n = argc > 1 ? std::atoi(argv[1]) : 16384;
  std::vector<float4> bodies(n);
  std::vector<float3> out(n);
  for (int i = 0; i < n; ++i) bodies[i] = {i * 37 % 101 / 50.0f, i * 53 % 103 / 50.0f, i * 71 % 107 / 50.0f, 1.0f / n};
  float4* d;
  float3* a;
  if (hipMalloc(&d, n * sizeof(float4)) != hipSuccess || hipMalloc(&a, n * sizeof(float3)) != hipSuccess) return 1;
  (void)hipMemcpy(d, bodies.data(), n * sizeof(float4), hipMemcpyHostToDevice);
  {
    const dim3 lane_groups = dim3((n + 127) / 128);
    accelerations<<<dim3((lane_groups.x * 128 + 255) / 256, lane_groups.y, lane_groups.z), dim3(256, 1, 1)>>>(d, a, n, lane_groups.x, lane_groups.y, lane_groups.z);
  }
  (void)hipMemcpy(out.data(), a, n * sizeof(float3), hipMemcpyDeviceToHost);
  for (int i = 0; i < n; i += 1 + n / 64) {
    double x = 0;
    for (const float4& b : bodies) {
      const double dx = b.x - bodies[i].x, dy = b.y - bodies[i].y, dz = b.z - bodies[i].z;
      x += b.w * dx / std::pow(dx * dx + dy * dy + dz * dz + 0.01, 1.5);
    }
    if (std::fabs(x - out[i].x) > 1e-3) return std::printf("FAIL: body %d: %g, expected %g\n", i, out[i].x, x), 1;
  }
  std::printf("PASS\n");
  return 0;
}
