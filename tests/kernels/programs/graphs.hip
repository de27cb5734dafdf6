// A captured sequence replayed three times, and the same work as explicit nodes.
#include "check.h"

__global__ void add(int* data, int n, int by) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) data[i] += by;
}

int main() {
  const int n = 128;
  int host[n], *data;
  OK(hipMalloc(&data, sizeof host));
  hipStream_t stream;
  OK(hipStreamCreate(&stream));
  hipGraph_t graph;
  hipGraphExec_t executable;
  OK(hipMemset(data, 0, sizeof host));
  OK(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
  for (int k = 1; k <= 3; ++k) add<<<2, 64, 0, stream>>>(data, n, k);
  OK(hipMemcpyAsync(host, data, sizeof host, hipMemcpyDeviceToHost, stream));
  OK(hipStreamEndCapture(stream, &graph));
  OK(hipMemcpy(host, data, sizeof host, hipMemcpyDeviceToHost));
  CHECK(host[5] == 0);  // captured, not executed
  OK(hipGraphInstantiate(&executable, graph, nullptr, nullptr, 0));
  for (int k = 0; k < 3; ++k) OK(hipGraphLaunch(executable, stream));
  OK(hipStreamSynchronize(stream));
  for (int i = 0; i < n; ++i) CHECK(host[i] == 18);
  size_t nodes = 0;
  OK(hipGraphGetNodes(graph, nullptr, &nodes));
  CHECK(nodes == 4);
  OK(hipGraphExecDestroy(executable));
  OK(hipGraphDestroy(graph));

  hipGraphNode_t fill, kernel;
  hipGraph_t built;
  OK(hipGraphCreate(&built, 0));
  hipMemsetParams zero{};
  zero.dst = data, zero.elementSize = 4, zero.width = n, zero.height = 1, zero.value = 7, zero.pitch = sizeof host;
  OK(hipGraphAddMemsetNode(&fill, built, nullptr, 0, &zero));
  int count = n, by = 30;
  void* args[] = {&data, &count, &by};
  hipKernelNodeParams params{};
  params.func = (void*)add, params.gridDim = dim3(2), params.blockDim = dim3(64), params.kernelParams = args;
  OK(hipGraphAddKernelNode(&kernel, built, &fill, 1, &params));
  by = -1;  // arguments are taken when the node is added
  OK(hipGraphInstantiate(&executable, built, nullptr, nullptr, 0));
  OK(hipGraphLaunch(executable, stream));
  OK(hipMemcpy(host, data, sizeof host, hipMemcpyDeviceToHost));
  for (int i = 0; i < n; ++i) CHECK(host[i] == 37);
  std::printf("graphs ok\n");
  return 0;
}
