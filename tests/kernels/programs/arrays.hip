// Arrays: what copies put in comes out again, by rows, boxes and runs of bytes; descriptors and bounds.
#include <cstring>

#include "check.h"

static void rows() {
  float host[6][8], back[6][8] = {};
  for (int i = 0; i < 48; ++i) host[i / 8][i % 8] = 0.5f * i;
  hipChannelFormatDesc channels = hipCreateChannelDesc<float>(), found;
  hipExtent extent;
  unsigned flags;
  hipArray_t array, other;
  OK(hipMallocArray(&array, &channels, 8, 6));
  OK(hipMallocArray(&other, &channels, 8, 6));
  OK(hipArrayGetInfo(&found, &extent, &flags, array));
  CHECK(found.x == 32 && found.y == 0 && found.f == hipChannelFormatKindFloat);
  CHECK(extent.width == 8 && extent.height == 6 && extent.depth == 0 && flags == hipArrayDefault);
  OK(hipMemcpy2DToArray(array, 0, 0, host, sizeof host[0], sizeof host[0], 6, hipMemcpyHostToDevice));
  OK(hipMemcpy2DArrayToArray(other, 0, 0, array, 0, 0, sizeof host[0], 6, hipMemcpyDeviceToDevice));
  OK(hipMemcpy2DFromArray(back, sizeof back[0], other, 0, 0, sizeof back[0], 6, hipMemcpyDeviceToHost));
  CHECK(std::memcmp(host, back, sizeof host) == 0);
  OK(hipMemcpy2DFromArray(back, sizeof back[0], array, 4, 5, 8, 1, hipMemcpyDeviceToHost));
  CHECK(back[0][0] == host[5][1] && back[0][1] == host[5][2]);
  FAILS(hipMemcpy2DToArray(array, 4, 0, host, sizeof host[0], sizeof host[0], 6, hipMemcpyHostToDevice),
        hipErrorInvalidValue);
  FAILS(hipMemcpy2DToArray(array, 0, 1, host, sizeof host[0], sizeof host[0], 6, hipMemcpyHostToDevice),
        hipErrorInvalidValue);
  OK(hipMemcpyFromArray(back, array, 0, 2, 16, hipMemcpyDeviceToHost));
  CHECK(back[0][3] == host[2][3]);
  OK(hipFreeArray(array));
  FAILS(hipFreeArray(array), hipErrorContextIsDestroyed);
  FAILS(hipMemcpyToArray(array, 0, 0, host, 4, hipMemcpyHostToDevice), hipErrorInvalidHandle);
  OK(hipFreeArray(other));
  channels.f = hipChannelFormatKindNone;
  FAILS(hipMallocArray(&array, &channels, 8, 6), hipErrorInvalidValue);
}

static void boxes() {
  short host[3][4][2], back[3][4][2] = {};
  for (int i = 0; i < 24; ++i) host[i / 8][i / 2 % 4][i % 2] = (short)i;
  hipArray_t array;
  HIP_ARRAY3D_DESCRIPTOR shape = {4, 3, 1, HIP_AD_FORMAT_SIGNED_INT16, 2, 0}, found;
  OK(hipArray3DCreate(&array, &shape));
  OK(hipArray3DGetDescriptor(&found, array));
  CHECK(found.Width == shape.Width && found.Height == shape.Height && found.Depth == shape.Depth);
  CHECK(found.Format == shape.Format && found.NumChannels == shape.NumChannels && found.Flags == shape.Flags);
  hipMemcpy3DParms p = {};
  p.srcPtr = make_hipPitchedPtr(host, sizeof host[0], 4, 3);
  p.dstArray = array;
  p.extent = make_hipExtent(4, 3, 1);
  p.kind = hipMemcpyHostToDevice;
  OK(hipMemcpy3D(&p));
  hipMemcpy3DParms q = {};
  q.srcArray = array;
  q.srcPos = make_hipPos(1, 1, 0);
  q.dstPtr = make_hipPitchedPtr(back, sizeof back[0], 4, 3);
  q.extent = make_hipExtent(3, 2, 1);
  q.kind = hipMemcpyDeviceToHost;
  OK(hipMemcpy3D(&q));
  CHECK(back[0][0][0] == host[1][1][0] && back[1][2][1] == host[2][3][1] && back[0][3][0] == 0);
  // Beside an array, a position in other memory is in bytes: one element to the right.
  q.dstPos = make_hipPos(sizeof back[0][0], 2, 0);
  q.extent = make_hipExtent(2, 1, 1);
  OK(hipMemcpy3D(&q));
  CHECK(back[2][0][0] == 0 && back[2][1][0] == host[1][1][0] && back[2][2][1] == host[1][2][1] && back[2][3][0] == 0);
  q.extent.width = (SIZE_MAX >> 2) + 2;  // 4 bytes, if it wraps
  FAILS(hipMemcpy3D(&q), hipErrorInvalidValue);
  OK(hipArrayDestroy(array));
}

// An image's descriptor holds no larger ones.
static void limits() {
  hipArray_t array;
  const hipChannelFormatDesc channels = hipCreateChannelDesc<unsigned char>();
  FAILS(hipMallocArray(&array, &channels, 16385, 1), hipErrorInvalidValue);
  FAILS(hipMallocArray(&array, &channels, 1, 16385), hipErrorInvalidValue);
  FAILS(hipMalloc3DArray(&array, &channels, make_hipExtent(1, 1, 8193), 0), hipErrorInvalidValue);
  OK(hipMallocArray(&array, &channels, 16384, 1));
  OK(hipFreeArray(array));
}

int main() {
  rows();
  boxes();
  limits();
  std::printf("arrays ok\n");
  return 0;
}
