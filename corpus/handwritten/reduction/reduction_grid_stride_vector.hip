// As many work-groups as stay resident walk over the array in steps of the whole grid with 16-byte loads; a second launch
// of one work-group adds their sums. No wavefront is started for less than 64 elements per lane.
//
// step: reduction 5 reduction_grid_stride_vector, after reduction_wave_shuffle
// paradigm: persistent
// bound: gfx90a hbm, gfx942 hbm
// moves: SQ_WAVES down, SQ_INSTS down
// check: 40960
#include <hip/hip_runtime.h>
#include <thrust/device_vector.h>
#include <thrust/host_vector.h>

#include <cstdlib>
#include <iostream>

constexpr int threads = 256, waves = threads / 64, grid = 2048;

__global__ void reduce_vec4(const float4* in, float* out, int n4) {
  float4 acc = {0, 0, 0, 0};
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n4; i += gridDim.x * blockDim.x) {
    const float4 v = in[i];
    acc.x += v.x;
    acc.y += v.y;
    acc.z += v.z;
    acc.w += v.w;
  }
  float sum = (acc.x + acc.y) + (acc.z + acc.w);
  for (int d = 32; d; d >>= 1) sum += __shfl_xor(sum, d);
  __shared__ float s[waves];
  if (threadIdx.x % 64 == 0) s[threadIdx.x / 64] = sum;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int w = 1; w < waves; ++w) sum += s[w];
    out[blockIdx.x] = sum;
  }
}

int main(int argc, char** argv) {
  const int n = argc > 1 ? atoi(argv[1]) : 1 << 24;  // a multiple of four
  thrust::host_vector<float> x(n);
  for (int i = 0; i < n; ++i) x[i] = i % 3;
  thrust::device_vector<float> dx = x, partial(grid), result(1);
  const auto* source = reinterpret_cast<const float4*>(thrust::raw_pointer_cast(dx.data()));
  float* sums = thrust::raw_pointer_cast(partial.data());
  reduce_vec4<<<grid, threads>>>(source, sums, n / 4);
  reduce_vec4<<<1, threads>>>(reinterpret_cast<float4*>(sums), thrust::raw_pointer_cast(result.data()), grid / 4);
  double expected = 0;
  for (int i = 0; i < n; ++i) expected += x[i];
  const float got = result[0];
  std::cout << (got == static_cast<float>(expected) ? "PASS" : "FAIL") << " " << got << " of " << expected << std::endl;
  return got == static_cast<float>(expected) ? EXIT_SUCCESS : EXIT_FAILURE;
}
