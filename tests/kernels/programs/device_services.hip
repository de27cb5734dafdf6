// What the device library asks of the host while a kernel runs: unbuffered printing and calls of host functions.
#include <cstdint>
#include <cstring>

#include "check.h"

extern "C" __device__ uint64_t __ockl_printf_begin(uint64_t version);
extern "C" __device__ uint64_t __ockl_printf_append_string_n(uint64_t message, const char* text, uint64_t length,
                                                             uint32_t last);
extern "C" __device__ uint64_t __ockl_printf_append_args(uint64_t message, uint32_t count, uint64_t a0, uint64_t a1,
                                                         uint64_t a2, uint64_t a3, uint64_t a4, uint64_t a5,
                                                         uint64_t a6, uint32_t last);
typedef uint64_t Pair __attribute__((ext_vector_type(2)));
extern "C" __device__ Pair __ockl_call_host_function(uint64_t function, uint64_t a0, uint64_t a1, uint64_t a2,
                                                     uint64_t a3, uint64_t a4, uint64_t a5, uint64_t a6);

__global__ void print() {
  if (threadIdx.x % 2 != 0 || threadIdx.x > 3) return;
  const char format[] = "item %d of %d has a text that is %s than one packet: %.2f\n", word[] = "longer";
  double value = 0.5 + threadIdx.x * 0.5;
  uint64_t bits;
  memcpy(&bits, &value, 8);
  uint64_t message = __ockl_printf_begin(0);
  message = __ockl_printf_append_string_n(message, format, sizeof format, 0);
  message = __ockl_printf_append_args(message, 2, threadIdx.x, 3, 0, 0, 0, 0, 0, 0);
  message = __ockl_printf_append_string_n(message, word, sizeof word, 0);
  __ockl_printf_append_args(message, 1, bits, 0, 0, 0, 0, 0, 0, 1);
}

__global__ void complain() {
  const char format[] = "to stderr %d\n";
  uint64_t message = __ockl_fprintf_stderr_begin();
  message = __ockl_fprintf_append_string_n(message, format, sizeof format, 0);
  __ockl_fprintf_append_args(message, 1, 7, 0, 0, 0, 0, 0, 0, 1);
}

static int calls = 0;

static void host_sum(uint64_t* result, const uint64_t* words) {
  result[0] = words[0] + words[1];
  result[1] = ++calls;
}

__global__ void call(uint64_t function, uint64_t* sums) {
  sums[threadIdx.x] = __ockl_call_host_function(function, threadIdx.x, 100, 0, 0, 0, 0, 0).x;
}

int main() {
  uint64_t *sums, host[64];
  OK(hipMalloc(&sums, sizeof host));
  print<<<1, 64>>>();
  complain<<<1, 1>>>();
  call<<<1, 64>>>(reinterpret_cast<uint64_t>(&host_sum), sums);
  OK(hipMemcpy(host, sums, sizeof host, hipMemcpyDeviceToHost));
  for (int i = 0; i < 64; ++i) CHECK(host[i] == 100u + i);
  std::printf("called %d times, services ok\n", calls);
  return 0;
}
