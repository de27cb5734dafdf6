// Radix 4: each work-item combines four points in registers, so five rounds through LDS replace ten.
//
// step: fft 3 fft_radix4_registers, after fft_lds
// paradigm: per-tile
// bound: gfx90a vl1d, gfx942 vl1d
// moves: SQ_INSTS_LDS down, SQ_INSTS down
// check: 4
#include <hip/hip_runtime.h>

#include <cmath>
#include <complex>
#include <cstdio>
#include <cstdlib>
#include <vector>

struct C {
  float re, im;
};
__device__ C operator+(C a, C b) { return {a.re + b.re, a.im + b.im}; }
__device__ C operator-(C a, C b) { return {a.re - b.re, a.im - b.im}; }
__device__ C operator*(C a, C b) { return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; }
__device__ C times_minus_i(C a) { return {a.im, -a.re}; }

constexpr int kN = 1024, kQuarter = kN / 4;

__global__ __launch_bounds__(kQuarter) void fft(const C* in, C* out, const C* roots) {
  __shared__ C line[kN];
  const int t = threadIdx.x;
  C v[4];
  for (int q = 0; q < 4; ++q) v[q] = in[blockIdx.x * kN + t + q * kQuarter];
#pragma unroll
  for (int span = 1; span < kN; span *= 4) {
    const int k = t % span;
    if (span > 1) {
      for (int q = 1; q < 4; ++q) v[q] = v[q] * roots[q * k * (kQuarter / span)];
    }
    const C even = v[0] + v[2], odd = v[1] + v[3], a = v[0] - v[2], b = times_minus_i(v[1] - v[3]);
    const int j = 4 * (t - k) + k;
    __syncthreads();
    line[j] = even + odd;
    line[j + span] = a + b;
    line[j + 2 * span] = even - odd;
    line[j + 3 * span] = a - b;
    __syncthreads();
    for (int q = 0; q < 4; ++q) v[q] = line[t + q * kQuarter];
  }
  for (int q = 0; q < 4; ++q) out[blockIdx.x * kN + t + q * kQuarter] = v[q];
}

int main(int argc, char** argv) {
  const int batches = argc > 1 ? std::atoi(argv[1]) : 4096;
  const std::size_t count = static_cast<std::size_t>(batches) * kN, bytes = count * sizeof(C);
  std::vector<C> x(count), y(count), roots(kN);
  for (int k = 0; k < kN; ++k) roots[k] = {cosf(-2 * M_PI * k / kN), sinf(-2 * M_PI * k / kN)};
  for (std::size_t i = 0; i < count; ++i) x[i] = {(i * 7 % 64) / 64.0f, (i * 3 % 32) / 32.0f};
  C *d_x, *d_y, *d_roots;
  if (hipMalloc(&d_x, bytes) != hipSuccess || hipMalloc(&d_y, bytes) != hipSuccess) return 1;
  if (hipMalloc(&d_roots, kN * sizeof(C)) != hipSuccess) return 1;
  (void)hipMemcpy(d_x, x.data(), bytes, hipMemcpyHostToDevice);
  (void)hipMemcpy(d_roots, roots.data(), kN * sizeof(C), hipMemcpyHostToDevice);
  fft<<<batches, kQuarter>>>(d_x, d_y, d_roots);
  (void)hipMemcpy(y.data(), d_y, bytes, hipMemcpyDeviceToHost);
  int wrong = 0;
  for (int s = 0; s < 60; ++s) {
    const int batch = s * 7 % batches, k = s * 53 % kN;
    std::complex<double> sum;
    for (int t = 0; t < kN; ++t) {
      const C c = x[static_cast<std::size_t>(batch) * kN + t];
      sum += std::complex<double>(c.re, c.im) * std::polar(1.0, -2 * M_PI * k * t / kN);
    }
    const C c = y[static_cast<std::size_t>(batch) * kN + k];
    wrong += std::abs(sum - std::complex<double>(c.re, c.im)) > 1e-2;
  }
  std::printf("%s\n", wrong ? "FAIL" : "PASS");
  return wrong ? EXIT_FAILURE : EXIT_SUCCESS;
}
