// Products by the matrix instructions of gfx950, with operands loaded as AMD's "Matrix Core Programming on CDNA3 and CDNA4"
// loads them, through LDS filled by wide direct loads and read by transposing ones; compared with the host's.
#include <hip/hip_fp16.h>
#include <hip/hip_runtime.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <vector>

using Half4 = _Float16 __attribute__((ext_vector_type(4)));
using Half8 = _Float16 __attribute__((ext_vector_type(8)));
using Words8 = int __attribute__((ext_vector_type(8)));
using Float16 = float __attribute__((ext_vector_type(16)));
using Short4 = short __attribute__((ext_vector_type(4)));

constexpr int kM = 32, kHalfK = 16, kByteK = 64;

__device__ void store_tile(Float16 sum, float* c) {
  const int column = threadIdx.x % 32, rows = threadIdx.x / 32 * 4;
  for (int k = 0; k < 16; ++k) c[(k / 4 * 8 + rows + k % 4) * kM + column] = sum[k];
}

// A row by row; B, [k][column], through the LDS: 16 lanes read four rows of 16 columns and get four k of their column.
__global__ void multiply_halves(const _Float16* a, const _Float16* b, float* c) {
#if defined(__gfx950__)
  __shared__ __attribute__((aligned(16))) _Float16 tile[kHalfK * kM];
  using Global = __attribute__((address_space(1))) void;
  using Local = __attribute__((address_space(3))) void;
  const int lane = threadIdx.x, column = lane % 32, group = lane / 32;
  __builtin_amdgcn_global_load_lds((Global*)(b + 8 * lane), (Local*)tile, 16, 0, 0);
  __builtin_amdgcn_s_waitcnt(0);
  __syncthreads();
  Half8 x, y;
  for (int k = 0; k < 8; ++k) x[k] = a[column * kHalfK + 8 * group + k];
  for (int half = 0; half < 2; ++half) {
    const int row = 8 * group + 4 * half + lane % 16 / 4, from = lane % 32 / 16 * 16 + lane % 4 * 4;
    using Tile = __attribute__((address_space(3))) Short4;
    const Short4 four = __builtin_amdgcn_ds_read_tr16_b64_v4i16((Tile*)(tile + row * kM + from));
    const Half4 values = __builtin_bit_cast(Half4, four);
    for (int k = 0; k < 4; ++k) y[4 * half + k] = values[k];
  }
  store_tile(__builtin_amdgcn_mfma_f32_32x32x16_f16(x, y, Float16{}, 0, 0, 0), c);
#endif
}

// E4M3 bytes, [row][k] and [column][k]; a scale for each 32 of them.
__global__ void multiply_scaled_bytes(const uint8_t* a, const uint8_t* b, const uint8_t* scales, float* c) {
#if defined(__gfx950__)
  const int lane = threadIdx.x, row = lane % 32, group = lane / 32;
  Words8 x, y;
  for (int k = 0; k < 2; ++k) {
    for (int word = 0; word < 4; ++word) {
      x[4 * k + word] = *(const int*)(a + row * kByteK + 32 * k + 16 * group + 4 * word);
      y[4 * k + word] = *(const int*)(b + row * kByteK + 32 * k + 16 * group + 4 * word);
    }
  }
  const int scale_a = scales[2 * row + group], scale_b = scales[2 * kM + 2 * row + group];
  store_tile(__builtin_amdgcn_mfma_scale_f32_32x32x64_f8f6f4(x, y, Float16{}, 0, 0, 0, scale_a, 0, scale_b), c);
#endif
}

// E2M1 nibbles, without scales that differ.
__global__ void multiply_nibbles(const uint8_t* a, const uint8_t* b, float* c) {
#if defined(__gfx950__)
  const int lane = threadIdx.x, row = lane % 32, group = lane / 32;
  Words8 x{}, y{};
  for (int word = 0; word < 4; ++word) {
    x[word] = *(const int*)(a + row * kByteK / 2 + 16 * group + 4 * word);
    y[word] = *(const int*)(b + row * kByteK / 2 + 16 * group + 4 * word);
  }
  store_tile(__builtin_amdgcn_mfma_scale_f32_32x32x64_f8f6f4(x, y, Float16{}, 4, 4, 0, 127, 0, 127), c);
#endif
}

template <class T>
T* upload(const std::vector<T>& values) {
  T* p;
  (void)hipMalloc(&p, values.size() * sizeof(T));
  (void)hipMemcpy(p, values.data(), values.size() * sizeof(T), hipMemcpyHostToDevice);
  return p;
}

bool matches(const float* device, const std::vector<double>& expected, const char* what) {
  std::vector<float> got(kM * kM);
  (void)hipMemcpy(got.data(), device, got.size() * sizeof(float), hipMemcpyDeviceToHost);
  for (size_t i = 0; i < got.size(); ++i) {
    if (got[i] != expected[i]) {
      std::printf("%s: element %zu is %g, not %g\n", what, i, got[i], expected[i]);
      return false;
    }
  }
  return true;
}

uint32_t state = 1;
int draw(int below) {
  state = state * 1664525u + 1013904223u;
  return static_cast<int>((state >> 16) % static_cast<uint32_t>(below));
}

int main() {
  // Codes of small numbers in E4M3 and E2M1: 0, 1, 2, -1, -2.
  const uint8_t bytes[] = {0x00, 0x38, 0x40, 0xb8, 0xc0}, nibbles[] = {0, 2, 4, 10, 12};
  const double numbers[] = {0, 1, 2, -1, -2};
  std::vector<_Float16> a16(kM * kHalfK), b16(kM * kHalfK);
  std::vector<uint8_t> a8(kM * kByteK), b8(kM * kByteK), a4(kM * kByteK / 2), b4(kM * kByteK / 2), scales(4 * kM);
  std::vector<double> exact16(kM * kM), exact8(kM * kM), exact4(kM * kM);
  for (auto* m : {&a16, &b16}) {
    for (auto& v : *m) v = static_cast<_Float16>(draw(9) - 4);
  }
  std::vector<int> ia(kM * kByteK), ib(kM * kByteK);
  for (size_t i = 0; i < ia.size(); ++i) {
    a8[i] = bytes[ia[i] = draw(5)], b8[i] = bytes[ib[i] = draw(5)];
    a4[i / 2] |= nibbles[ia[i]] << 4 * (i % 2), b4[i / 2] |= nibbles[ib[i]] << 4 * (i % 2);
  }
  for (auto& v : scales) v = static_cast<uint8_t>(125 + draw(5));
  for (int i = 0; i < kM; ++i) {
    for (int j = 0; j < kM; ++j) {
      for (int k = 0; k < kHalfK; ++k) {
        exact16[i * kM + j] += static_cast<double>(a16[i * kHalfK + k]) * static_cast<double>(b16[k * kM + j]);
      }
      for (int k = 0; k < kByteK; ++k) {
        const double product = numbers[ia[i * kByteK + k]] * numbers[ib[j * kByteK + k]];
        exact4[i * kM + j] += product;
        exact8[i * kM + j] += std::ldexp(product, scales[2 * i + k / 32] + scales[2 * kM + 2 * j + k / 32] - 254);
      }
    }
  }
  float* c = upload(std::vector<float>(kM * kM));
  multiply_halves<<<1, 64>>>(upload(a16), upload(b16), c);
  bool good = matches(c, exact16, "halves");
  multiply_scaled_bytes<<<1, 64>>>(upload(a8), upload(b8), upload(scales), c);
  good &= matches(c, exact8, "scaled bytes");
  multiply_nibbles<<<1, 64>>>(upload(a4), upload(b4), c);
  good &= matches(c, exact4, "nibbles");
  if (good) std::printf("cdna4 matrix ok\n");
  return good ? 0 : 1;
}
