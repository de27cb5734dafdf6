// The same layer with eight output channels per work-item: an input that is loaded once now feeds eight sums, and the
// eight weights are scalar loads.
//
// step: conv_layer 2 conv_layer_blocked, after conv_layer_direct
// paradigm: per-thread
// bound: gfx90a valu, gfx942 valu
// moves: SQ_INSTS_VMEM_RD down, TCP_TOTAL_CACHE_ACCESSES down, Duration down
// check: 20 12
#include <hip/hip_runtime.h>

#include <cmath>
#include <cstdlib>
#include <iostream>
#include <vector>

constexpr int kChannels = 32, kBlock = 8;

// Weights are ordered [input channel][tap][output channel].
__global__ __launch_bounds__(128) void layer(const float* __restrict__ in, const float* __restrict__ weights,
                                             float* __restrict__ out, int w, int h) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y, oc = blockIdx.z * kBlock;
  if (x >= w) return;
  float sum[kBlock] = {};
  for (int ic = 0; ic < kChannels; ++ic) {
#pragma unroll
    for (int tap = 0; tap < 9; ++tap) {
      const float pixel = in[(ic * (h + 2) + y + tap / 3) * (w + 2) + x + tap % 3];
#pragma unroll
      for (int o = 0; o < kBlock; ++o) sum[o] += pixel * weights[(ic * 9 + tap) * kChannels + oc + o];
    }
  }
  for (int o = 0; o < kBlock; ++o) out[((oc + o) * h + y) * w + x] = fmaxf(sum[o], 0.0f);
}

template <typename T>
class Mirror {  // the same data on host and device
 public:
  explicit Mirror(std::size_t n) : host(n) {
    if (hipMalloc(&device, n * sizeof(T)) != hipSuccess) std::exit(2);
  }
  ~Mirror() { (void)hipFree(device); }
  void up() { (void)hipMemcpy(device, host.data(), host.size() * sizeof(T), hipMemcpyHostToDevice); }
  void down() { (void)hipMemcpy(host.data(), device, host.size() * sizeof(T), hipMemcpyDeviceToHost); }
  std::vector<T> host;
  T* device = nullptr;
};

int main(int argc, char** argv) {
  const int w = argc > 1 ? std::atoi(argv[1]) : 256, h = argc > 2 ? std::atoi(argv[2]) : 128;
  Mirror<float> in(kChannels * (h + 2) * (w + 2)), weights(kChannels * kChannels * 9), out(kChannels * h * w);
  for (std::size_t i = 0; i < in.host.size(); ++i) in.host[i] = std::sin(0.01f * (i % 628));
  for (std::size_t i = 0; i < weights.host.size(); ++i) weights.host[i] = (i * 7 % 31) / 31.0f - 0.5f;
  in.up();
  weights.up();
  layer<<<dim3((w + 127) / 128, h, kChannels / kBlock), 128>>>(in.device, weights.device, out.device, w, h);
  out.down();
  bool ok = true;
  for (int s = 0; s < 1500; ++s) {
    const int x = s * 41 % w, y = s * 17 % h, oc = s * 5 % kChannels;
    double sum = 0;
    for (int ic = 0; ic < kChannels; ++ic)
      for (int tap = 0; tap < 9; ++tap)
        sum += in.host[(ic * (h + 2) + y + tap / 3) * (w + 2) + x + tap % 3] * weights.host[(ic * 9 + tap) * kChannels + oc];
    ok = ok && std::abs(std::max(sum, 0.0) - out.host[(oc * h + y) * w + x]) < 1e-3;
  }
  std::cout << (ok ? "PASS" : "FAIL") << '\n';
  return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
