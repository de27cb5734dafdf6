// Both electric components in one launch: Hz is read once for both, and a third of the launches goes.
//
// step: fdtd2d 2 fdtd2d_two_launches, after fdtd2d_three_launches
// paradigm: multi-pass
// bound: gfx90a hbm, gfx942 infinity
// moves: FETCH_SIZE down, SQ_WAVES down, Duration down
// check: 96 3
#include <hip/hip_runtime.h>

#include <cmath>
#include <cstdlib>
#include <iostream>
#include <vector>

class Plane {
 public:
  explicit Plane(int n) : host(n * n) {
    if (hipMalloc(&device, bytes()) != hipSuccess) std::exit(3);
  }
  ~Plane() { (void)hipFree(device); }
  void send() { (void)hipMemcpy(device, host.data(), bytes(), hipMemcpyHostToDevice); }
  std::vector<float> fetch() const {
    std::vector<float> copy(host.size());
    (void)hipMemcpy(copy.data(), device, bytes(), hipMemcpyDeviceToHost);
    return copy;
  }
  std::size_t bytes() const { return host.size() * sizeof(float); }
  std::vector<float> host;
  float* device = nullptr;
};

__global__ void electric(float* ex, float* ey, const float* hz, int n, float source) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y, i = y * n + x;
  if (x >= n || y >= n) return;
  const float h = hz[i];
  ey[i] = y == 0 ? source : ey[i] - 0.5f * (h - hz[i - n]);
  if (x > 0) ex[i] -= 0.5f * (h - hz[i - 1]);
}

__global__ void magnetic(float* hz, const float* ex, const float* ey, int n) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y, i = y * n + x;
  if (x < n - 1 && y < n - 1) hz[i] -= 0.7f * (ex[i + 1] - ex[i] + ey[i + n] - ey[i]);
}

int main(int argc, char** argv) {
  const int n = argc > 1 ? std::atoi(argv[1]) : 2048, steps = argc > 2 ? std::atoi(argv[2]) : 3;
  Plane ex(n), ey(n), hz(n);
  for (int i = 0; i < n * n; ++i) {
    ex.host[i] = 0.01f * (i % 100);
    ey.host[i] = 0.02f * (i % 50);
    hz.host[i] = 0.05f * (i % 20);
  }
  for (Plane* p : {&ex, &ey, &hz}) p->send();
  const dim3 block(64, 4), grid((n + 63) / 64, (n + 3) / 4);
  for (int t = 0; t < steps; ++t) {
    electric<<<grid, block>>>(ex.device, ey.device, hz.device, n, 0.5f * t);
    magnetic<<<grid, block>>>(hz.device, ex.device, ey.device, n);
  }
  const std::vector<float> got = hz.fetch();
  auto &X = ex.host, &Y = ey.host, &Z = hz.host;
  for (int t = 0; t < steps; ++t) {
    for (int i = 0; i < n * n; ++i) {
      Y[i] = i < n ? 0.5f * t : Y[i] - 0.5f * (Z[i] - Z[i - n]);
      if (i % n > 0) X[i] -= 0.5f * (Z[i] - Z[i - 1]);
    }
    for (int i = 0; i < n * (n - 1); ++i)
      if (i % n < n - 1) Z[i] -= 0.7f * (X[i + 1] - X[i] + Y[i + n] - Y[i]);
  }
  int wrong = 0;
  for (int i = 0; i < n * n; ++i) wrong += std::abs(Z[i] - got[i]) > 1e-3f;
  std::cout << (wrong ? "FAIL" : "PASS") << " " << wrong << "\n";
  return wrong ? 1 : 0;
}
