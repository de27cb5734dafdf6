// Functions of the host in a stream and in a graph, which wait for another thread that uses the device.
#include <atomic>
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
  std::printf("callbacks ok\n");
  return 0;
}
