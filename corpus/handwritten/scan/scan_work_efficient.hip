// Up-sweep and down-sweep over a tree of 2,048 elements per work-group: n additions instead of n log n, with the index
// padded by one word every 32 so that lanes a power of two apart meet different LDS banks. The sums of work-groups are
// scanned by the same kernel.
//
// step: scan 3 scan_work_efficient, after scan_blocks
// paradigm: per-tile
// bound: gfx90a hbm, gfx942 latency
// moves: SQ_WAVES down, Duration down
// check: 9000
#include <hip/hip_runtime.h>

#include <cstdlib>
#include <iostream>
#include <vector>

static void must(hipError_t status) {
  if (status == hipSuccess) return;
  std::cerr << hipGetErrorString(status) << '\n';
  std::exit(2);
}

constexpr int items = 2048, threads = 256;
__device__ int pad(int i) { return i + i / 32; }

// Exclusive scan of `items` elements per work-group; their sums go to `totals`.
__global__ void sweep(const int* in, int* out, int* totals, int n) {
  __shared__ int tree[items + items / 32];
  const int first = blockIdx.x * items;
  for (int i = threadIdx.x; i < items; i += threads) tree[pad(i)] = first + i < n ? in[first + i] : 0;
  for (int step = 1; step < items; step *= 2) {
    __syncthreads();
    for (int k = threadIdx.x; k < items / (2 * step); k += threads)
      tree[pad((2 * k + 2) * step - 1)] += tree[pad((2 * k + 1) * step - 1)];
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    totals[blockIdx.x] = tree[pad(items - 1)];
    tree[pad(items - 1)] = 0;
  }
  for (int step = items / 2; step > 0; step /= 2) {
    __syncthreads();
    for (int k = threadIdx.x; k < items / (2 * step); k += threads) {
      const int left = pad((2 * k + 1) * step - 1), right = pad((2 * k + 2) * step - 1);
      const int swap = tree[left];
      tree[left] = tree[right];
      tree[right] += swap;
    }
  }
  __syncthreads();
  for (int i = threadIdx.x; i < items; i += threads)
    if (first + i < n) out[first + i] = tree[pad(i)];
}

__global__ void spread(int* out, const int* offsets, int n) {
  const int first = blockIdx.x * items;
  for (int i = first + threadIdx.x; i < min(first + items, n); i += threads) out[i] += offsets[blockIdx.x];
}

int main(int argc, char** argv) {
  const int n = argc > 1 ? std::atoi(argv[1]) : 1 << 22;  // at most items * items
  const int groups = (n + items - 1) / items;
  std::vector<int> in(n), out(n);
  for (int i = 0; i < n; ++i) in[i] = (i ^ (i >> 3)) & 7;
  int *d_in, *d_out, *d_totals, *d_offsets, *d_sum;
  must(hipMalloc(&d_in, 4 * n));
  must(hipMalloc(&d_out, 4 * n));
  must(hipMalloc(&d_totals, 4 * groups));
  must(hipMalloc(&d_offsets, 4 * groups));
  must(hipMalloc(&d_sum, 4));
  must(hipMemcpy(d_in, in.data(), 4 * n, hipMemcpyHostToDevice));
  sweep<<<groups, threads>>>(d_in, d_out, d_totals, n);
  sweep<<<1, threads>>>(d_totals, d_offsets, d_sum, groups);
  spread<<<groups, threads>>>(d_out, d_offsets, n);
  must(hipMemcpy(out.data(), d_out, 4 * n, hipMemcpyDeviceToHost));
  int before = 0;
  for (int i = 0; i < n; before += in[i++]) {
    if (out[i] == before) continue;
    std::cout << "FAIL: element " << i << " is " << out[i] << ", not " << before << '\n';
    return 1;
  }
  std::cout << "PASS\n";
}
