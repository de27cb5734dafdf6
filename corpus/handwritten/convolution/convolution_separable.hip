// A filter that is a product of a row and a column: two passes of seven taps instead of one of 49, at the price of an
// intermediate image in memory.
//
// step: convolution 3 convolution_separable, after convolution_lds
// paradigm: multi-pass
// bound: gfx90a l2, gfx942 infinity
// moves: EXACT_FLOPS down, SQ_INSTS_LDS down
// check: 128 64
#include <hip/hip_runtime.h>
#include <thrust/device_vector.h>

#include <cmath>
#include <cstdlib>
#include <iostream>
#include <vector>

struct Taps {
  float w[7];
};

// `step` is the distance between taps: 1 along rows, the row length along columns.
__global__ void pass(const float* in, float* out, int count, int step, Taps taps) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  float sum = 0;
#pragma unroll
  for (int k = 0; k < 7; ++k) sum += taps.w[k] * in[i + k * step];
  out[i] = sum;
}

int main(int argc, char** argv) {
  const int width = argc > 1 ? std::atoi(argv[1]) : 1920, height = argc > 2 ? std::atoi(argv[2]) : 1080;
  const int pitch = width + 6, rows = height + 6;
  const Taps taps{{1, 6, 15, 20, 15, 6, 1}};
  std::vector<float> image(pitch * rows + 6);
  for (std::size_t i = 0; i < image.size(); ++i) image[i] = (i * i >> 3) & 127;
  thrust::device_vector<float> in(image), middle(pitch * rows), out(pitch * height);
  auto launch = [](const thrust::device_vector<float>& from, thrust::device_vector<float>& to, int step, Taps t) {
    const int count = to.size();
    pass<<<(count + 255) / 256, 256>>>(from.data().get(), to.data().get(), count, step, t);
  };
  launch(in, middle, 1, taps);
  launch(middle, out, pitch, taps);
  std::vector<float> got(out.size());
  thrust::copy(out.begin(), out.end(), got.begin());
  for (int s = 0; s < 3000; ++s) {
    const int x = s * 101 % width, y = s * 67 % height;
    double want = 0;
    for (int j = 0; j < 7; ++j)
      for (int i = 0; i < 7; ++i) want += taps.w[j] * taps.w[i] * image[(y + j) * pitch + x + i];
    if (std::abs(want - got[y * pitch + x]) > 1e-5 * want) {
      std::cout << "FAIL " << x << " " << y << "\n";
      return EXIT_FAILURE;
    }
  }
  std::cout << "PASS\n";
  return EXIT_SUCCESS;
}
