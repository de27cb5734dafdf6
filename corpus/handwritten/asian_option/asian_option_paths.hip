// An Asian option: each path is 64 steps of a log-normal walk, with pairs of normal numbers by Box and Muller. Logarithm,
// root, sine, cosine and exponential make transcendental instructions the load.
//
// step: asian_option 1 asian_option_paths
// paradigm: per-thread
// bound: gfx90a valu, gfx942 valu
// check: 512
#include <hip/hip_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

constexpr int kSteps = 64;

struct Option {
  float spot, strike, rate, volatility, years;
};

__global__ void paths(Option o, float* payoff, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned s = (i + 1) * 747796405u;
  auto uniform = [&s] {
    s = s * 1664525u + 1013904223u;
    const unsigned mixed = (s ^ s >> 16) * 2246822519u;
    return ((mixed >> 8) + 0.5f) * 0x1p-24f;
  };
  const float dt = o.years / kSteps, drift = (o.rate - 0.5f * o.volatility * o.volatility) * dt;
  const float scale = o.volatility * sqrtf(dt);
  float price = o.spot, sum = 0;
  for (int k = 0; k < kSteps; k += 2) {
    const float radius = __fsqrt_rn(-2.0f * __logf(uniform())), angle = 6.2831853f * uniform();
    price *= __expf(drift + scale * radius * __cosf(angle));
    sum += price;
    price *= __expf(drift + scale * radius * __sinf(angle));
    sum += price;
  }
  payoff[i] = fmaxf(sum / kSteps - o.strike, 0.0f);
}

int main(int argc, char** argv) {
  const int n = argc > 1 ? std::atoi(argv[1]) : 1 << 18;
  const Option o{100, 95, 0.03f, 0.2f, 1};
  std::vector<float> payoff(n);
  float* d = nullptr;
  if (hipMalloc(&d, n * sizeof(float)) != hipSuccess) return 1;
  paths<<<(n + 255) / 256, 256>>>(o, d, n);
  (void)hipMemcpy(payoff.data(), d, n * sizeof(float), hipMemcpyDeviceToHost);
  int wrong = 0;
  for (int i = 0; i < n; i += 1 + n / 200) {  // the same path in double precision
    unsigned s = (i + 1) * 747796405u;
    auto uniform = [&s] {
      s = s * 1664525u + 1013904223u;
      const unsigned mixed = (s ^ s >> 16) * 2246822519u;
      return ((mixed >> 8) + 0.5) / (1 << 24);
    };
    const double dt = o.years / kSteps, drift = (o.rate - 0.5 * o.volatility * o.volatility) * dt;
    double price = o.spot, sum = 0;
    for (int k = 0; k < kSteps; k += 2) {
      const double radius = std::sqrt(-2 * std::log(uniform())), angle = 2 * M_PI * uniform();
      sum += price *= std::exp(drift + o.volatility * std::sqrt(dt) * radius * std::cos(angle));
      sum += price *= std::exp(drift + o.volatility * std::sqrt(dt) * radius * std::sin(angle));
    }
    wrong += std::fabs(std::fmax(sum / kSteps - o.strike, 0) - payoff[i]) > 0.05;
  }
  std::printf("%s, %d paths differ\n", wrong ? "FAIL" : "PASS", wrong);
  return wrong ? EXIT_FAILURE : EXIT_SUCCESS;
}
