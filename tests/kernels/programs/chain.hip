// A chain of launches, each reading what the one before wrote: `chain COUNT waits` lets the host wait for each.
// Prints the microseconds between two events around them.
#include <utility>

#include "check.h"

__global__ void step(const float* in, float* out) {
  size_t i = blockIdx.x * 256 + threadIdx.x;
  out[i] = in[i] + 1;
}

int main(int argc, char** argv) {
  int count = std::atoi(argv[1]);
  float *in, *out, milliseconds;
  OK(hipMalloc(&in, count * sizeof(float)));
  OK(hipMalloc(&out, count * sizeof(float)));
  hipEvent_t start, stop;
  OK(hipEventCreate(&start));
  OK(hipEventCreate(&stop));
  OK(hipEventRecord(start));
  for (int i = 0; i < 9; ++i) {
    step<<<count / 256, 256>>>(in, out);
    std::swap(in, out);
    if (argc > 2) OK(hipDeviceSynchronize());
  }
  OK(hipEventRecord(stop));
  OK(hipEventSynchronize(stop));
  OK(hipEventElapsedTime(&milliseconds, start, stop));
  std::printf("%.3f\n", milliseconds * 1000);
  return 0;
}
