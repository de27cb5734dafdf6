// A 7 x 7 filter over an image, weights and pixels both read from global memory by every work-item.
//
// step: convolution 1 convolution_global
// paradigm: per-thread
// bound: gfx90a vl1d, gfx942 vl1d
// check: 100 70
#include <hip/hip_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

constexpr int kTaps = 7;

// The image has kTaps - 1 more columns and rows than the result.
__global__ void convolve(const float* image, const float* filter, float* out, int width, int height) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height) return;
  const int pitch = width + kTaps - 1;
  float sum = 0;
  for (int j = 0; j < kTaps; ++j)
    for (int i = 0; i < kTaps; ++i) sum += filter[j * kTaps + i] * image[(y + j) * pitch + x + i];
  out[y * width + x] = sum;
}

int main(int argc, char** argv) {
  const int width = argc > 1 ? std::atoi(argv[1]) : 1920, height = argc > 2 ? std::atoi(argv[2]) : 1080;
  const int pitch = width + kTaps - 1;
  std::vector<float> image(pitch * (height + kTaps - 1)), filter(kTaps * kTaps), out(width * height);
  for (std::size_t i = 0; i < image.size(); ++i) image[i] = static_cast<float>(i % 255);
  for (int k = 0; k < kTaps * kTaps; ++k) filter[k] = 1.0f / (1 + k);
  float *d_image, *d_filter, *d_out;
  if (hipMalloc(&d_image, image.size() * 4) || hipMalloc(&d_filter, filter.size() * 4) || hipMalloc(&d_out, out.size() * 4))
    return 1;
  (void)hipMemcpy(d_image, image.data(), image.size() * 4, hipMemcpyHostToDevice);
  (void)hipMemcpy(d_filter, filter.data(), filter.size() * 4, hipMemcpyHostToDevice);
  const dim3 block(32, 8), grid((width + 31) / 32, (height + 7) / 8);
  convolve<<<grid, block>>>(d_image, d_filter, d_out, width, height);
  (void)hipMemcpy(out.data(), d_out, out.size() * 4, hipMemcpyDeviceToHost);
  for (int s = 0; s < 5000; ++s) {
    const int x = s * 389 % width, y = s * 211 % height;
    double sum = 0;
    for (int j = 0; j < kTaps; ++j)
      for (int i = 0; i < kTaps; ++i) sum += filter[j * kTaps + i] * image[(y + j) * pitch + x + i];
    if (std::fabs(sum - out[y * width + x]) > 1e-4 * sum) return std::printf("FAIL at %d %d\n", x, y), 1;
  }
  std::printf("PASS\n");
  return 0;
}
