// __constant__ and __device__ variables: copies to and from symbols, addresses, sizes, bad symbols.
#include "check.h"

__constant__ float coefficients[8];
__device__ int total = 100;
__device__ int table[16] = {0, 1, 4, 9, 16, 25};
static int not_a_symbol;

__global__ void use(float* out) {
  int i = threadIdx.x;
  float sum = 0;
  for (int k = 0; k < 8; ++k) sum += coefficients[k] * (i + k);
  out[i] = sum;
  if (i < 16) table[i] += 1000;
  if (i == 0) total += 23;
}

int main() {
  float c[8], out[64], *dout;
  int t = 0, values[16];
  for (int k = 0; k < 8; ++k) c[k] = 0.5f * k;
  OK(hipMemcpyToSymbol(HIP_SYMBOL(coefficients), c, sizeof c));
  c[7] = 9.0f;
  OK(hipMemcpyToSymbol(HIP_SYMBOL(coefficients), &c[7], sizeof(float), 7 * sizeof(float), hipMemcpyHostToDevice));
  OK(hipMalloc(&dout, sizeof out));
  use<<<1, 64>>>(dout);
  OK(hipMemcpy(out, dout, sizeof out, hipMemcpyDeviceToHost));
  for (int i = 0; i < 64; ++i) {
    float sum = 0;
    for (int k = 0; k < 8; ++k) sum += c[k] * (i + k);
    CHECK(out[i] == sum);
  }
  OK(hipMemcpyFromSymbol(&t, HIP_SYMBOL(total), sizeof t));
  CHECK(t == 123);
  OK(hipMemcpyFromSymbol(values, HIP_SYMBOL(table), sizeof values));
  CHECK(values[5] == 1025 && values[15] == 1000);
  int* address;
  size_t size;
  OK(hipGetSymbolAddress((void**)&address, HIP_SYMBOL(table)));
  OK(hipGetSymbolSize(&size, HIP_SYMBOL(table)));
  CHECK(size == sizeof values);
  OK(hipMemcpy(&t, address + 3, sizeof t, hipMemcpyDeviceToHost));
  CHECK(t == 1009);
  FAILS(hipMemcpyToSymbol(HIP_SYMBOL(not_a_symbol), &t, sizeof t), hipErrorInvalidSymbol);
  FAILS(hipMemcpyToSymbol(HIP_SYMBOL(total), values, sizeof values), hipErrorInvalidValue);
  std::printf("symbols ok\n");
  return 0;
}
