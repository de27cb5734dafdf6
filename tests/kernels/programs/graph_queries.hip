// What graphs tell of their nodes: the parameters of captured and added launches, and the edges of a forked capture.
#include <cstring>

#include "check.h"

__global__ void add(int* x, int by) { x[threadIdx.x] += by; }

static hipGraphNode_t only_node(hipGraph_t graph) {
  size_t count = 0;
  hipGraphNode_t node;
  OK(hipGraphGetNodes(graph, nullptr, &count));
  CHECK(count == 1);
  OK(hipGraphGetNodes(graph, &node, &count));
  return node;
}

// A captured launch tells its parameters, which can be changed and set again. An event leaves no node.
static void captured(int* x, int* host) {
  hipStream_t stream;
  hipEvent_t event;
  hipGraph_t graph;
  hipGraphExec_t run;
  OK(hipStreamCreate(&stream));
  OK(hipEventCreate(&event));
  OK(hipStreamBeginCapture(stream, hipStreamCaptureModeRelaxed));
  add<<<2, 64, 256, stream>>>(x, 5);
  OK(hipEventRecord(event, stream));
  OK(hipStreamEndCapture(stream, &graph));
  hipKernelNodeParams launch = {};
  OK(hipGraphKernelNodeGetParams(only_node(graph), &launch));
  CHECK(launch.func == (void*)add && launch.gridDim.x == 2 && launch.blockDim.x == 64 && launch.sharedMemBytes == 256);
  CHECK(*(int**)launch.kernelParams[0] == x && *(int*)launch.kernelParams[1] == 5);
  int by = 7;
  launch.kernelParams[1] = &by;
  launch.gridDim.x = 1;
  OK(hipGraphKernelNodeSetParams(only_node(graph), &launch));
  OK(hipGraphInstantiate(&run, graph, nullptr, nullptr, 0));
  OK(hipGraphLaunch(run, stream));
  OK(hipMemcpy(host, x, 4, hipMemcpyDeviceToHost));
  CHECK(*host == 7);
}

__attribute__((noinline)) static hipGraphNode_t add_node(hipGraph_t graph, int* x) {
  int by = 1;
  void* arguments[] = {&x, &by};
  hipKernelNodeParams launch = {};
  launch.func = (void*)add;
  launch.gridDim = launch.blockDim = dim3(1);
  launch.kernelParams = arguments;
  hipGraphNode_t node;
  OK(hipGraphAddKernelNode(&node, graph, nullptr, 0, &launch));
  return node;
}

__attribute__((noinline)) static void overwrite_stack() {
  volatile char bytes[4096];
  for (volatile char& byte : bytes) byte = 0x55;
}

// A graph keeps the arguments of a node whose maker has returned.
static void added(int* x) {
  hipGraph_t graph;
  OK(hipGraphCreate(&graph, 0));
  hipGraphNode_t node = add_node(graph, x);
  overwrite_stack();
  hipKernelNodeParams launch = {};
  OK(hipGraphKernelNodeGetParams(node, &launch));
  CHECK(*(int**)launch.kernelParams[0] == x && *(int*)launch.kernelParams[1] == 1);
}

// A fork and a join: each node comes after the last ones of the streams that it waits for, and no others.
static void forked(int* x) {
  hipStream_t a, b;
  hipEvent_t fork, join;
  hipGraph_t graph;
  OK(hipStreamCreate(&a));
  OK(hipStreamCreate(&b));
  OK(hipEventCreate(&fork));
  OK(hipEventCreate(&join));
  OK(hipStreamBeginCapture(a, hipStreamCaptureModeGlobal));
  add<<<1, 64, 0, a>>>(x, 1);
  OK(hipEventRecord(fork, a));
  OK(hipStreamWaitEvent(b, fork, 0));
  add<<<1, 64, 0, a>>>(x, 2);
  add<<<1, 64, 0, b>>>(x, 3);
  add<<<1, 64, 0, b>>>(x, 4);
  OK(hipEventRecord(join, b));
  OK(hipStreamWaitEvent(a, join, 0));
  add<<<1, 64, 0, a>>>(x, 5);
  OK(hipStreamEndCapture(a, &graph));
  hipGraphNode_t from[8], to[8];
  size_t nodes = 0, edges = 8, roots = 0;
  OK(hipGraphGetNodes(graph, nullptr, &nodes));
  OK(hipGraphGetEdges(graph, from, to, &edges));
  OK(hipGraphGetRootNodes(graph, nullptr, &roots));
  CHECK(nodes == 5 && edges == 5 && roots == 1);
}

// Events that are recorded by the graph, and not by its capture, are nodes.
static void external(int* x) {
  hipStream_t stream;
  hipEvent_t event;
  hipGraph_t graph;
  OK(hipStreamCreate(&stream));
  OK(hipEventCreate(&event));
  OK(hipStreamBeginCapture(stream, hipStreamCaptureModeRelaxed));
  OK(hipEventRecordWithFlags(event, stream, hipEventRecordExternal));
  OK(hipStreamEndCapture(stream, &graph));
  hipGraphNodeType type;
  OK(hipGraphNodeGetType(only_node(graph), &type));
  CHECK(type == hipGraphNodeTypeEventRecord);
}

int main() {
  int *x, host = 0;
  OK(hipMalloc(&x, 64 * sizeof *x));
  OK(hipMemset(x, 0, 64 * sizeof *x));
  captured(x, &host);
  added(x);
  forked(x);
  external(x);
  std::printf("graph queries ok\n");
}
