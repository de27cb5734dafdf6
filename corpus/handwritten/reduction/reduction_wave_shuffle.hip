// Each wavefront adds its 64 values by shuffles between lanes, without LDS and barriers but for the four wavefront sums
// of a work-group.
//
// step: reduction 4 reduction_wave_shuffle, after reduction_lds_sequential
// paradigm: per-wave
// bound: gfx90a hbm, gfx942 hbm
// moves: SQ_LDS_IDX_ACTIVE down, Duration down
// check: 40000
#include <hip/hip_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

template <typename T>
class DeviceArray {
 public:
  explicit DeviceArray(std::size_t count) : count_(count) {
    if (hipMalloc(&data_, count * sizeof(T)) != hipSuccess) std::abort();
  }
  ~DeviceArray() { (void)hipFree(data_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;
  void upload(const std::vector<T>& from) { (void)hipMemcpy(data_, from.data(), count_ * sizeof(T), hipMemcpyHostToDevice); }
  void download(std::vector<T>& to) const { (void)hipMemcpy(to.data(), data_, count_ * sizeof(T), hipMemcpyDeviceToHost); }
  T* get() const { return data_; }

 private:
  T* data_ = nullptr;
  std::size_t count_;
};

__device__ float wave_sum(float value) {
  for (int offset = warpSize / 2; offset > 0; offset /= 2) value += __shfl_down(value, offset);
  return value;
}

__global__ void block_sums(const float* __restrict__ x, float* __restrict__ sums, int count) {
  __shared__ float of_wave[4];
  const int i = blockIdx.x * 1024 + threadIdx.x;
  float value = 0;
  for (int part = 0; part < 4; ++part)
    if (i + 256 * part < count) value += x[i + 256 * part];
  value = wave_sum(value);
  if (threadIdx.x % warpSize == 0) of_wave[threadIdx.x / warpSize] = value;
  __syncthreads();
  if (threadIdx.x == 0) sums[blockIdx.x] = of_wave[0] + of_wave[1] + of_wave[2] + of_wave[3];
}

int main(int argc, char** argv) {
  const int count = argc > 1 ? std::atoi(argv[1]) : 1 << 24;
  const int blocks = (count + 1023) / 1024;
  std::vector<float> x(count), sums(blocks);
  double expected = 0;
  for (int i = 0; i < count; ++i) expected += x[i] = 0.25f * (i % 13);
  DeviceArray<float> dx(count), dsums(blocks);
  dx.upload(x);
  block_sums<<<blocks, 256>>>(dx.get(), dsums.get(), count);
  dsums.download(sums);
  double sum = 0;
  for (float s : sums) sum += s;
  const bool ok = std::fabs(sum - expected) <= 1e-6 * expected;
  std::printf("%s %.2f %.2f\n", ok ? "PASS" : "FAIL", sum, expected);
  return ok ? 0 : 1;
}
