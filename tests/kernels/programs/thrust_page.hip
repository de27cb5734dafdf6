// A container's memory is whole pages, as on hardware: the rest of the last page may be touched, the next page not.
#include "check.h"

#include <thrust/device_vector.h>

__global__ void touch(float* data, int at) { data[at] += 1.0f; }

int main(int argc, char** argv) {
  thrust::device_vector<float> data(1000, 1.0f);
  touch<<<1, 1>>>(data.data().get(), argc > 1 ? std::atoi(argv[1]) : 1023);
  OK(hipDeviceSynchronize());
  CHECK(data[999] == 1.0f);
  std::printf("page ok\n");
}
