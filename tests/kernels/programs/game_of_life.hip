// Two boards of life, each on its own stream, with asynchronous copies and an event between the streams.
#include "check.h"

#include <utility>
#include <vector>

constexpr int kSize = 64;

__host__ __device__ unsigned char fate(const unsigned char* board, int x, int y) {
  int alive = 0;
  for (int dy = -1; dy <= 1; ++dy)
    for (int dx = -1; dx <= 1; ++dx)
      if (dx != 0 || dy != 0) alive += board[(y + dy + kSize) % kSize * kSize + (x + dx + kSize) % kSize];
  return alive == 3 || (alive == 2 && board[y * kSize + x]);
}

__global__ void generation(const unsigned char* now, unsigned char* then) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  then[y * kSize + x] = fate(now, x, y);
}

int main() {
  const int cells = kSize * kSize, generations = 5;
  unsigned char *host[2], *now[2], *then[2];
  std::vector<unsigned char> expected[2];
  hipStream_t stream[2];
  hipEvent_t first_done;
  OK(hipEventCreateWithFlags(&first_done, hipEventDisableTiming));
  for (int b = 0; b < 2; ++b) {
    OK(hipStreamCreate(&stream[b]));
    OK(hipHostMalloc((void**)&host[b], cells));
    OK(hipMallocAsync((void**)&now[b], cells, stream[b]));
    OK(hipMallocAsync((void**)&then[b], cells, stream[b]));
    for (int i = 0; i < cells; ++i) host[b][i] = (i * (7 + b) + i / kSize * 3) % 5 < 2;
    expected[b].assign(host[b], host[b] + cells);
    OK(hipMemcpyAsync(now[b], host[b], cells, hipMemcpyHostToDevice, stream[b]));
    for (int g = 0; g < generations; ++g) {
      generation<<<dim3(kSize / 16, kSize / 16), dim3(16, 16), 0, stream[b]>>>(now[b], then[b]);
      std::swap(now[b], then[b]);
    }
    if (b == 0) OK(hipEventRecord(first_done, stream[0]));
    OK(hipMemcpyAsync(host[b], now[b], cells, hipMemcpyDeviceToHost, stream[b]));
  }
  OK(hipStreamWaitEvent(stream[1], first_done, 0));
  for (int b = 0; b < 2; ++b) {
    OK(hipStreamSynchronize(stream[b]));
    for (int g = 0; g < generations; ++g) {
      std::vector<unsigned char> old = expected[b];
      for (int y = 0; y < kSize; ++y)
        for (int x = 0; x < kSize; ++x) expected[b][y * kSize + x] = fate(old.data(), x, y);
    }
    for (int i = 0; i < cells; ++i) CHECK(host[b][i] == expected[b][i]);
    OK(hipFreeAsync(now[b], stream[b]));
    OK(hipFreeAsync(then[b], stream[b]));
    OK(hipStreamDestroy(stream[b]));
    OK(hipHostFree(host[b]));
  }
  std::printf("life ok\n");
}
