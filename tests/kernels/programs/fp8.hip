// 8-bit floats of four formats: the device agrees with the host on every kind of value, and codes survive a round trip.
#include <hip/hip_fp8.h>
#include <hip/hip_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <vector>

#include "check.h"

template <class T>
__global__ void convert(const float* in, unsigned char* codes, float* back, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  T small(in[i]);
  codes[i] = small.__x;
  back[i] = small;
}

bool same(float a, float b) { return a == b || (std::isnan(a) && std::isnan(b)); }

template <class T>
void test(unsigned char one, unsigned char large, float limit, unsigned char infinity) {
  std::vector<float> values;
  for (unsigned i = 0; i < 1u << 15; ++i) {  // every exponent, mantissas all over
    unsigned bits = (i << 17) + (i * 2654435761u >> 15);
    float value;
    std::memcpy(&value, &bits, sizeof value);
    values.push_back(value);
  }
  for (int code = 0; code < 256; ++code) {  // every value, and the ties between neighbours
    T small, next;
    small.__x = static_cast<unsigned char>(code);
    next.__x = static_cast<unsigned char>(code + 1);
    values.push_back(small);
    values.push_back((float(small) + float(next)) / 2);
    if (float(small) != 0 && !std::isnan(float(small))) CHECK(std::isinf(float(small)) || T(float(small)).__x == code);
  }
  const int n = static_cast<int>(values.size());
  float *in, *back;
  unsigned char* codes;
  OK(hipMalloc(&in, n * sizeof(float)));
  OK(hipMalloc(&back, n * sizeof(float)));
  OK(hipMalloc(&codes, n));
  OK(hipMemcpy(in, values.data(), n * sizeof(float), hipMemcpyHostToDevice));
  convert<T><<<(n + 255) / 256, 256>>>(in, codes, back, n);
  std::vector<float> wide(n);
  std::vector<unsigned char> narrow(n);
  OK(hipMemcpy(wide.data(), back, n * sizeof(float), hipMemcpyDeviceToHost));
  OK(hipMemcpy(narrow.data(), codes, n, hipMemcpyDeviceToHost));
  for (int i = 0; i < n; ++i) CHECK(narrow[i] == T(values[i]).__x && same(wide[i], T(values[i])));
  CHECK(T(1.0f).__x == one && T(1e9).__x == large && float(T(1e9f)) == limit && T(-2).__x != T(2).__x);
  CHECK(T(INFINITY).__x == infinity && std::isnan(float(T(NAN))));
  CHECK(__hip_cvt_float_to_fp8(0.1f, __HIP_NOSAT, T::__default_interpret) == T(0.1).__x);
}

int main() {
  test<__hip_fp8_e4m3>(0x38, 0x7e, 448, 0x7e);
  test<__hip_fp8_e5m2>(0x3c, 0x7b, 57344, 0x7b);
  test<__hip_fp8_e4m3_fnuz>(0x40, 0x7f, 240, 0x80);
  test<__hip_fp8_e5m2_fnuz>(0x40, 0x7f, 57344, 0x80);
  float4 four = __hip_fp8x4_e4m3_fnuz(make_float4(1, -2, 0.5f, 300));
  float2 two = __hip_fp8x2_e5m2(make_float2(3, -0.25f));
  CHECK(four.x == 1 && four.y == -2 && four.z == 0.5f && four.w == 240 && two.x == 3 && two.y == -0.25f);
  CHECK(__half2float(__half(__hip_cvt_fp8_to_halfraw(0x48, __HIP_E4M3_FNUZ))) == 2);
  std::puts("fp8 ok");
}
