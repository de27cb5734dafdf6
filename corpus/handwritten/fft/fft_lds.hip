// One work-group per transform: its 1,024 points stay in LDS through all ten stages, so global memory is read and written
// once. The twiddle factors are a table.
//
// step: fft 2 fft_lds, after fft_radix2_passes
// paradigm: per-tile
// bound: gfx90a vl1d, gfx942 vl1d
// moves: TCC_REQ down, Duration down
// check: 4
#include <hip/hip_runtime.h>

#include <cmath>
#include <complex>
#include <cstdlib>
#include <iostream>
#include <vector>

constexpr int N = 1024;

__global__ __launch_bounds__(256) void fft1024(float2* data, const float2* twiddles) {
  __shared__ float2 lines[2][N];
  float2* mine = data + blockIdx.x * N;
  for (int i = threadIdx.x; i < N; i += 256) lines[0][i] = mine[i];
  int from = 0;
  for (int span = 1; span < N; span *= 2, from ^= 1) {
    __syncthreads();
    for (int i = threadIdx.x; i < N / 2; i += 256) {
      const int k = i & (span - 1), j = 2 * i - k;
      const float2 a = lines[from][i], b = lines[from][i + N / 2], w = twiddles[k * (N / 2 / span)];
      const float2 t = make_float2(b.x * w.x - b.y * w.y, b.x * w.y + b.y * w.x);
      lines[from ^ 1][j] = make_float2(a.x + t.x, a.y + t.y);
      lines[from ^ 1][j + span] = make_float2(a.x - t.x, a.y - t.y);
    }
  }
  __syncthreads();
  for (int i = threadIdx.x; i < N; i += 256) mine[i] = lines[from][i];
}

using Complex = std::complex<double>;

int main(int argc, char** argv) {
  const int batches = argc > 1 ? std::atoi(argv[1]) : 4096;
  std::vector<float2> x(batches * N), y(x.size()), w(N / 2);
  for (int k = 0; k < N / 2; ++k) w[k] = {std::cos(-2.0f * float(M_PI) * k / N), std::sin(-2.0f * float(M_PI) * k / N)};
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = {std::cos(0.37f * (i % 4096)), i % 3 - 1.0f};
  float2 *dx = nullptr, *dw = nullptr;
  bool ok = hipMalloc(&dx, x.size() * sizeof(float2)) == hipSuccess && hipMalloc(&dw, w.size() * sizeof(float2)) == hipSuccess;
  if (!ok) return EXIT_FAILURE;
  (void)hipMemcpy(dx, x.data(), x.size() * sizeof(float2), hipMemcpyHostToDevice);
  (void)hipMemcpy(dw, w.data(), w.size() * sizeof(float2), hipMemcpyHostToDevice);
  fft1024<<<batches, 256>>>(dx, dw);
  (void)hipMemcpy(y.data(), dx, x.size() * sizeof(float2), hipMemcpyDeviceToHost);
  for (int s = 0; s < 50; ++s) {
    const int base = s * 13 % batches * N, k = s * 97 % N;
    Complex sum = 0;
    for (int t = 0; t < N; ++t) sum += Complex(x[base + t].x, x[base + t].y) * std::polar(1.0, -2 * M_PI * k * t / N);
    ok = ok && std::abs(sum - Complex(y[base + k].x, y[base + k].y)) < 2e-2;
  }
  std::cout << (ok ? "PASS" : "FAIL") << "\n";
  (void)hipFree(dx);
  (void)hipFree(dw);
  return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
