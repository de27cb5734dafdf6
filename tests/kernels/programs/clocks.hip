// The two clocks of a kernel run at the rates that the device says.
#include "check.h"

#include <cmath>

__global__ void both(long long* out, int turns) {
  const long long core = clock64(), wall = wall_clock64();
  float x = 1;
  for (int i = 0; i < turns; ++i) x = x * 0.5f + static_cast<float>(i);
  out[2] = static_cast<long long>(x);
  out[0] = clock64() - core;
  out[1] = wall_clock64() - wall;
}

int main() {
  int core_khz, wall_khz;
  OK(hipDeviceGetAttribute(&core_khz, hipDeviceAttributeClockRate, 0));
  OK(hipDeviceGetAttribute(&wall_khz, hipDeviceAttributeWallClockRate, 0));
  long long *device, ticks[3];
  OK(hipMalloc(&device, sizeof ticks));
  both<<<1, 64>>>(device, 100000);
  OK(hipMemcpy(ticks, device, sizeof ticks, hipMemcpyDeviceToHost));
  const double core_ms = static_cast<double>(ticks[0]) / core_khz, wall_ms = static_cast<double>(ticks[1]) / wall_khz;
  CHECK(core_ms > 0.1 && std::fabs(core_ms / wall_ms - 1) < 0.001);
  std::printf("clocks ok\n");
}
