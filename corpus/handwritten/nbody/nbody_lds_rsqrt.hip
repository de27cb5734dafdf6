// Bodies pass through LDS in tiles of 256, and v_rsq_f32 replaces a correctly rounded square root and a division, which
// were most of the instructions.
//
// step: nbody 2 nbody_lds_rsqrt, after nbody_global
// paradigm: per-tile
// bound: gfx90a valu, gfx942 valu
// moves: SQ_INSTS_VALU down, SQ_INSTS_LDS up, Duration down
// check: 512
#include <hip/hip_runtime.h>
#include <thrust/device_vector.h>

#include <cmath>
#include <cstdlib>
#include <iostream>
#include <vector>

constexpr int kTile = 256;

__device__ float3 pull(float3 a, float4 me, float4 other) {
  const float dx = other.x - me.x, dy = other.y - me.y, dz = other.z - me.z;
  const float r = __frsqrt_rn(dx * dx + dy * dy + dz * dz + 0.01f), f = other.w * r * r * r;
  return make_float3(a.x + f * dx, a.y + f * dy, a.z + f * dz);
}

__global__ __launch_bounds__(kTile) void nbody(const float4* bodies, float4* out, int n) {
  __shared__ float4 tile[kTile];
  const float4 me = bodies[blockIdx.x * kTile + threadIdx.x];
  float3 a = make_float3(0, 0, 0);
  for (int first = 0; first < n; first += kTile) {
    tile[threadIdx.x] = bodies[first + threadIdx.x];
    __syncthreads();
#pragma unroll 8
    for (int j = 0; j < kTile; ++j) a = pull(a, me, tile[j]);
    __syncthreads();
  }
  out[blockIdx.x * kTile + threadIdx.x] = make_float4(a.x, a.y, a.z, 0);
}

int main(int argc, char** argv) {
  const int n = argc > 1 ? atoi(argv[1]) : 16384;  // a multiple of 256
  std::vector<float4> bodies(n), a(n);
  for (int i = 0; i < n; ++i)
    bodies[i] = make_float4(std::cos(0.1f * i), std::sin(0.3f * i), std::cos(0.7f * i), 0.001f * (i % 3 + 1));
  thrust::device_vector<float4> d_bodies(bodies), d_a(n);
  nbody<<<n / kTile, kTile>>>(d_bodies.data().get(), d_a.data().get(), n);
  thrust::copy(d_a.begin(), d_a.end(), a.begin());
  bool ok = true;
  for (int i = 0; i < n; i += n / 32) {
    double y = 0;
    for (const auto& b : bodies) {
      const double dx = b.x - bodies[i].x, dy = b.y - bodies[i].y, dz = b.z - bodies[i].z;
      y += b.w * dy / std::pow(dx * dx + dy * dy + dz * dz + 0.01, 1.5);
    }
    ok = ok && std::abs(y - a[i].y) < 1e-3 * (1 + std::abs(y));
  }
  std::cout << (ok ? "PASS" : "FAIL") << "\n";
  return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
