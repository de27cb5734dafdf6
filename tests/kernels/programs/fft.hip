// Radix-2 FFT of one block in LDS with __sincosf twiddles, there and back.
#include "check.h"

#include <cmath>
#include <complex>
#include <vector>

constexpr int kPoints = 256;

__global__ void fft(float2* data, float direction) {
  __shared__ float2 part[kPoints];
  float2* mine = data + blockIdx.x * kPoints;
  for (int k = 0; k < 2; ++k) {
    unsigned i = threadIdx.x + k * (kPoints / 2);
    part[__brev(i) >> 24] = mine[i];
  }
  __syncthreads();
  for (int half = 1; half < kPoints; half *= 2) {
    int offset = threadIdx.x % half, low = (threadIdx.x / half) * 2 * half + offset;
    float sine, cosine;
    __sincosf(direction * 3.14159265f * offset / half, &sine, &cosine);
    float2 a = part[low], b = part[low + half];
    float2 t = make_float2(b.x * cosine - b.y * sine, b.x * sine + b.y * cosine);
    part[low] = make_float2(a.x + t.x, a.y + t.y);
    part[low + half] = make_float2(a.x - t.x, a.y - t.y);
    __syncthreads();
  }
  for (int k = 0; k < 2; ++k) mine[threadIdx.x + k * (kPoints / 2)] = part[threadIdx.x + k * (kPoints / 2)];
}

int main() {
  const int batches = 4;
  std::vector<float2> in(batches * kPoints), out(in.size());
  for (size_t i = 0; i < in.size(); ++i) in[i] = make_float2(std::sin(0.3f * i) + (i % 5), float(i % 3));
  float2* d;
  size_t bytes = in.size() * sizeof(float2);
  OK(hipMalloc(&d, bytes));
  OK(hipMemcpy(d, in.data(), bytes, hipMemcpyHostToDevice));
  fft<<<batches, kPoints / 2>>>(d, -1.0f);
  OK(hipMemcpy(out.data(), d, bytes, hipMemcpyDeviceToHost));
  for (int k = 0; k < kPoints; k += 17) {
    std::complex<double> sum = 0;
    for (int i = 0; i < kPoints; ++i)
      sum += std::complex<double>(in[kPoints + i].x, in[kPoints + i].y) * std::polar(1.0, -2 * M_PI * i * k / kPoints);
    CHECK(std::abs(sum - std::complex<double>(out[kPoints + k].x, out[kPoints + k].y)) < 0.02);
  }
  fft<<<batches, kPoints / 2>>>(d, 1.0f);
  OK(hipMemcpy(out.data(), d, bytes, hipMemcpyDeviceToHost));
  for (size_t i = 0; i < in.size(); ++i)
    CHECK(std::fabs(out[i].x / kPoints - in[i].x) + std::fabs(out[i].y / kPoints - in[i].y) < 1e-3);
  std::printf("fft ok\n");
}
