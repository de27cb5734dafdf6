// Sixteen bytes per load, and as many work-groups as stay resident: the loads and the merges of bins shrink, the LDS
// atomics remain.
//
// step: histogram 3 histogram_vector_loads, after histogram_lds
// paradigm: privatised
// bound: gfx90a hbm, gfx942 atomics
// moves: SQ_INSTS_VMEM_RD down, TCC_ATOMIC down
// check: 20000
#include <hip/hip_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define check(e) check_((e), __LINE__)
static void check_(hipError_t e, int line) {
  if (e != hipSuccess) {
    fprintf(stderr, "line %d: %s\n", line, hipGetErrorString(e));
    exit(EXIT_FAILURE);
  }
}

__global__ void histogram16(const uint4* in, unsigned* out, int n16) {
  __shared__ unsigned bins[256];
  bins[threadIdx.x] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n16; i += gridDim.x * blockDim.x) {
    const uint4 v = in[i];
    const unsigned words[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int w = 0; w < 4; ++w)
#pragma unroll
      for (int shift = 0; shift < 32; shift += 8) atomicAdd(&bins[words[w] >> shift & 255], 1u);
  }
  __syncthreads();
  if (bins[threadIdx.x]) atomicAdd(&out[threadIdx.x], bins[threadIdx.x]);
}

int main(int argc, char** argv) {
  int n = argc > 1 ? atoi(argv[1]) : 1 << 25;
  n -= n % 16;
  std::vector<unsigned char> h(n);
  unsigned s = 99, want[256] = {}, got[256];
  for (int i = 0; i < n; i++) {
    s ^= s << 13, s ^= s >> 17, s ^= s << 5;
    h[i] = s >> 3;
    want[h[i]]++;
  }
  hipDeviceProp_t device;
  check(hipGetDeviceProperties(&device, 0));
  uint4* d_in;
  unsigned* d_out;
  check(hipMalloc(&d_in, n));
  check(hipMalloc(&d_out, sizeof(want)));
  check(hipMemset(d_out, 0, sizeof(want)));
  check(hipMemcpy(d_in, h.data(), n, hipMemcpyHostToDevice));
  histogram16<<<2 * device.multiProcessorCount, 256>>>(d_in, d_out, n / 16);
  check(hipMemcpy(got, d_out, sizeof(got), hipMemcpyDeviceToHost));
  const bool same = std::equal(want, want + 256, got);
  puts(same ? "PASS" : "FAIL");
  check(hipFree(d_in));
  check(hipFree(d_out));
  return same ? EXIT_SUCCESS : EXIT_FAILURE;
}
