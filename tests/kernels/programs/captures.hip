// Captures: graphs rebuilt in a loop, what a capture forbids, forks and joins, memory of a graph.
#include <thread>

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
    OK(hipStreamSynchronize(stream));
    CHECK(host[kItems - 1] == round * 0x01010101 + 1);
  }
  OK(hipGraphExecDestroy(executable));
}

// The memory of a captured allocation belongs to the graph, for all launches.
static void memory(hipStream_t stream) {
  int *scratch, host[kItems] = {};
  hipGraph_t graph;
  hipGraphExec_t executable;
  OK(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
  OK(hipMallocAsync((void**)&scratch, sizeof host, stream));
  OK(hipMemsetAsync(scratch, 0, sizeof host, stream));
  add<<<1, kItems, 0, stream>>>(scratch, 5);
  OK(hipMemcpyAsync(host, scratch, sizeof host, hipMemcpyDeviceToHost, stream));
  OK(hipFreeAsync(scratch, stream));
  OK(hipStreamEndCapture(stream, &graph));
  hipGraphNode_t nodes[5];
  size_t count = 5;
  hipGraphNodeType first, last;
  OK(hipGraphGetNodes(graph, nodes, &count));
  OK(hipGraphNodeGetType(nodes[0], &first));
  OK(hipGraphNodeGetType(nodes[count - 1], &last));
  CHECK(count == 5 && first == hipGraphNodeTypeMemAlloc && last == hipGraphNodeTypeMemFree);
  OK(hipGraphInstantiate(&executable, graph, nullptr, nullptr, 0));
  for (int round = 0; round < 3; ++round) {
    host[7] = 0;
    OK(hipGraphLaunch(executable, stream));
    OK(hipStreamSynchronize(stream));
    CHECK(host[7] == 5);
  }
  OK(hipGraphExecDestroy(executable));
  OK(hipGraphDestroy(graph));
}

#define INVALIDATES(mode, call, error)                                         \
  do {                                                                         \
    OK(hipStreamBeginCapture(stream, mode));                                   \
    FAILS(call, error);                                                        \
    OK(hipStreamIsCapturing(stream, &status));                                 \
    CHECK(status == hipStreamCaptureStatusInvalidated);                        \
    FAILS(hipMemsetAsync(data, 0, 4, stream), hipErrorStreamCaptureInvalidated); \
    FAILS(hipStreamEndCapture(stream, &graph), hipErrorStreamCaptureInvalidated); \
    CHECK(graph == nullptr);                                                   \
    OK(hipStreamIsCapturing(stream, &status));                                 \
    CHECK(status == hipStreamCaptureStatusNone);                               \
  } while (0)

static void forbidden(hipStream_t stream, int* data) {
  int value = 0;
  void* more;
  hipGraph_t graph;
  hipStreamCaptureStatus status;
  const auto global = hipStreamCaptureModeGlobal, local = hipStreamCaptureModeThreadLocal;
  INVALIDATES(global, hipMemcpy(&value, data, 4, hipMemcpyDeviceToHost), hipErrorStreamCaptureImplicit);
  INVALIDATES(local, hipMemset(data, 0, 4), hipErrorStreamCaptureImplicit);
  INVALIDATES(global, hipDeviceSynchronize(), hipErrorStreamCaptureUnsupported);
  INVALIDATES(global, hipStreamSynchronize(stream), hipErrorStreamCaptureUnsupported);
  INVALIDATES(hipStreamCaptureModeRelaxed, hipStreamQuery(stream), hipErrorStreamCaptureUnsupported);
  INVALIDATES(global, hipMalloc(&more, 4), hipErrorStreamCaptureUnsupported);
  INVALIDATES(hipStreamCaptureModeRelaxed, hipMemset(data, 0, 4), hipErrorStreamCaptureImplicit);
  // Allocations are allowed in relaxed mode, that of the capture or that of the thread.
  OK(hipStreamBeginCapture(stream, hipStreamCaptureModeRelaxed));
  OK(hipMalloc(&more, 4));
  OK(hipFree(more));
  OK(hipStreamEndCapture(stream, &graph));
  hipStreamCaptureMode mode = hipStreamCaptureModeRelaxed;
  OK(hipStreamBeginCapture(stream, global));
  OK(hipThreadExchangeStreamCaptureMode(&mode));
  CHECK(mode == global);
  OK(hipMalloc(&more, 4));
  OK(hipThreadExchangeStreamCaptureMode(&mode));
  OK(hipStreamEndCapture(stream, &graph));
}

static void forbidden_memory(hipStream_t stream, int* data) {
  static int plain[4];
  void *p, *pinned;
  size_t pitch;
  hipGraph_t graph;
  hipStreamCaptureStatus status;
  hipPitchedPtr volume;
  hipArray_t array;
  const hipChannelFormatDesc channels = hipCreateChannelDesc<float>();
  const auto global = hipStreamCaptureModeGlobal;
  OK(hipHostMalloc(&pinned, 64, 0));
  INVALIDATES(global, hipMallocPitch(&p, &pitch, 16, 2), hipErrorStreamCaptureUnsupported);
  INVALIDATES(global, hipMalloc3D(&volume, make_hipExtent(16, 2, 2)), hipErrorStreamCaptureUnsupported);
  INVALIDATES(global, hipMallocArray(&array, &channels, 4, 4), hipErrorStreamCaptureUnsupported);
  INVALIDATES(global, hipHostFree(pinned), hipErrorStreamCaptureUnsupported);
  INVALIDATES(global, hipHostRegister(plain, sizeof plain, 0), hipErrorStreamCaptureUnsupported);
  INVALIDATES(global, hipHostUnregister(plain), hipErrorStreamCaptureUnsupported);
  OK(hipHostFree(pinned));
}

// The host may not ask for an event of a capture; callbacks are allowed in none, and none comes behind one.
static void forbidden_waits(hipStream_t stream, int* data) {
  hipEvent_t event;
  hipGraph_t graph;
  hipStreamCaptureStatus status;
  const auto relaxed = hipStreamCaptureModeRelaxed;
  const hipStreamCallback_t callback = [](hipStream_t, hipError_t, void*) {};
  OK(hipEventCreate(&event));
  INVALIDATES(relaxed, (hipEventRecord(event, stream), hipEventQuery(event)), hipErrorCapturedEvent);
  INVALIDATES(relaxed, (hipEventRecord(event, stream), hipEventSynchronize(event)), hipErrorCapturedEvent);
  INVALIDATES(relaxed, hipStreamAddCallback(stream, callback, nullptr, 0), hipErrorStreamCaptureUnsupported);
  INVALIDATES(relaxed, hipStreamAddCallback(nullptr, callback, nullptr, 0), hipErrorStreamCaptureImplicit);
  OK(hipEventSynchronize(event));  // of a capture that has ended
  OK(hipEventDestroy(event));
}

static void forks(hipStream_t stream, int* data) {
  int value = 0;
  hipStream_t side;
  hipEvent_t fork, join;
  hipGraph_t graph;
  hipStreamCaptureStatus status;
  OK(hipStreamCreate(&side));
  OK(hipEventCreate(&fork));
  OK(hipEventCreate(&join));
  for (bool joined : {false, true}) {
    OK(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
    OK(hipEventRecord(fork, stream));
    OK(hipStreamWaitEvent(side, fork, 0));
    add<<<1, kItems, 0, side>>>(data, 1);
    OK(hipEventRecord(join, side));
    FAILS(hipStreamWaitEvent(nullptr, join, 0), hipErrorStreamCaptureImplicit);
    FAILS(hipStreamEndCapture(side, &graph), hipErrorStreamCaptureUnmatched);
    if (joined) OK(hipStreamWaitEvent(stream, join, 0));
    FAILS(hipStreamEndCapture(stream, &graph), joined ? hipSuccess : hipErrorStreamCaptureUnjoined);
    OK(hipStreamIsCapturing(side, &status));
    CHECK(status == hipStreamCaptureStatusNone && (graph != nullptr) == joined);
  }
  // An event of a capture that has ended makes no stream join the next one, nor does one of a stream that is gone.
  OK(hipMemset(data, 0, sizeof(int)));
  OK(hipStreamBeginCapture(stream, hipStreamCaptureModeRelaxed));
  OK(hipStreamWaitEvent(side, join, 0));
  OK(hipStreamIsCapturing(side, &status));
  CHECK(status == hipStreamCaptureStatusNone);
  OK(hipStreamEndCapture(stream, &graph));
  OK(hipStreamBeginCapture(side, hipStreamCaptureModeRelaxed));
  OK(hipEventRecord(join, side));
  OK(hipStreamDestroy(side));
  OK(hipStreamWaitEvent(stream, join, 0));
  add<<<1, kItems, 0, stream>>>(data, 9);
  OK(hipMemcpy(&value, data, sizeof value, hipMemcpyDeviceToHost));
  CHECK(value == 9);
}

// A capture of the calling thread's own stream takes nothing from the default stream.
static void own_stream(int* data) {
  int value = 0;
  hipGraph_t graph;
  size_t count = 0;
  OK(hipMemset(data, 0, sizeof(int)));
  add<<<1, kItems, 0, hipStreamPerThread>>>(data, 3);
  OK(hipStreamBeginCapture(hipStreamPerThread, hipStreamCaptureModeRelaxed));
  add<<<1, kItems, 0, hipStreamPerThread>>>(data, 100);
  add<<<1, kItems>>>(data, 4);
  OK(hipStreamEndCapture(hipStreamPerThread, &graph));
  OK(hipMemcpy(&value, data, sizeof value, hipMemcpyDeviceToHost));
  CHECK(value == 7);
  OK(hipGraphGetNodes(graph, nullptr, &count));
  CHECK(count == 1);
  FAILS(hipStreamDestroy(hipStreamPerThread), hipErrorInvalidHandle);
}

// The stream of a thread ends with it, and so does its capture.
static void streams_of_threads() {
  unsigned long long ids[2];
  for (unsigned long long& id : ids) {
    std::thread([&id] {
      hipStreamCaptureStatus status;
      OK(hipStreamIsCapturing(hipStreamPerThread, &status));
      CHECK(status == hipStreamCaptureStatusNone);
      OK(hipStreamGetId(hipStreamPerThread, &id));
      OK(hipStreamBeginCapture(hipStreamPerThread, hipStreamCaptureModeGlobal));
    }).join();
  }
  CHECK(ids[0] != ids[1]);
  OK(hipDeviceSynchronize());
}

int main() {
  int* data;
  hipStream_t stream;
  OK(hipMalloc(&data, kItems * sizeof(int)));
  OK(hipStreamCreate(&stream));
  updates(stream, data);
  memory(stream);
  forbidden(stream, data);
  forbidden_memory(stream, data);
  forbidden_waits(stream, data);
  forks(stream, data);
  own_stream(data);
  streams_of_threads();
  std::printf("captures ok\n");
  return 0;
}
