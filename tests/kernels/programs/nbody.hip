// All-pairs gravity with LDS tiles of float4, rsqrtf, and several steps with swapped buffers.
#include "check.h"

#include <cmath>
#include <utility>
#include <vector>

constexpr int kBlock = 128;
constexpr float kSoftening = 0.01f, kStep = 0.01f;

__global__ void step(const float4* old_place, float4* place, float4* velocity, int n) {
  __shared__ float4 tile[kBlock];
  int me = blockIdx.x * blockDim.x + threadIdx.x;
  float4 mine = old_place[me];
  float3 force = make_float3(0, 0, 0);
  for (int start = 0; start < n; start += kBlock) {
    tile[threadIdx.x] = old_place[start + threadIdx.x];
    __syncthreads();
    for (int j = 0; j < kBlock; ++j) {
      float dx = tile[j].x - mine.x, dy = tile[j].y - mine.y, dz = tile[j].z - mine.z;
      float inverse = rsqrtf(dx * dx + dy * dy + dz * dz + kSoftening);
      float pull = tile[j].w * inverse * inverse * inverse;
      force.x += dx * pull, force.y += dy * pull, force.z += dz * pull;
    }
    __syncthreads();
  }
  float4 v = velocity[me];
  v.x += force.x * kStep, v.y += force.y * kStep, v.z += force.z * kStep;
  velocity[me] = v;
  place[me] = make_float4(mine.x + v.x * kStep, mine.y + v.y * kStep, mine.z + v.z * kStep, mine.w);
}

int main() {
  const int n = 256, steps = 3;
  std::vector<float4> place(n), velocity(n, make_float4(0, 0, 0, 0)), got(n);
  for (int i = 0; i < n; ++i)
    place[i] = make_float4(std::sin(i * 1.0f), std::cos(i * 2.0f), std::sin(i * 3.0f), 1.0f / n);
  float4 *from, *to, *speed;
  size_t bytes = n * sizeof(float4);
  OK(hipMalloc(&from, bytes));
  OK(hipMalloc(&to, bytes));
  OK(hipMalloc(&speed, bytes));
  OK(hipMemcpy(from, place.data(), bytes, hipMemcpyHostToDevice));
  OK(hipMemset(speed, 0, bytes));
  for (int s = 0; s < steps; ++s) {
    step<<<n / kBlock, kBlock>>>(from, to, speed, n);
    std::swap(from, to);
  }
  OK(hipMemcpy(got.data(), from, bytes, hipMemcpyDeviceToHost));
  for (int s = 0; s < steps; ++s) {
    std::vector<float4> old = place;
    for (int i = 0; i < n; ++i) {
      double f[3] = {0, 0, 0};
      for (const float4& other : old) {
        double dx = other.x - old[i].x, dy = other.y - old[i].y, dz = other.z - old[i].z;
        double pull = other.w * std::pow(dx * dx + dy * dy + dz * dz + kSoftening, -1.5);
        f[0] += dx * pull, f[1] += dy * pull, f[2] += dz * pull;
      }
      velocity[i].x += f[0] * kStep, velocity[i].y += f[1] * kStep, velocity[i].z += f[2] * kStep;
      place[i].x += velocity[i].x * kStep, place[i].y += velocity[i].y * kStep, place[i].z += velocity[i].z * kStep;
    }
  }
  for (int i = 0; i < n; ++i)
    CHECK(std::fabs(got[i].x - place[i].x) + std::fabs(got[i].y - place[i].y) + std::fabs(got[i].z - place[i].z) < 1e-4);
  std::printf("nbody ok\n");
}
