// Functions of the host in a stream and in a graph, which wait for another thread that uses the device, or which it has
// to wait for.
#include <atomic>
#include <chrono>
#include <thread>

#include "check.h"

__global__ void add(int* data, int by) { data[threadIdx.x] += by; }

struct Turn {
  std::atomic<bool> wanted{false}, done{false};
};

static void wait_for_other(void* argument) {
  auto* turn = static_cast<Turn*>(argument);
  turn->wanted = true;
  while (!turn->done) std::this_thread::yield();
}

struct Order {
  int* number;
  std::atomic<bool> begun{false}, submitted{false}, ended{false};
};

static void write_late(void* argument) {
  auto* order = static_cast<Order*>(argument);
  order->begun = true;
  while (!order->submitted) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  *order->number = 7;
  order->ended = true;
}

// What another thread submits behind a function of the host comes after it, in other streams, too.
static void order(hipStream_t first, hipStream_t second, int* data) {
  Order order;
  hipEvent_t copied;
  hipStream_t free_stream;
  OK(hipEventCreate(&copied));
  OK(hipStreamCreateWithFlags(&free_stream, hipStreamNonBlocking));
  OK(hipHostMalloc((void**)&order.number, sizeof(int), 0));
  *order.number = 0;
  std::thread other([&] {
    while (!order.begun) std::this_thread::yield();
    OK(hipMemcpyAsync(data, order.number, sizeof(int), hipMemcpyHostToDevice, first));
    OK(hipEventRecord(copied, first));
    OK(hipStreamWaitEvent(second, copied, 0));
    add<<<1, 64, 0, second>>>(data, 1);
    for (hipStream_t behind : {first, second, hipStream_t(nullptr)}) FAILS(hipStreamQuery(behind), hipErrorNotReady);
    FAILS(hipEventQuery(copied), hipErrorNotReady);
    OK(hipStreamSynchronize(free_stream));
    order.submitted = true;
    OK(hipStreamSynchronize(first));
    CHECK(order.ended);
  });
  OK(hipLaunchHostFunc(first, write_late, &order));
  OK(hipStreamSynchronize(first));
  other.join();
  int value = 0;
  OK(hipStreamSynchronize(second));
  OK(hipMemcpy(&value, data, sizeof value, hipMemcpyDeviceToHost));
  CHECK(value == 8);
  OK(hipEventQuery(copied));
}

int main() {
  int *data, value = 0;
  OK(hipMalloc(&data, 64 * sizeof(int)));
  OK(hipMemset(data, 0, 64 * sizeof(int)));
  hipStream_t first, second;
  OK(hipStreamCreate(&first));
  OK(hipStreamCreate(&second));
  Turn turns[2];
  std::thread other([&] {
    for (Turn& turn : turns) {
      while (!turn.wanted) std::this_thread::yield();
      add<<<1, 64, 0, second>>>(data, 1);
      OK(hipStreamSynchronize(second));
      turn.done = true;
    }
  });
  OK(hipLaunchHostFunc(first, wait_for_other, &turns[0]));
  add<<<1, 64, 0, first>>>(data, 10);
  hipGraph_t graph;
  hipGraphExec_t executable;
  OK(hipStreamBeginCapture(first, hipStreamCaptureModeRelaxed));
  OK(hipLaunchHostFunc(first, wait_for_other, &turns[1]));
  add<<<1, 64, 0, first>>>(data, 100);
  OK(hipStreamEndCapture(first, &graph));
  OK(hipGraphInstantiate(&executable, graph, nullptr, nullptr, 0));
  OK(hipGraphLaunch(executable, first));
  OK(hipDeviceSynchronize());
  other.join();
  OK(hipMemcpy(&value, data, sizeof value, hipMemcpyDeviceToHost));
  CHECK(value == 112);
  order(first, second, data);
  std::printf("callbacks ok\n");
  return 0;
}
