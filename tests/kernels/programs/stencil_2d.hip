// A five-point stencil on a pitched 2-D array, 2-D grid and block, edges kept.
#include "check.h"

__global__ void stencil(const double* in, double* out, int width, int height, size_t pitch) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height) return;
  const double* row = in + y * pitch;
  bool edge = x == 0 || y == 0 || x == width - 1 || y == height - 1;
  out[y * pitch + x] = edge ? row[x] : (row[x - 1] + row[x + 1]) + (row[x - pitch] + row[x + pitch]) - 4.0 * row[x];
}

int main() {
  const int width = 70, height = 45;
  static double in[height][width], out[height][width];
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x) in[y][x] = (x * 31 + y * 17) % 64;
  double *din, *dout;
  size_t pitch, pitch2;
  OK(hipMallocPitch((void**)&din, &pitch, sizeof in[0], height));
  OK(hipMallocPitch((void**)&dout, &pitch2, sizeof in[0], height));
  CHECK(pitch == pitch2 && pitch % 256 == 0 && pitch >= sizeof in[0]);
  OK(hipMemcpy2D(din, pitch, in, sizeof in[0], sizeof in[0], height, hipMemcpyHostToDevice));
  dim3 block(32, 8), grid((width + 31) / 32, (height + 7) / 8);
  stencil<<<grid, block>>>(din, dout, width, height, pitch / sizeof(double));
  OK(hipMemcpy2D(out, sizeof out[0], dout, pitch, sizeof out[0], height, hipMemcpyDeviceToHost));
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x) {
      bool edge = x == 0 || y == 0 || x == width - 1 || y == height - 1;
      double e = edge ? in[y][x] : in[y][x - 1] + in[y][x + 1] + in[y - 1][x] + in[y + 1][x] - 4.0 * in[y][x];
      CHECK(out[y][x] == e);
    }
  std::printf("stencil ok\n");
  return 0;
}
