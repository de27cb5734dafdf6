// Prices of European calls and puts from an array of structures of five floats: neighbouring lanes read addresses 20
// bytes apart.
//
// step: black_scholes 1 black_scholes_structs
// paradigm: per-thread
// bound: gfx90a hbm, gfx942 infinity
// check: 3000
#include <hip/hip_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

struct Option {
  float spot, strike, years, call, put;
};
constexpr float kRate = 0.02f, kVolatility = 0.3f;

__device__ float normal_cdf(float x) { return 0.5f * erfcf(-x * 0.70710678f); }

__global__ void price(Option* options, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const Option o = options[i];
  const float spread = kVolatility * sqrtf(o.years);
  const float d1 = (logf(o.spot / o.strike) + (kRate + 0.5f * kVolatility * kVolatility) * o.years) / spread;
  const float discounted = o.strike * expf(-kRate * o.years);
  const float call = o.spot * normal_cdf(d1) - discounted * normal_cdf(d1 - spread);
  options[i].call = call;
  options[i].put = call + discounted - o.spot;
}

int main(int argc, char** argv) {
  const int n = argc > 1 ? std::atoi(argv[1]) : 1 << 22;
  std::vector<Option> o(n);
  for (int i = 0; i < n; ++i) o[i] = {50.0f + i % 100, 60.0f + i % 77, 0.1f + i % 13 * 0.2f, 0, 0};
  Option* d;
  if (hipMalloc(&d, n * sizeof(Option)) != hipSuccess) return 1;
  (void)hipMemcpy(d, o.data(), n * sizeof(Option), hipMemcpyHostToDevice);
  price<<<(n + 255) / 256, 256>>>(d, n);
  (void)hipMemcpy(o.data(), d, n * sizeof(Option), hipMemcpyDeviceToHost);
  auto cdf = [](double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); };
  for (int i = 0; i < n; i += 1 + n / 5000) {
    const double spread = kVolatility * std::sqrt(o[i].years);
    const double d1 = (std::log(double(o[i].spot) / o[i].strike) + (kRate + 0.5 * kVolatility * kVolatility) * o[i].years) / spread;
    const double call = o[i].spot * cdf(d1) - o[i].strike * std::exp(-double(kRate) * o[i].years) * cdf(d1 - spread);
    if (std::fabs(call - o[i].call) > 1e-3) return std::printf("FAIL: option %d\n", i), EXIT_FAILURE;
  }
  std::printf("PASS\n");
  return EXIT_SUCCESS;
}
