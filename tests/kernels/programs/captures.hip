// Captures: graphs rebuilt in a loop.
#include "check.h"

constexpr int kItems = 64;

__global__ void add(int* data, int by) { data[threadIdx.x] += by; }

// The usual loop: captures again in every round, and updates the graph of the first.
static void updates(hipStream_t stream, int* data) {
  int host[kItems];
  hipGraphExec_t executable = nullptr;
  hipGraphNode_t first = nullptr;
  for (int round = 0; round < 8; ++round) {
    hipGraph_t graph;
    OK(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
    OK(hipMemsetAsync(data, round, sizeof host, stream));
    add<<<1, kItems, 0, stream>>>(data, 1);
    OK(hipMemcpyAsync(host, data, sizeof host, hipMemcpyDeviceToHost, stream));
    OK(hipStreamEndCapture(stream, &graph));
    if (executable == nullptr) {
      size_t count = 1;
      OK(hipGraphGetNodes(graph, &first, &count));
      OK(hipGraphInstantiate(&executable, graph, nullptr, nullptr, 0));
    } else {
      hipGraphNode_t wrong;
      hipGraphExecUpdateResult result;
      OK(hipGraphExecUpdate(executable, graph, &wrong, &result));
    }
    OK(hipGraphDestroy(graph));
    FAILS(hipGraphNodeSetEnabled(executable, first, 0), hipErrorInvalidValue);  // a node that no longer exists
    OK(hipGraphLaunch(executable, stream));
    CHECK(host[kItems - 1] == round * 0x01010101 + 1);
  }
  OK(hipGraphExecDestroy(executable));
}

int main() {
  int* data;
  hipStream_t stream;
  OK(hipMalloc(&data, kItems * sizeof(int)));
  OK(hipStreamCreate(&stream));
  updates(stream, data);
  std::printf("captures ok\n");
  return 0;
}
