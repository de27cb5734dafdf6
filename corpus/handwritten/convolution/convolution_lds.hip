// The pixels of a 64 x 16 tile and its border in LDS, the weights in constant memory, from where they reach scalar
// registers once per wavefront.
//
// step: convolution 2 convolution_lds, after convolution_global
// paradigm: per-tile
// bound: gfx90a valu, gfx942 lds
// moves: TCP_TOTAL_CACHE_ACCESSES down, SQ_INSTS_LDS up
// check: 128 64
#include <hip/hip_runtime.h>

#include <cmath>
#include <cstdlib>
#include <iostream>
#include <vector>

constexpr int R = 3, W = 64, H = 16;
__constant__ float filter[2 * R + 1][2 * R + 1];

__global__ __launch_bounds__(256) void convolve_tile(const float* in, float* out, int width, int height) {
  __shared__ float tile[H + 2 * R][W + 2 * R];
  const int pitch = width + 2 * R, x0 = blockIdx.x * W, y0 = blockIdx.y * H;
  for (int y = threadIdx.y; y < H + 2 * R; y += 4)
    for (int x = threadIdx.x; x < W + 2 * R; x += 64)
      tile[y][x] = y0 + y < height + 2 * R && x0 + x < pitch ? in[(y0 + y) * pitch + x0 + x] : 0.f;
  __syncthreads();
  for (int y = threadIdx.y; y < H; y += 4) {
    float sum = 0;
    for (int j = 0; j <= 2 * R; ++j)
      for (int i = 0; i <= 2 * R; ++i) sum = fmaf(filter[j][i], tile[y + j][threadIdx.x + i], sum);
    if (y0 + y < height && x0 + threadIdx.x < width) out[(y0 + y) * width + x0 + threadIdx.x] = sum;
  }
}

struct Device {
  float* p = nullptr;
  explicit Device(std::size_t n) {
    if (hipMalloc(&p, n * sizeof(float)) != hipSuccess) throw std::bad_alloc();
  }
  ~Device() { (void)hipFree(p); }
};

int main(int argc, char** argv) {
  const int width = argc > 1 ? atoi(argv[1]) : 1920, height = argc > 2 ? atoi(argv[2]) : 1080, pitch = width + 2 * R;
  float weights[7][7];
  for (int j = 0; j < 7; ++j)
    for (int i = 0; i < 7; ++i) weights[j][i] = std::exp(-0.2f * ((i - R) * (i - R) + (j - R) * (j - R)));
  std::vector<float> in(pitch * (height + 2 * R)), out(width * height);
  unsigned lcg = 1;
  for (auto& p : in) p = ((lcg = lcg * 22695477u + 1) >> 16) % 256;
  Device d_in(in.size()), d_out(out.size());
  (void)hipMemcpyToSymbol(HIP_SYMBOL(filter), weights, sizeof weights);
  (void)hipMemcpy(d_in.p, in.data(), in.size() * 4, hipMemcpyHostToDevice);
  convolve_tile<<<dim3((width + W - 1) / W, (height + H - 1) / H), dim3(64, 4)>>>(d_in.p, d_out.p, width, height);
  (void)hipMemcpy(out.data(), d_out.p, out.size() * 4, hipMemcpyDeviceToHost);
  int wrong = 0;
  for (int y = 0; y < height; y += 5)
    for (int x = y % 3; x < width; x += 7) {
      float sum = 0;
      for (int j = 0; j < 7; ++j)
        for (int i = 0; i < 7; ++i) sum += weights[j][i] * in[(y + j) * pitch + x + i];
      wrong += std::abs(sum - out[y * width + x]) > 1e-4f * sum + 1e-3f;
    }
  std::cout << (wrong ? "FAIL" : "PASS") << std::endl;
  return wrong ? 1 : 0;
}
