// hipDeviceReset: memory, streams and events are gone, variables have their first values again, and work goes on.
#include "check.h"

__device__ int counter = 5;
__managed__ int shared = 9;

__global__ void bump(int* out) {
  counter += 1;
  shared += 1;
  *out = counter;
}

static int bumped() {
  int *out, host = 0;
  OK(hipMalloc(&out, sizeof(int)));
  bump<<<1, 1>>>(out);
  OK(hipMemcpy(&host, out, sizeof host, hipMemcpyDeviceToHost));
  return host;
}

int main() {
  size_t before, during, after, total;
  OK(hipMemGetInfo(&before, &total));
  hipStream_t stream;
  hipEvent_t event;
  hipGraph_t graph;
  OK(hipStreamCreate(&stream));
  OK(hipEventCreate(&event));
  OK(hipGraphCreate(&graph, 0));
  CHECK(bumped() == 6 && bumped() == 7 && shared == 11);
  OK(hipMemGetInfo(&during, &total));
  CHECK(during < before);
  OK(hipDeviceReset());
  OK(hipMemGetInfo(&after, &total));
  CHECK(after == before);
  CHECK(shared == 9 && bumped() == 6 && shared == 10);
  FAILS(hipEventRecord(event, nullptr), hipErrorInvalidHandle);
  FAILS(hipGraphDestroy(graph), hipErrorInvalidValue);
  std::printf("reset ok\n");
  return 0;
}
