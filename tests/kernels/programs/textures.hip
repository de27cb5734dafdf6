// Textures and surfaces where the device has image instructions, and what is said where it has none.
#include <cmath>

#include "check.h"

constexpr int kWidth = 16, kHeight = 8;

#if !defined(__HIP_NO_IMAGE_SUPPORT)
#define IMAGES(code) code
#else
#define IMAGES(code)
#endif

__global__ void sample(hipTextureObject_t t, float* out, float dx, float dy) {
  int x = threadIdx.x, y = threadIdx.y;
  IMAGES(out[y * kWidth + x] = tex2D<float>(t, x + dx, y + dy);)
}

__global__ void fetch(hipTextureObject_t t, float4* out) {
  IMAGES(out[threadIdx.x] = tex1Dfetch<float4>(t, threadIdx.x);)
}

__global__ void invert(hipSurfaceObject_t from, hipSurfaceObject_t to) {
  int x = threadIdx.x, y = threadIdx.y;
  IMAGES(uchar4 v; surf2Dread(&v, from, x * 4, y); surf2Dwrite(make_uchar4(255 - v.x, v.y, v.z, 7), to, x * 4, y);)
}

static bool images;

static hipResourceDesc of(hipArray_t array) {
  hipResourceDesc resource = {};
  resource.resType = hipResourceTypeArray;
  resource.res.array.array = array;
  return resource;
}

static float texel(int x, int y) { return 10.0f * y + x; }

static void planes() {
  float host[kHeight][kWidth], back[kHeight][kWidth], *out;
  for (int y = 0; y < kHeight; ++y) {
    for (int x = 0; x < kWidth; ++x) host[y][x] = texel(x, y);
  }
  hipChannelFormatDesc channels = hipCreateChannelDesc<float>();
  hipArray_t array;
  OK(hipMalloc(&out, sizeof host));
  OK(hipMallocArray(&array, &channels, kWidth, kHeight));
  OK(hipMemcpy2DToArray(array, 0, 0, host, sizeof host[0], sizeof host[0], kHeight, hipMemcpyHostToDevice));
  hipResourceDesc resource = of(array);
  hipTextureDesc texture = {};
  texture.addressMode[0] = texture.addressMode[1] = hipAddressModeClamp;
  texture.filterMode = hipFilterModeLinear;
  hipTextureObject_t object;
  FAILS(hipCreateTextureObject(&object, nullptr, &texture, nullptr), hipErrorInvalidValue);
  if (!images) {
    FAILS(hipCreateTextureObject(&object, &resource, &texture, nullptr), hipErrorNotSupported);
    return;
  }
  OK(hipCreateTextureObject(&object, &resource, &texture, nullptr));
  sample<<<1, dim3(kWidth, kHeight)>>>(object, out, 0.75f, 0.5f);  // a quarter of the way to the next column
  OK(hipMemcpy(back, out, sizeof back, hipMemcpyDeviceToHost));
  for (int y = 0; y < kHeight; ++y) {
    for (int x = 0; x < kWidth; ++x) {
      float wanted = x + 1 < kWidth ? 0.75f * texel(x, y) + 0.25f * texel(x + 1, y) : texel(x, y);
      CHECK(std::fabs(back[y][x] - wanted) < 1e-4f);
    }
  }
  OK(hipDestroyTextureObject(object));
  FAILS(hipDestroyTextureObject(object), hipErrorInvalidValue);
  texture.filterMode = hipFilterModePoint;
  OK(hipCreateTextureObject(&object, &resource, &texture, nullptr));
  sample<<<1, dim3(kWidth, kHeight)>>>(object, out, -1.5f, 0.5f);  // two columns to the left, clamped
  OK(hipMemcpy(back, out, sizeof back, hipMemcpyDeviceToHost));
  for (int x = 0; x < kWidth; ++x) CHECK(back[3][x] == texel(x < 2 ? 0 : x - 2, 3));
  OK(hipDestroyTextureObject(object));
  OK(hipFreeArray(array));
}

static void linear() {
  float4 host[64], back[64], *data, *out;
  for (int i = 0; i < 64; ++i) host[i] = make_float4(i, i + 0.25f, i + 0.5f, -i);
  OK(hipMalloc(&data, sizeof host));
  OK(hipMalloc(&out, sizeof host));
  OK(hipMemcpy(data, host, sizeof host, hipMemcpyHostToDevice));
  hipResourceDesc resource = {};
  resource.resType = hipResourceTypeLinear;
  resource.res.linear.devPtr = data;
  resource.res.linear.desc = hipCreateChannelDesc<float4>();
  resource.res.linear.sizeInBytes = 60 * sizeof(float4);
  hipTextureDesc texture = {};
  hipTextureObject_t object;
  OK(hipCreateTextureObject(&object, &resource, &texture, nullptr));
  fetch<<<1, 64>>>(object, out);
  OK(hipMemcpy(back, out, sizeof back, hipMemcpyDeviceToHost));
  for (int i = 0; i < 60; ++i) CHECK(back[i].x == i && back[i].y == i + 0.25f && back[i].w == -i);
  CHECK(back[60].x == 0 && back[63].w == 0);  // beyond the end
  OK(hipDestroyTextureObject(object));
}

static void too_wide() {
  void* data;
  OK(hipMalloc(&data, 2 * 65792));
  hipTextureDesc texture = {};
  hipTextureObject_t object;
  hipResourceDesc resource = {};
  resource.resType = hipResourceTypePitch2D;
  auto& image = resource.res.pitch2D;
  image = {data, hipCreateChannelDesc<unsigned char>(), 16384, 2, 65536};
  OK(hipCreateTextureObject(&object, &resource, &texture, nullptr));
  OK(hipDestroyTextureObject(object));
  image.width = 16385;
  FAILS(hipCreateTextureObject(&object, &resource, &texture, nullptr), hipErrorInvalidValue);
  image.width = 16, image.pitchInBytes = 65792;
  FAILS(hipCreateTextureObject(&object, &resource, &texture, nullptr), hipErrorInvalidValue);
}

static void written() {
  uchar4 host[kHeight][kWidth], back[kHeight][kWidth];
  for (int i = 0; i < kWidth * kHeight; ++i) host[i / kWidth][i % kWidth] = make_uchar4(i, i + 1, i + 2, 3);
  hipChannelFormatDesc channels = hipCreateChannelDesc<uchar4>();
  hipArray_t from, to;
  OK(hipMallocArray(&from, &channels, kWidth, kHeight, hipArraySurfaceLoadStore));
  OK(hipMallocArray(&to, &channels, kWidth, kHeight, hipArraySurfaceLoadStore));
  OK(hipMemcpy2DToArray(from, 0, 0, host, sizeof host[0], sizeof host[0], kHeight, hipMemcpyHostToDevice));
  hipSurfaceObject_t in, out;
  hipResourceDesc source = of(from), target = of(to);
  OK(hipCreateSurfaceObject(&in, &source));
  OK(hipCreateSurfaceObject(&out, &target));
  invert<<<1, dim3(kWidth, kHeight)>>>(in, out);
  OK(hipMemcpy2DFromArray(back, sizeof back[0], to, 0, 0, sizeof back[0], kHeight, hipMemcpyDeviceToHost));
  for (int i = 0; i < kWidth * kHeight; ++i) {
    uchar4 v = back[i / kWidth][i % kWidth];
    CHECK(v.x == 255 - i && v.y == i + 1 && v.w == 7);
  }
  OK(hipDestroySurfaceObject(in));
  OK(hipDestroySurfaceObject(out));
}

int main() {
  int support = 0;
  OK(hipDeviceGetAttribute(&support, hipDeviceAttributeImageSupport, 0));
  images = support != 0;
  planes();
  if (images) {
    linear();
    too_wide();
    written();
  }
  std::printf("textures ok, images %s\n", images ? "yes" : "no");
  return 0;
}
