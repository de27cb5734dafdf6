// 16-bit numbers in host code, as references compute them, and what HIP 6 and 7 added to their headers.
#include <hip/hip_bf16.h>
#include <hip/hip_fp16.h>

#include <cmath>

#include "check.h"

__global__ void pack(const __hip_bfloat162* a, __hip_bfloat162* out, float2* wide) {
  out[0] = __lows2bfloat162(a[0], a[1]);
  out[1] = __highs2bfloat162(a[0], a[1]);
  __hip_bfloat16 next = a[0].x;
  ++next;
  const __hip_bfloat16 before = next--;
  out[2] = __halves2bfloat162(before, next);
  *wide = a[1];
}

static void halves() {
  const __half a = 1.5f, b = 2.0f;
  __half c = a * b + a;
  CHECK((float)c == 4.5f && a < b && b >= a && a != b && (float)(-a) == -1.5f);
  c /= b;
  c -= a;
  CHECK((float)c == 0.75f && c == __half(0.75f));
  // The nearest of the numbers that a half can hold, and not what a float would.
  CHECK((float)(__half(2048.0f) + __half(1.0f)) == 2048.0f && (float)(__half(1.0f) / __half(3.0f)) == 0.333251953125f);
  CHECK(std::isinf((float)HIPRT_INF_FP16) && (float)HIPRT_MAX_NORMAL_FP16 == 65504.0f);
}

static void brain_floats() {
  const __hip_bfloat16 nan = HIPRT_NAN_BF16, one = HIPRT_ONE_BF16, two = __hip_bfloat16(static_cast<__bf16>(2.0f));
  CHECK(__hltu(one, two) && !__hltu(two, one) && __hltu(nan, one) && __hequ(nan, one) && !__hequ(one, two));
  __hip_bfloat162 in[2] = {{__hip_bfloat16(1.0f), __hip_bfloat16(2.0f)}, {__hip_bfloat16(3.0f), __hip_bfloat16(4.0f)}};
  __hip_bfloat162 *a, *out, host[3];
  float2 *wide, widened;
  OK(hipMalloc(&a, sizeof in));
  OK(hipMalloc(&out, sizeof host));
  OK(hipMalloc(&wide, sizeof *wide));
  OK(hipMemcpy(a, in, sizeof in, hipMemcpyHostToDevice));
  pack<<<1, 1>>>(a, out, wide);
  OK(hipMemcpy(host, out, sizeof host, hipMemcpyDeviceToHost));
  OK(hipMemcpy(&widened, wide, sizeof widened, hipMemcpyDeviceToHost));
  const float want[3][2] = {{1, 3}, {2, 4}, {2, 1}};
  for (int i = 0; i < 3; ++i) CHECK((float)host[i].x == want[i][0] && (float)host[i].y == want[i][1]);
  CHECK(widened.x == 3 && widened.y == 4);
}

int main() {
  halves();
  brain_floats();
  std::printf("half on the host ok\n");
}
