#ifndef COMMON_H
#define COMMON_H
#include <hip/hip_runtime.h>
struct Task {
  float* data;
  int count;
};
void launchScale(const Task& task, float factor);
void launchShift(const Task& task, float by);
#endif
