// Eight copies of the bins per work-group, interleaved so that neighbouring lanes count into different copies and LDS
// banks: lanes with the same byte no longer wait for each other.
//
// step: histogram 4 histogram_replicated, after histogram_vector_loads
// paradigm: privatised
// bound: gfx90a hbm, gfx942 atomics
// moves: SQ_LDS_ADDR_CONFLICT down
// check: 20000
#include <hip/hip_runtime.h>

#include <cstdlib>
#include <iostream>
#include <vector>

namespace {
constexpr int kBins = 256, kCopies = 8;

__global__ __launch_bounds__(256) void histogram(const uint4* __restrict__ in, unsigned* __restrict__ out, int pieces) {
  __shared__ unsigned bins[kBins * kCopies];
  for (int b = threadIdx.x; b < kBins * kCopies; b += 256) bins[b] = 0;
  __syncthreads();
  const int copy = threadIdx.x % kCopies;
  for (int i = blockIdx.x * 256 + threadIdx.x; i < pieces; i += gridDim.x * 256) {
    const uint4 v = in[i];
    for (unsigned word : {v.x, v.y, v.z, v.w})
      for (int k = 0; k < 4; ++k, word >>= 8) atomicAdd(&bins[(word & 255u) * kCopies + copy], 1u);
  }
  __syncthreads();
  unsigned sum = 0;
  for (int c = 0; c < kCopies; ++c) sum += bins[threadIdx.x * kCopies + (c + threadIdx.x) % kCopies];
  atomicAdd(&out[threadIdx.x], sum);
}

struct Failure {};
void require(hipError_t e) {
  if (e != hipSuccess) throw Failure{};
}
}  // namespace

int main(int argc, char** argv) try {
  const int n = (argc > 1 ? std::atoi(argv[1]) : 1 << 25) / 16 * 16;
  std::vector<unsigned char> in(n);
  for (int i = 0; i < n; ++i) in[i] = static_cast<unsigned char>((i * 2654435761u) >> 19);
  hipDeviceProp_t props;
  require(hipGetDeviceProperties(&props, 0));
  void *d_in, *d_out;
  require(hipMalloc(&d_in, n));
  require(hipMalloc(&d_out, kBins * sizeof(unsigned)));
  require(hipMemcpy(d_in, in.data(), n, hipMemcpyHostToDevice));
  require(hipMemset(d_out, 0, kBins * sizeof(unsigned)));
  histogram<<<props.multiProcessorCount * 2, 256>>>(static_cast<uint4*>(d_in), static_cast<unsigned*>(d_out), n / 16);
  std::vector<unsigned> out(kBins), want(kBins);
  require(hipMemcpy(out.data(), d_out, kBins * sizeof(unsigned), hipMemcpyDeviceToHost));
  for (unsigned char v : in) ++want[v];
  std::cout << (out == want ? "PASS" : "FAIL") << '\n';
  return out == want ? 0 : 1;
} catch (Failure) {
  std::cerr << "the HIP runtime reported an error\n";
  return 2;
}
