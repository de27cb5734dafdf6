#include <hip/hip_runtime.h>
#include <cstdio>
#include "util/shape.h"
#include "util/math.h"
#include "util/shape.h"
/* #include "nowhere.h" is only a comment */
static const char* kText = "#include \"nowhere.h\"";

__global__ void area(const Shape* shapes, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = scaled(shapes[i].width * shapes[i].height);
}

int main() {
  Shape h[4];
  for (int i = 0; i < 4; ++i) h[i] = Shape{1.0f + i, 2.0f};
  Shape* d = nullptr;
  float *out = nullptr, r[4];
  if (hipMalloc(&d, sizeof(h)) != hipSuccess || hipMalloc(&out, sizeof(r)) != hipSuccess) return 1;
  if (hipMemcpy(d, h, sizeof(h), hipMemcpyHostToDevice) != hipSuccess) return 1;
  area<<<1, 64>>>(d, out, 4);
  if (hipMemcpy(r, out, sizeof(r), hipMemcpyDeviceToHost) != hipSuccess) return 1;
#define ITEM(name, value) printf("%s %.1f\n", #name, value + r[value]);
#include "util/items.def"
#undef ITEM
  printf("%d %c\n", kCount, kText[0]);
  return 0;
}
