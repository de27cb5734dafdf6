// Resident wavefronts take blocks of 8 x 8 pixels from a queue. A compact block has fewer border pixels than a row
// segment, so lanes wait less, and wavefronts that meet cheap blocks take more of them.
//
// step: mandelbrot 2 mandelbrot_queue, after mandelbrot_rows
// paradigm: work queue
// bound: gfx90a salu, gfx942 atomics
// moves: SQ_INSTS_VALU down, SQ_WAVES down
// check: 128
#include <hip/hip_runtime.h>

#include <cstdlib>
#include <iostream>
#include <vector>

__host__ __device__ inline int escape(float cr, float ci) {
  float r = 0, i = 0;
  int k = 0;
  while (k < 256 && r * r + i * i < 4.0f) {
    const float next = r * r - i * i + cr;
    i = 2 * r * i + ci;
    r = next;
    ++k;
  }
  return k;
}

__global__ __launch_bounds__(64) void render(unsigned short* image, int n, int* next_block, int blocks) {
  const int lane = threadIdx.x, per_row = n / 8;
  for (;;) {
    int block = 0;
    if (lane == 0) block = atomicAdd(next_block, 1);
    block = __shfl(block, 0);
    if (block >= blocks) return;
    const int x = block % per_row * 8 + lane % 8, y = block / per_row * 8 + lane / 8;
    image[y * n + x] = escape(-2.0f + 2.5f * x / n, -1.25f + 2.5f * y / n);
  }
}

int main(int argc, char** argv) {
  const int n = argc > 1 ? std::atoi(argv[1]) : 1024;  // a multiple of eight
  hipDeviceProp_t device;
  unsigned short* image;
  int* next;
  if (hipGetDeviceProperties(&device, 0) != hipSuccess) return 2;
  if (hipMalloc(&image, n * n * sizeof *image) != hipSuccess || hipMalloc(&next, sizeof *next) != hipSuccess) return 2;
  if (hipMemset(next, 0, sizeof *next) != hipSuccess) return 2;
  render<<<device.multiProcessorCount * 8, 64>>>(image, n, next, n / 8 * (n / 8));
  std::vector<unsigned short> got(n * n);
  if (hipMemcpy(got.data(), image, got.size() * sizeof *image, hipMemcpyDeviceToHost) != hipSuccess) return 2;
  int checked = 0, differ = 0;
  for (int y = 0; y < n; y += 5)
    for (int x = 0; x < n; x += 7, ++checked)
      differ += got[y * n + x] != escape(-2.0f + 2.5f * x / n, -1.25f + 2.5f * y / n);
  const bool ok = 50 * differ <= checked;
  std::cout << (ok ? "PASS" : "FAIL") << ": " << differ << " of " << checked << " differ\n";
  return ok ? 0 : 1;
}
