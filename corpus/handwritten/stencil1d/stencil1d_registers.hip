// Eight neighbouring outputs per work-item: 24 inputs are loaded as six 16-byte pieces and stay in registers, where the
// steps before needed 17 reads for each output.
//
// step: stencil1d 3 stencil1d_registers, after stencil1d_lds
// paradigm: per-thread
// bound: gfx90a hbm, gfx942 infinity
// moves: SQ_INSTS_LDS down, SQ_INSTS down, Duration down
// check: 4096
#include <hip/hip_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

template <int R, int Outputs>
__global__ void box(const int4* in, int4* out, int groups) {
  const int g = blockIdx.x * blockDim.x + threadIdx.x;
  if (g >= groups) return;
  constexpr int quads = (Outputs + 2 * R) / 4;
  int x[4 * quads];
#pragma unroll
  for (int q = 0; q < quads; ++q) {
    const int4 v = in[g * (Outputs / 4) + q];
    x[4 * q] = v.x, x[4 * q + 1] = v.y, x[4 * q + 2] = v.z, x[4 * q + 3] = v.w;
  }
  int y[Outputs];
#pragma unroll
  for (int o = 0; o < Outputs; ++o) {
    int sum = 0;
#pragma unroll
    for (int k = 0; k <= 2 * R; ++k) sum += (k < R ? k + 1 : 2 * R + 1 - k) * x[o + k];  // triangular weights
    y[o] = sum;
  }
#pragma unroll
  for (int q = 0; q < Outputs / 4; ++q)
    out[g * (Outputs / 4) + q] = make_int4(y[4 * q], y[4 * q + 1], y[4 * q + 2], y[4 * q + 3]);
}

int main(int argc, char** argv) {
  const int n = argc > 1 ? std::atoi(argv[1]) : 1 << 24, radius = 8;  // n: a multiple of 8
  std::vector<int> x(n + 2 * radius), y(n);
  for (int i = 0; i < n + 2 * radius; ++i) x[i] = i % 127 - 63;
  void *in = nullptr, *out = nullptr;
  if (hipMalloc(&in, x.size() * 4) != hipSuccess || hipMalloc(&out, y.size() * 4) != hipSuccess) return 1;
  if (hipMemcpy(in, x.data(), x.size() * 4, hipMemcpyHostToDevice) != hipSuccess) return 1;
  box<8, 8><<<(n / 8 + 127) / 128, 128>>>(static_cast<int4*>(in), static_cast<int4*>(out), n / 8);
  if (hipMemcpy(y.data(), out, y.size() * 4, hipMemcpyDeviceToHost) != hipSuccess) return 1;
  long wrong = 0;
  for (int i = 0; i < n; i += 1 + n / 200000) {
    int want = 0;
    for (int k = 0; k <= 2 * radius; ++k) want += (radius + 1 - std::abs(k - radius)) * x[i + k];
    wrong += want != y[i];
  }
  std::printf("%s (%ld)\n", wrong == 0 ? "PASS" : "FAIL", wrong);
  return wrong == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
