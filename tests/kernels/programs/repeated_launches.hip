// The same launches again and again: plain, in streams, in a graph, with copies and host writes in between.
#include <hip/hip_runtime.h>

#include <cstdio>
#include <vector>

#include "check.h"

__global__ void scale(const int* in, int* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = in[i] * 3;
}
__global__ void pick(const int* index, const int* in, int* out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = in[index[i]];
}
__global__ void count(const int* in, int* bins) {
  atomicAdd(&bins[in[blockIdx.x * blockDim.x + threadIdx.x] & 63], 1);
}

constexpr int kItems = 65536;
constexpr dim3 kGrid(kItems / 256), kBlock(256);

long sum_of(const int* device, int n) {
  std::vector<int> host(n);
  OK(hipMemcpy(host.data(), device, n * sizeof(int), hipMemcpyDeviceToHost));
  long sum = 0;
  for (int i = 0; i < n; ++i) sum += long(host[i]) * (i % 7 + 1);
  return sum;
}

int main() {
  int *in, *out, *index, *bins, *pinned, *managed;
  OK(hipMalloc(&in, kItems * sizeof(int)));
  OK(hipMalloc(&out, kItems * sizeof(int)));
  OK(hipMalloc(&index, kItems * sizeof(int)));
  OK(hipMalloc(&bins, 64 * sizeof(int)));
  OK(hipHostMalloc(&pinned, kItems * sizeof(int)));
  OK(hipMallocManaged(&managed, kItems * sizeof(int)));
  std::vector<int> host(kItems);
  for (int i = 0; i < kItems; ++i) host[i] = (i * 37 + 11) % kItems;
  OK(hipMemcpy(index, host.data(), kItems * sizeof(int), hipMemcpyHostToDevice));
  OK(hipMemset(bins, 0, 64 * sizeof(int)));
  for (int i = 0; i < kItems; ++i) pinned[i] = managed[i] = i & 1023;

  for (int round = 0; round < 6; ++round) {
    scale<<<kGrid, kBlock>>>(pinned, out, kItems);
    if (round == 3) pinned[5] = 1000;  // only the next round sees it
    printf("pinned %ld\n", sum_of(out, kItems));
  }
  for (int round = 0; round < 6; ++round) {
    pick<<<kGrid, kBlock>>>(index, managed, out);
    OK(hipDeviceSynchronize());
    if (round == 2) managed[11] += 5;
    if (round == 3) OK(hipMemcpy(index, pinned, 4096, hipMemcpyHostToDevice));
    printf("picked %ld\n", sum_of(out, kItems));
  }
  hipStream_t streams[2];
  for (hipStream_t& s : streams) OK(hipStreamCreate(&s));
  for (int round = 0; round < 4; ++round) {
    for (hipStream_t s : streams) count<<<kGrid, kBlock, 0, s>>>(index, bins);
    OK(hipDeviceSynchronize());
    printf("counted %ld\n", sum_of(bins, 64));
  }
  hipGraph_t graph;
  hipGraphExec_t ready;
  OK(hipStreamBeginCapture(streams[0], hipStreamCaptureModeGlobal));
  scale<<<kGrid, kBlock, 0, streams[0]>>>(in, out, kItems);
  OK(hipMemcpyAsync(in, out, kItems * sizeof(int), hipMemcpyDeviceToDevice, streams[0]));
  OK(hipStreamEndCapture(streams[0], &graph));
  OK(hipGraphInstantiate(&ready, graph, nullptr, nullptr, 0));
  OK(hipMemcpy(in, pinned, kItems * sizeof(int), hipMemcpyHostToDevice));
  for (int round = 0; round < 5; ++round) {
    OK(hipGraphLaunch(ready, streams[0]));
    OK(hipStreamSynchronize(streams[0]));
    printf("graph %ld\n", sum_of(in, kItems));
  }
  return 0;
}
