// Graphs made of nodes: edges decide the order, parameters can be changed before and after instantiation.
#include <cstring>

#include "check.h"

__device__ int symbol;

__global__ void scale(int* x, int by) { x[threadIdx.x] *= by; }
__global__ void shift(int* x, int by) { x[threadIdx.x] += by; }

static int host_calls = 0;

// A node that waits for an event comes behind what another stream did before the event, also inside another graph.
static void wait_for_event(hipStream_t producer, hipStream_t consumer, int* x) {
  int back = 0;
  hipEvent_t filled;
  hipGraph_t graph, outer;
  hipGraphNode_t waits, fetched;
  hipGraphExec_t plain, nested;
  OK(hipEventCreate(&filled));
  OK(hipGraphCreate(&graph, 0));
  OK(hipGraphCreate(&outer, 0));
  OK(hipGraphAddEventWaitNode(&waits, graph, nullptr, 0, filled));
  OK(hipGraphAddMemcpyNode1D(&fetched, graph, &waits, 1, &back, x, sizeof back, hipMemcpyDeviceToHost));
  OK(hipGraphAddChildGraphNode(&waits, outer, nullptr, 0, graph));
  OK(hipGraphInstantiate(&plain, graph, nullptr, nullptr, 0));
  OK(hipGraphInstantiate(&nested, outer, nullptr, nullptr, 0));
  int value = 0;
  for (hipGraphExec_t run : {plain, nested}) {
    OK(hipMemsetD32Async(x, ++value, 1, producer));
    OK(hipEventRecord(filled, producer));
    OK(hipGraphLaunch(run, consumer));
    OK(hipStreamSynchronize(consumer));
    CHECK(back == value);
  }
  // The same of a capture.
  OK(hipStreamBeginCapture(consumer, hipStreamCaptureModeGlobal));
  OK(hipStreamWaitEvent(consumer, filled, hipEventWaitExternal));
  OK(hipMemcpyAsync(&back, x, sizeof back, hipMemcpyDeviceToHost, consumer));
  OK(hipStreamEndCapture(consumer, &graph));
  OK(hipGraphInstantiate(&plain, graph, nullptr, nullptr, 0));
  OK(hipMemsetD32Async(x, 9, 1, producer));
  OK(hipEventRecord(filled, producer));
  OK(hipGraphLaunch(plain, consumer));
  OK(hipStreamSynchronize(consumer));
  CHECK(back == 9);
  FAILS(hipStreamWaitEvent(consumer, filled, hipEventWaitExternal), hipErrorInvalidHandle);
  hipGraphNodeType type;
  size_t count = 1;
  OK(hipGraphGetRootNodes(graph, &waits, &count));
  OK(hipGraphNodeGetType(waits, &type));
  CHECK(type == hipGraphNodeTypeWaitEvent);
  OK(hipEventDestroy(filled));
}

int main() {
  int *x, host[64], zero[64] = {}, by_three = 3, by_five = 5;
  OK(hipMalloc(&x, sizeof host));
  hipGraph_t graph, copy;
  OK(hipGraphCreate(&graph, 0));
  // x = 3 * (0 + 5), added in the wrong order and put right by edges.
  void *scale_args[] = {&x, &by_three}, *shift_args[] = {&x, &by_five};
  hipKernelNodeParams kernel = {};
  kernel.blockDim = dim3(64);
  kernel.gridDim = dim3(1);
  kernel.func = (void*)scale;
  kernel.kernelParams = scale_args;
  hipGraphNode_t scaled, shifted, cleared, fetched, called, allocated, child, nodes[8];
  OK(hipGraphAddKernelNode(&scaled, graph, nullptr, 0, &kernel));
  kernel.func = (void*)shift;
  kernel.kernelParams = shift_args;
  OK(hipGraphAddKernelNode(&shifted, graph, nullptr, 0, &kernel));
  hipMemsetParams clear = {};
  clear.dst = x;
  clear.elementSize = 4;
  clear.width = 64;
  clear.height = 1;
  OK(hipGraphAddMemsetNode(&cleared, graph, nullptr, 0, &clear));
  OK(hipGraphAddMemcpyNode1D(&fetched, graph, &scaled, 1, host, x, sizeof host, hipMemcpyDeviceToHost));
  hipHostNodeParams call = {[](void* count) { ++*(int*)count; }, &host_calls};
  OK(hipGraphAddHostNode(&called, graph, &fetched, 1, &call));
  OK(hipGraphAddDependencies(graph, &shifted, &scaled, 1));
  OK(hipGraphAddDependencies(graph, &cleared, &shifted, 1));
  FAILS(hipGraphAddDependencies(graph, &cleared, &shifted, 1), hipErrorInvalidValue);
  hipGraphNodeType type;
  size_t count = 8;
  OK(hipGraphNodeGetType(cleared, &type));
  CHECK(type == hipGraphNodeTypeMemset);
  OK(hipGraphGetRootNodes(graph, nodes, &count));
  CHECK(count == 1 && nodes[0] == cleared && nodes[1] == nullptr && nodes[7] == nullptr);
  nodes[7] = cleared;
  OK(hipGraphGetNodes(graph, nodes, &(count = 8)));
  CHECK(count == 5 && nodes[4] == called && nodes[5] == nullptr && nodes[7] == nullptr);
  OK(hipGraphGetEdges(graph, nullptr, nullptr, &count));
  CHECK(count == 4);
  hipGraphExec_t run;
  OK(hipGraphInstantiate(&run, graph, nullptr, nullptr, 0));
  OK(hipGraphLaunch(run, nullptr));
  OK(hipStreamSynchronize(nullptr));
  CHECK(host[0] == 15 && host[63] == 15 && host_calls == 1);
  // Other parameters for what is instantiated, then by a whole graph.
  int by_ten = 10;
  void* other_args[] = {&x, &by_ten};
  kernel.kernelParams = other_args;
  OK(hipGraphExecKernelNodeSetParams(run, shifted, &kernel));
  OK(hipGraphLaunch(run, nullptr));
  OK(hipStreamSynchronize(nullptr));
  CHECK(host[5] == 30);
  OK(hipGraphKernelNodeSetParams(shifted, &kernel));
  OK(hipGraphClone(&copy, graph));
  hipGraphExecUpdateResult result;
  OK(hipGraphExecUpdate(run, copy, nodes, &result));
  CHECK(result == hipGraphExecUpdateSuccess);
  OK(hipGraphAddEmptyNode(&called, copy, nullptr, 0));
  FAILS(hipGraphExecUpdate(run, copy, nodes, &result), hipErrorGraphExecUpdateFailure);
  CHECK(result == hipGraphExecUpdateErrorTopologyChanged);
  OK(hipGraphLaunch(run, nullptr));
  OK(hipStreamSynchronize(nullptr));
  CHECK(host[5] == 30 && host_calls == 3);
  // A graph within a graph, memory of its own, a variable.
  hipGraph_t outer;
  OK(hipGraphCreate(&outer, 0));
  OK(hipGraphAddChildGraphNode(&child, outer, nullptr, 0, graph));
  hipMemAllocNodeParams wish = {};
  wish.bytesize = sizeof host;
  OK(hipGraphAddMemAllocNode(&allocated, outer, nullptr, 0, &wish));
  OK(hipGraphAddMemcpyNode1D(&fetched, outer, &allocated, 1, wish.dptr, zero, sizeof zero, hipMemcpyHostToDevice));
  OK(hipGraphAddMemcpyNodeToSymbol(&called, outer, &child, 1, &symbol, host, 4, 0, hipMemcpyHostToDevice));
  OK(hipGraphAddMemFreeNode(&called, outer, &fetched, 1, wish.dptr));
  hipGraphExec_t all;
  OK(hipGraphInstantiate(&all, outer, nullptr, nullptr, 0));
  OK(hipGraphLaunch(all, nullptr));
  OK(hipStreamSynchronize(nullptr));
  int found = 0;
  OK(hipMemcpyFromSymbol(&found, HIP_SYMBOL(symbol), 4));
  CHECK(found == 30 && host_calls == 4);
  // What was instantiated can leave nodes out.
  unsigned enabled = 7;
  hipGraph_t one;
  hipGraphNode_t fill;
  hipGraphExec_t filling;
  char* bytes;
  OK(hipMalloc(&bytes, 16));
  OK(hipMemset(bytes, 1, 16));
  OK(hipGraphCreate(&one, 0));
  hipMemsetParams twos = {};
  twos.dst = bytes, twos.value = 2, twos.elementSize = 1, twos.width = 16, twos.height = 1, twos.pitch = 16;
  OK(hipGraphAddMemsetNode(&fill, one, nullptr, 0, &twos));
  OK(hipGraphAddEmptyNode(&called, one, &fill, 1));
  OK(hipGraphInstantiate(&filling, one, nullptr, nullptr, 0));
  OK(hipGraphNodeSetEnabled(filling, fill, 0));
  OK(hipGraphNodeGetEnabled(filling, fill, &enabled));
  FAILS(hipGraphNodeSetEnabled(filling, called, 0), hipErrorInvalidValue);
  FAILS(hipGraphNodeGetEnabled(filling, scaled, &enabled), hipErrorInvalidValue);
  OK(hipGraphLaunch(filling, nullptr));
  OK(hipStreamSynchronize(nullptr));
  char byte = 0;
  OK(hipMemcpy(&byte, bytes, 1, hipMemcpyDeviceToHost));
  CHECK(enabled == 0 && byte == 1);
  OK(hipGraphNodeSetEnabled(filling, fill, 1));
  OK(hipGraphLaunch(filling, nullptr));
  OK(hipStreamSynchronize(nullptr));
  OK(hipMemcpy(&byte, bytes, 1, hipMemcpyDeviceToHost));
  CHECK(byte == 2);
  // A drawing of a graph: nodes and edges.
  OK(hipGraphDebugDotPrint(one, "graph.dot", 0));
  char drawn[256] = {};
  std::FILE* drawing = std::fopen("graph.dot", "r");
  CHECK(drawing != nullptr && std::fread(drawn, 1, 255, drawing) > 0);
  std::fclose(drawing);
  CHECK(std::strstr(drawn, "MEMSET") != nullptr && std::strstr(drawn, "node_0 -> node_1") != nullptr);
  hipStream_t streams[2];
  for (hipStream_t& stream : streams) OK(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
  wait_for_event(streams[0], streams[1], x);
  wait_for_event(streams[1], streams[0], x);
  // A cycle cannot be instantiated.
  OK(hipGraphAddDependencies(graph, &scaled, &cleared, 1));
  FAILS(hipGraphInstantiate(&all, graph, nullptr, nullptr, 0), hipErrorInvalidValue);
  OK(hipGraphDestroyNode(shifted));
  FAILS(hipGraphNodeGetType(shifted, &type), hipErrorInvalidValue);
  OK(hipGraphDestroy(graph));
  std::printf("graph nodes ok\n");
  return 0;
}
