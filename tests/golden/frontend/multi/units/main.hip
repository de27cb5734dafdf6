#include <cstdio>
#include "common.h"
int main() {
  Task task{nullptr, 256};
  float h[256];
  for (int i = 0; i < 256; ++i) h[i] = i;
  if (hipMalloc(&task.data, sizeof(h)) != hipSuccess) return 1;
  if (hipMemcpy(task.data, h, sizeof(h), hipMemcpyHostToDevice) != hipSuccess) return 1;
  launchScale(task, 2.0f);
  launchShift(task, 5.0f);
  if (hipMemcpy(h, task.data, sizeof(h), hipMemcpyDeviceToHost) != hipSuccess) return 1;
  printf("%.1f %.1f\n", h[0], h[255]);
  return 0;
}
