// 2-D convolution: weights in constant memory, the image with its halo in dynamic LDS.
#include "check.h"

#include <vector>

constexpr int kRadius = 2, kWidth = 2 * kRadius + 1, kBlock = 16;
__constant__ int weights[kWidth][kWidth];

__global__ void convolve(const int* in, int* out, int width, int height) {
  extern __shared__ int tile[];
  const int side = kBlock + 2 * kRadius;
  int left = blockIdx.x * kBlock - kRadius, top = blockIdx.y * kBlock - kRadius;
  for (int i = threadIdx.y * kBlock + threadIdx.x; i < side * side; i += kBlock * kBlock) {
    int x = left + i % side, y = top + i / side;
    tile[i] = x >= 0 && x < width && y >= 0 && y < height ? in[y * width + x] : 0;
  }
  __syncthreads();
  int x = blockIdx.x * kBlock + threadIdx.x, y = blockIdx.y * kBlock + threadIdx.y;
  if (x >= width || y >= height) return;
  int sum = 0;
  for (int dy = 0; dy < kWidth; ++dy)
    for (int dx = 0; dx < kWidth; ++dx) sum += weights[dy][dx] * tile[(threadIdx.y + dy) * side + threadIdx.x + dx];
  out[y * width + x] = sum;
}

int main() {
  const int width = 75, height = 41, side = kBlock + 2 * kRadius;
  int kernel[kWidth][kWidth];
  for (int i = 0; i < kWidth * kWidth; ++i) kernel[0][i] = i * i % 11 - 5;
  std::vector<int> in(width * height), out(in.size());
  for (size_t i = 0; i < in.size(); ++i) in[i] = int(i * i % 251);
  OK(hipMemcpyToSymbol(HIP_SYMBOL(weights), kernel, sizeof kernel));
  int *din, *dout;
  size_t bytes = in.size() * sizeof(int);
  OK(hipMalloc(&din, bytes));
  OK(hipMalloc(&dout, bytes));
  OK(hipMemcpy(din, in.data(), bytes, hipMemcpyHostToDevice));
  dim3 grid((width + kBlock - 1) / kBlock, (height + kBlock - 1) / kBlock);
  convolve<<<grid, dim3(kBlock, kBlock), side * side * sizeof(int)>>>(din, dout, width, height);
  OK(hipMemcpy(out.data(), dout, bytes, hipMemcpyDeviceToHost));
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x) {
      int sum = 0;
      for (int dy = -kRadius; dy <= kRadius; ++dy)
        for (int dx = -kRadius; dx <= kRadius; ++dx)
          if (x + dx >= 0 && x + dx < width && y + dy >= 0 && y + dy < height)
            sum += kernel[dy + kRadius][dx + kRadius] * in[(y + dy) * width + x + dx];
      CHECK(out[y * width + x] == sum);
    }
  std::printf("conv2d ok\n");
}
