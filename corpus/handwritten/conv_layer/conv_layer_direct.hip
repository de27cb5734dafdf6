// A 3 x 3 layer of a neural network, 32 channels to 32: one work-item per output value loops over channels and taps and
// loads an input and a weight for every multiply-add.
//
// step: conv_layer 1 conv_layer_direct
// paradigm: per-thread
// bound: gfx90a vl1d, gfx942 vl1d
// check: 20 12
#include <hip/hip_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CHANNELS 32

__global__ void layer(const float* in, const float* weights, float* out, int w, int h) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y, oc = blockIdx.z;
  if (x >= w) return;
  float sum = 0;
  for (int ic = 0; ic < CHANNELS; ic++)
    for (int j = 0; j < 3; j++)
      for (int i = 0; i < 3; i++)
        sum += in[(ic * (h + 2) + y + j) * (w + 2) + x + i] * weights[((oc * CHANNELS + ic) * 3 + j) * 3 + i];
  out[(oc * h + y) * w + x] = fmaxf(sum, 0.0f);
}

int main(int argc, char** argv) {
  int w = argc > 1 ? atoi(argv[1]) : 256, h = argc > 2 ? atoi(argv[2]) : 128;
  std::vector<float> in(CHANNELS * (h + 2) * (w + 2)), weights(CHANNELS * CHANNELS * 9), out(CHANNELS * h * w);
  for (size_t i = 0; i < in.size(); i++) in[i] = (i % 23) * 0.1f - 1;
  for (size_t i = 0; i < weights.size(); i++) weights[i] = (i % 19) * 0.05f - 0.4f;
  float *d_in, *d_w, *d_out;
  (void)hipMalloc(&d_in, in.size() * sizeof(float));
  (void)hipMalloc(&d_w, weights.size() * sizeof(float));
  if (hipMalloc(&d_out, out.size() * sizeof(float)) != hipSuccess) return EXIT_FAILURE;
  (void)hipMemcpy(d_in, in.data(), in.size() * sizeof(float), hipMemcpyHostToDevice);
  (void)hipMemcpy(d_w, weights.data(), weights.size() * sizeof(float), hipMemcpyHostToDevice);
  layer<<<dim3((w + 127) / 128, h, CHANNELS), 128>>>(d_in, d_w, d_out, w, h);
  if (hipMemcpy(out.data(), d_out, out.size() * sizeof(float), hipMemcpyDeviceToHost) != hipSuccess) return EXIT_FAILURE;
  int wrong = 0;
  for (int s = 0; s < 2000; s++) {
    int x = s * 37 % w, y = s * 11 % h, oc = s % CHANNELS;
    double sum = 0;
    for (int ic = 0; ic < CHANNELS; ic++)
      for (int j = 0; j < 3; j++)
        for (int i = 0; i < 3; i++)
          sum += (double)in[(ic * (h + 2) + y + j) * (w + 2) + x + i] * weights[((oc * CHANNELS + ic) * 3 + j) * 3 + i];
    wrong += fabs(fmax(sum, 0) - out[(oc * h + y) * w + x]) > 1e-3;
  }
  printf("%s (%d wrong)\n", wrong ? "FAIL" : "PASS", wrong);
  return wrong ? EXIT_FAILURE : EXIT_SUCCESS;
}
