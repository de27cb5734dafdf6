// Conway's game of life with a byte per cell and a cell per work-item: nine one-byte loads for one bit of result.
//
// step: life 1 life_bytes
// paradigm: per-thread
// bound: gfx90a valu, gfx942 dispatch
// check: 256
#include <hip/hip_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

using Byte = unsigned char;

__host__ __device__ Byte lives(const Byte* cells, int x, int y, int n) {  // n: a power of two; the plane is periodic
  int around = 0;
  for (int dy = -1; dy <= 1; ++dy)
    for (int dx = -1; dx <= 1; ++dx)
      if (dx || dy) around += cells[((y + dy) & (n - 1)) * n + ((x + dx) & (n - 1))];
  return around == 3 || (around == 2 && cells[y * n + x]);
}

__global__ void generation(const Byte* now, Byte* next, int n) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  next[y * n + x] = lives(now, x, y, n);
}

int main(int argc, char** argv) {
  const int n = argc > 1 ? std::atoi(argv[1]) : 4096;  // a power of two, at least 64
  std::vector<Byte> now(n * n), next(n * n);
  for (int i = 0; i < n * n; ++i) now[i] = (i * 2654435761u >> 13) % 3 == 0;
  Byte *a, *b;
  if (hipMalloc(&a, n * n) != hipSuccess || hipMalloc(&b, n * n) != hipSuccess) return 1;
  (void)hipMemcpy(a, now.data(), n * n, hipMemcpyHostToDevice);
  generation<<<dim3(n / 64, n / 4), dim3(64, 4)>>>(a, b, n);
  (void)hipMemcpy(next.data(), b, n * n, hipMemcpyDeviceToHost);
  int wrong = 0;
  for (int y = 0; y < n; y += 7)
    for (int x = 0; x < n; ++x) wrong += next[y * n + x] != lives(now.data(), x, y, n);
  std::printf("%s\n", wrong ? "FAIL" : "PASS");
  return wrong ? EXIT_FAILURE : EXIT_SUCCESS;
}
