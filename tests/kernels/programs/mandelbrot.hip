// Escape times: a divergent loop in which every lane leaves at its own iteration.
#include "check.h"

#include <vector>

__host__ __device__ int escape(float cx, float cy, int limit) {
  float x = 0, y = 0;
  int steps = 0;
  while (steps < limit && x * x + y * y < 4.0f) {
    float t = x * x - y * y + cx;
    y = 2 * x * y + cy;
    x = t;
    ++steps;
  }
  return steps;
}

__global__ void mandelbrot(int* out, int width, int height, int limit) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height) return;
  out[y * width + x] = escape(x * 3.0f / width - 2.0f, y * 2.0f / height - 1.0f, limit);
}

int main() {
  const int width = 96, height = 64, limit = 100;
  std::vector<int> out(width * height);
  int* d;
  OK(hipMalloc(&d, out.size() * sizeof(int)));
  mandelbrot<<<dim3(6, 4), dim3(16, 16)>>>(d, width, height, limit);
  OK(hipMemcpy(out.data(), d, out.size() * sizeof(int), hipMemcpyDeviceToHost));
  int different = 0, inside = 0;
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x) {
      int expected = escape(x * 3.0f / width - 2.0f, y * 2.0f / height - 1.0f, limit);
      different += out[y * width + x] != expected;
      inside += expected == limit;
    }
  CHECK(inside > 500 && inside < 3000);
  CHECK(different < width * height / 50);  // points at the edge may differ by rounding
  std::printf("mandelbrot ok\n");
}
