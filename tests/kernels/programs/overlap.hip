// Time on several streams: small kernels and copies of different streams overlap, those of one stream do not.
#include "check.h"

__global__ void work(float* x, int rounds) {
  float v = x[threadIdx.x];
  for (int i = 0; i < rounds; ++i) v = v * 0.5f + 1.0f;
  x[blockIdx.x * blockDim.x + threadIdx.x] = v;
}

static hipEvent_t begin, end;

// Simulated milliseconds that `body` takes between two events in the default stream.
template <typename Body>
static float timed(Body body) {
  float ms = 0;
  OK(hipEventRecord(begin, nullptr));
  body();
  OK(hipEventRecord(end, nullptr));
  OK(hipEventSynchronize(end));
  OK(hipEventElapsedTime(&ms, begin, end));
  return ms;
}

int main() {
  hipStream_t a, b, apart;
  float *x, *pinned, ms;
  constexpr int kItems = 1 << 20;
  OK(hipEventCreate(&begin));
  OK(hipEventCreate(&end));
  OK(hipStreamCreate(&a));
  OK(hipStreamCreate(&b));
  OK(hipStreamCreateWithFlags(&apart, hipStreamNonBlocking));
  OK(hipMalloc(&x, kItems * sizeof(float)));
  OK(hipHostMalloc(&pinned, kItems * sizeof(float)));
  work<<<1, 64, 0, a>>>(x, 20000);
  float one = timed([&] { work<<<1, 64, 0, a>>>(x, 20000); });
  float behind = timed([&] { work<<<1, 64, 0, a>>>(x, 20000), work<<<1, 64, 0, a>>>(x, 20000); });
  float beside = timed([&] { work<<<1, 64, 0, a>>>(x, 20000), work<<<1, 64, 0, b>>>(x + 64, 20000); });
  CHECK(behind > 1.9f * one && behind < 2.1f * one);
  CHECK(beside > 0.9f * one && beside < 1.1f * one);
  float copy = timed([&] { OK(hipMemcpyAsync(x, pinned, kItems * 4, hipMemcpyHostToDevice, b)); });
  float both = timed([&] {
    OK(hipMemcpyAsync(x, pinned, kItems * 4, hipMemcpyHostToDevice, b));
    work<<<1, 64, 0, a>>>(x, 20000);
  });
  CHECK(both < 0.9f * (copy + one) && both > 0.9f * copy && both > 0.9f * one);
  // A stream that waits for an event of another one begins behind it.
  hipEvent_t made;
  OK(hipEventCreate(&made));
  float chained = timed([&] {
    work<<<1, 64, 0, a>>>(x, 20000);
    OK(hipEventRecord(made, a));
    OK(hipStreamWaitEvent(b, made, 0));
    work<<<1, 64, 0, b>>>(x, 20000);
  });
  CHECK(chained > 1.9f * one);
  // The default stream does not wait for a non-blocking one.
  float free = timed([&] { work<<<1, 64, 0, apart>>>(x, 20000); });
  CHECK(free == 0);
  OK(hipStreamSynchronize(apart));
  OK(hipEventRecord(begin, apart));
  OK(hipEventRecord(end, apart));
  OK(hipEventElapsedTime(&ms, begin, end));
  CHECK(ms == 0);
  std::printf("overlap ok\n");
  return 0;
}
