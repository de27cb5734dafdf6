// Streams that the default stream waits for, and nothing else puts in order.
#include "check.h"

__global__ void speak(int stream) { printf("%d", stream); }

int main() {
  hipStream_t streams[4];
  for (hipStream_t& stream : streams) OK(hipStreamCreate(&stream));
  for (int i = 0; i < 4; ++i) speak<<<1, 1, 0, streams[i]>>>(i);
  OK(hipStreamSynchronize(nullptr));
  std::printf("\n");
  return 0;
}
