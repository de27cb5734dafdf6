// Two streams with asynchronous copies from pinned memory, an event between them, a host function.
#include "check.h"

__global__ void increment(int* data, int n, int by) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) data[i] += by;
}

static void note(void* data) { *static_cast<int*>(data) += 1; }

int main() {
  const int n = 3000;
  int *host, *device, notes = 0;
  OK(hipHostMalloc((void**)&host, n * sizeof(int), hipHostMallocDefault));
  OK(hipMalloc(&device, n * sizeof(int)));
  for (int i = 0; i < n; ++i) host[i] = i;
  hipStream_t first, second;
  hipEvent_t copied;
  OK(hipStreamCreate(&first));
  OK(hipStreamCreateWithFlags(&second, hipStreamNonBlocking));
  OK(hipEventCreateWithFlags(&copied, hipEventDisableTiming));
  OK(hipMemcpyAsync(device, host, n * sizeof(int), hipMemcpyHostToDevice, first));
  OK(hipEventRecord(copied, first));
  OK(hipStreamWaitEvent(second, copied, 0));
  increment<<<(n + 63) / 64, 64, 0, second>>>(device, n, 5);
  OK(hipLaunchHostFunc(second, note, &notes));
  OK(hipMemcpyAsync(host, device, n * sizeof(int), hipMemcpyDeviceToHost, second));
  OK(hipStreamSynchronize(second));
  for (int i = 0; i < n; ++i) CHECK(host[i] == i + 5);
  CHECK(notes == 1);
  increment<<<(n + 63) / 64, 64, 0, first>>>(host, n, 1);  // pinned memory is visible to the device
  OK(hipDeviceSynchronize());
  CHECK(host[n - 1] == n + 5);
  float ms;
  FAILS(hipEventElapsedTime(&ms, copied, copied), hipErrorInvalidHandle);
  // An event may be destroyed before its work is done: nothing fails, and no later event takes its place.
  hipEvent_t brief, later;
  OK(hipEventCreate(&brief));
  OK(hipMemcpyAsync(device, host, n * sizeof(int), hipMemcpyHostToDevice, first));
  OK(hipEventRecord(brief, first));
  OK(hipStreamWaitEvent(second, brief, 0));
  OK(hipEventDestroy(brief));
  OK(hipEventCreate(&later));
  OK(hipStreamSynchronize(first));
  FAILS(hipEventElapsedTime(&ms, later, later), hipErrorInvalidHandle);
  OK(hipStreamDestroy(first));
  OK(hipStreamDestroy(second));
  OK(hipEventDestroy(copied));
  OK(hipHostFree(host));
  CHECK(hipGetLastError() == hipErrorInvalidHandle);
  std::printf("streams ok\n");
  return 0;
}
