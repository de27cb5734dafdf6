// Memory that graphs allocate: freed by the program between launches, and gone with the last owner.
#include "check.h"

constexpr size_t kBytes = 1 << 20;

__global__ void count(int* p) { p[threadIdx.x] += 1; }

static size_t free_bytes() {
  size_t free, total;
  OK(hipMemGetInfo(&free, &total));
  return free;
}

// An allocation, a fill and a kernel; then, if asked for, a node that frees.
static hipGraphExec_t build(hipGraph_t* graph, int** p, bool frees) {
  hipGraphExec_t run;
  hipGraphNode_t allocated, filled, counted, freed;
  OK(hipGraphCreate(graph, 0));
  hipMemAllocNodeParams wish = {};
  wish.bytesize = kBytes;
  OK(hipGraphAddMemAllocNode(&allocated, *graph, nullptr, 0, &wish));
  *p = (int*)wish.dptr;
  hipMemsetParams fill = {};
  fill.dst = *p;
  fill.elementSize = 1;
  fill.width = 256;
  fill.height = 1;
  OK(hipGraphAddMemsetNode(&filled, *graph, &allocated, 1, &fill));
  void* arguments[] = {p};
  hipKernelNodeParams kernel = {};
  kernel.blockDim = dim3(64);
  kernel.gridDim = dim3(1);
  kernel.func = (void*)count;
  kernel.kernelParams = arguments;
  OK(hipGraphAddKernelNode(&counted, *graph, &filled, 1, &kernel));
  if (frees) OK(hipGraphAddMemFreeNode(&freed, *graph, &counted, 1, *p));
  OK(hipGraphInstantiate(&run, *graph, nullptr, nullptr, 0));
  return run;
}

static int launched(hipGraphExec_t run, const int* p) {
  int first = 0;
  OK(hipGraphLaunch(run, nullptr));
  OK(hipMemcpy(&first, p, sizeof first, hipMemcpyDeviceToHost));
  return first;
}

int main() {
  const size_t before = free_bytes();
  hipGraph_t graph;
  int* p;
  // The program frees what a launch has left; the next one allocates it again.
  hipGraphExec_t run = build(&graph, &p, false);
  for (int round = 0; round < 3; ++round) {
    CHECK(launched(run, p) == 1);
    OK(hipFreeAsync(p, nullptr));
    OK(hipStreamSynchronize(nullptr));
    CHECK(free_bytes() == before);
  }
  // Unless something else lies there.
  void* other;
  OK(hipMalloc(&other, kBytes));
  CHECK(other == p);
  FAILS(hipGraphLaunch(run, nullptr), hipErrorOutOfMemory);
  OK(hipFree(other));
  // What the last launch has left is the program's even when the graph is gone.
  CHECK(launched(run, p) == 1);
  OK(hipGraphExecDestroy(run));
  OK(hipGraphDestroy(graph));
  CHECK(free_bytes() < before);
  OK(hipFree(p));
  CHECK(free_bytes() == before);
  // What the graph has freed goes with its last owner.
  run = build(&graph, &p, true);
  OK(hipGraphLaunch(run, nullptr));
  OK(hipStreamSynchronize(nullptr));
  OK(hipGraphDestroy(graph));
  CHECK(free_bytes() < before);
  OK(hipGraphLaunch(run, nullptr));
  OK(hipStreamSynchronize(nullptr));
  OK(hipGraphExecDestroy(run));
  CHECK(free_bytes() == before);
  // Likewise in a capture, and where a graph was never launched.
  hipStream_t stream;
  OK(hipStreamCreate(&stream));
  OK(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
  OK(hipMallocAsync((void**)&p, kBytes, stream));
  count<<<1, 64, 0, stream>>>(p);
  OK(hipFreeAsync(p, stream));
  OK(hipStreamEndCapture(stream, &graph));
  CHECK(free_bytes() < before);
  OK(hipGraphDestroy(graph));
  CHECK(free_bytes() == before);
  std::printf("graph memory ok\n");
  return 0;
}
