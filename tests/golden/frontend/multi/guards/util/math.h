#ifndef UTIL_MATH_H
#define UTIL_MATH_H
#include <hip/hip_runtime.h>
#include <cmath>
#include "shape.h"
__host__ __device__ inline float scaled(float x) { return 0.5f * x; }
enum {
#define ITEM(name, value) name = value,
#include "items.def"
#undef ITEM
  kCount
};
#endif  // UTIL_MATH_H
