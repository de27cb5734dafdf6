// Many complex transforms of 1,024 points, one launch per butterfly stage: ten launches read and write all of the data.
//
// step: fft 1 fft_radix2_passes
// paradigm: multi-pass
// bound: gfx90a hbm, gfx942 infinity
// check: 4
#include <hip/hip_runtime.h>

#include <cmath>
#include <complex>
#include <cstdio>
#include <cstdlib>
#include <vector>

constexpr int kPoints = 1024;
constexpr float kPi = 3.14159265358979f;

// Stage of an autosort (Stockham) transform: `span` points are already combined.
__global__ void butterfly(const float2* in, float2* out, int span) {
  const int t = blockIdx.x * blockDim.x + threadIdx.x, batch = t / (kPoints / 2) * kPoints, i = t % (kPoints / 2);
  const int k = i % span, j = (i / span) * 2 * span + k;
  const float2 a = in[batch + i], b = in[batch + i + kPoints / 2];
  float s, c;
  __sincosf(-kPi * k / span, &s, &c);
  const float2 w = {b.x * c - b.y * s, b.x * s + b.y * c};
  out[batch + j] = {a.x + w.x, a.y + w.y};
  out[batch + j + span] = {a.x - w.x, a.y - w.y};
}

int main(int argc, char** argv) {
  const int batches = argc > 1 ? std::atoi(argv[1]) : 4096, n = batches * kPoints;
  std::vector<float2> x(n), y(n);
  for (int i = 0; i < n; ++i) x[i] = {static_cast<float>(i % 17) / 17, static_cast<float>(i % 5) / 5};
  float2 *a, *b;
  if (hipMalloc(&a, n * sizeof(float2)) != hipSuccess || hipMalloc(&b, n * sizeof(float2)) != hipSuccess) return 1;
  (void)hipMemcpy(a, x.data(), n * sizeof(float2), hipMemcpyHostToDevice);
  for (int span = 1; span < kPoints; span *= 2) {
    butterfly<<<n / 2 / 256, 256>>>(a, b, span);
    std::swap(a, b);
  }
  (void)hipMemcpy(y.data(), a, n * sizeof(float2), hipMemcpyDeviceToHost);
  double worst = 0;
  for (int s = 0; s < 64; ++s) {  // 64 outputs by definition
    const int batch = s % batches * kPoints, k = s * 131 % kPoints;
    std::complex<double> sum = 0;
    for (int t = 0; t < kPoints; ++t)
      sum += std::complex<double>(x[batch + t].x, x[batch + t].y) * std::polar(1.0, -2 * M_PI * k * t / kPoints);
    worst = std::fmax(worst, std::abs(sum - std::complex<double>(y[batch + k].x, y[batch + k].y)));
  }
  std::printf("%s, largest error %g\n", worst < 1e-2 ? "PASS" : "FAIL", worst);
  return worst < 1e-2 ? EXIT_SUCCESS : EXIT_FAILURE;
}
