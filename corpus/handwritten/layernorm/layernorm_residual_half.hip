// The residual addition that precedes a layer norm in a transformer, fused into it, and all tensors in half precision:
// two tensors are read and two written for half the bytes that one launch for each operation would move.
//
// step: layernorm 4 layernorm_residual_half, after layernorm_registers
// paradigm: per-wave
// bound: gfx90a hbm, gfx942 infinity
// moves: SQ_INSTS_VALU_CVT up, SQ_INSTS_VALU up
// check: 65
#include <hip/hip_fp16.h>
#include <hip/hip_runtime.h>

#include <cmath>
#include <cstdlib>
#include <iostream>
#include <vector>

typedef _Float16 half8 __attribute__((ext_vector_type(8)));
constexpr int kColumns = 1024, kParts = kColumns / 8 / 64;

__global__ __launch_bounds__(256) void add_layernorm(const half8* x, const half8* branch, half8* sum_out, half8* y,
                                                     int rows) {
  const int row = blockIdx.x * 4 + threadIdx.x / 64, lane = threadIdx.x % 64;
  if (row >= rows) return;
  float v[kParts][8], sum = 0, squares = 0;
  for (int p = 0; p < kParts; ++p) {
    const int i = row * (kColumns / 8) + p * 64 + lane;
    const half8 total = x[i] + branch[i];
    sum_out[i] = total;
    for (int e = 0; e < 8; ++e) sum += v[p][e] = static_cast<float>(total[e]);
  }
  for (int m = 32; m > 0; m /= 2) sum += __shfl_xor(sum, m);
  const float mean = sum / kColumns;
  for (auto& part : v)
    for (float& e : part) squares += (e - mean) * (e - mean);
  for (int m = 32; m > 0; m /= 2) squares += __shfl_xor(squares, m);
  const float scale = rsqrtf(squares / kColumns + 1e-5f);
  for (int p = 0; p < kParts; ++p) {
    half8 result;
    for (int e = 0; e < 8; ++e) result[e] = static_cast<_Float16>((v[p][e] - mean) * scale);
    y[row * (kColumns / 8) + p * 64 + lane] = result;
  }
}

#define MUST(call) \
  if ((call) != hipSuccess) return std::cerr << "failed: " #call "\n", EXIT_FAILURE

int main(int argc, char** argv) {
  const int rows = argc > 1 ? std::atoi(argv[1]) : 16384;
  const std::size_t n = static_cast<std::size_t>(rows) * kColumns, bytes = n * sizeof(_Float16);
  std::vector<_Float16> x(n), branch(n), total(n), y(n);
  for (std::size_t i = 0; i < n; ++i) {
    x[i] = static_cast<_Float16>(static_cast<int>(i % 64) - 32);
    branch[i] = static_cast<_Float16>(0.25f * static_cast<int>(i % 11));
  }
  half8 *dx, *dbranch, *dtotal, *dy;
  MUST(hipMalloc(&dx, bytes));
  MUST(hipMalloc(&dbranch, bytes));
  MUST(hipMalloc(&dtotal, bytes));
  MUST(hipMalloc(&dy, bytes));
  MUST(hipMemcpy(dx, x.data(), bytes, hipMemcpyHostToDevice));
  MUST(hipMemcpy(dbranch, branch.data(), bytes, hipMemcpyHostToDevice));
  add_layernorm<<<(rows + 3) / 4, 256>>>(dx, dbranch, dtotal, dy, rows);
  MUST(hipMemcpy(total.data(), dtotal, bytes, hipMemcpyDeviceToHost));
  MUST(hipMemcpy(y.data(), dy, bytes, hipMemcpyDeviceToHost));
  int wrong = 0;
  for (int r = 0; r < rows; r += 31) {
    double mean = 0, var = 0;
    const std::size_t base = static_cast<std::size_t>(r) * kColumns;
    for (int c = 0; c < kColumns; ++c) mean += (float(x[base + c]) + float(branch[base + c])) / kColumns;
    for (int c = 0; c < kColumns; ++c) var += std::pow(float(x[base + c]) + float(branch[base + c]) - mean, 2) / kColumns;
    for (int c = 0; c < kColumns; ++c) {
      const double sum = float(x[base + c]) + float(branch[base + c]);
      wrong += std::abs((sum - mean) / std::sqrt(var + 1e-5) - float(y[base + c])) > 4e-3 || float(total[base + c]) != sum;
    }
  }
  std::cout << (wrong ? "FAIL " : "PASS ") << wrong << "\n";
  return wrong ? EXIT_FAILURE : EXIT_SUCCESS;
}
