// The API's copy and memset calls, implemented with copy.h.
#include "array.h"

using namespace hipsynth::runtime;

namespace {

hipError_t copy_call(void* dst, const void* src, size_t bytes, hipMemcpyKind kind, hipStream_t stream) {
  return call([&](Runtime& rt) { return copy(rt, dst, src, bytes, kind, stream); });
}

hipError_t copy_2d(void* dst, size_t dst_pitch, const void* src, size_t src_pitch, size_t width, size_t height,
                   hipMemcpyKind kind, hipStream_t stream) {
  return call([&](Runtime& rt) -> hipError_t {
    if (width > dst_pitch || width > src_pitch) return hipErrorInvalidPitchValue;
    return copy_block(rt, {dst, dst_pitch, 0}, {src, src_pitch, 0}, {width, height, 1}, kind, stream);
  });
}

// One side of a driver-style copy.
struct Side {
  hipMemoryType type;
  const void *host, *device;
  const hipArray* array;
  size_t pitch, height, x, y, z;
};

// Start address of the block on that side; null base if its array is unknown or too small.
Place place_of(const Side& s, const Block& block) {
  if (s.array != nullptr || s.type == hipMemoryTypeArray) {
    return known(s.array) ? place_in(*s.array, s.x, s.y, s.z, block) : Place{};
  }
  const void* base = s.type == hipMemoryTypeHost ? s.host : s.device;
  if (base == nullptr) return {};
  const size_t slice = s.pitch * s.height;
  return {static_cast<const char*>(base) + s.z * slice + s.y * s.pitch + s.x, s.pitch, slice};
}

hipError_t copy_sides(const Side& dst, const Side& src, const Block& block, hipMemcpyKind kind, hipStream_t stream) {
  return call([&](Runtime& rt) -> hipError_t {
    if (rt.stream(stream) == nullptr) return hipErrorContextIsDestroyed;
    if (block.width == 0 || block.height == 0 || block.depth == 0) return hipSuccess;
    const Place to = place_of(dst, block), from = place_of(src, block);
    if (to.base == nullptr || from.base == nullptr) return hipErrorInvalidValue;
    return copy_block(rt, to, from, block, kind, stream);
  });
}

// The extent and a position in an array are in elements, without an array in bytes, as a position in other memory is.
hipError_t copy_3d(const hipMemcpy3DParms* p, hipStream_t stream) {
  return call([&](Runtime&) -> hipError_t {
    if (p == nullptr) return hipErrorInvalidValue;
    size_t unit = 1;
    for (const hipArray* array : {p->srcArray, p->dstArray}) {
      if (array != nullptr && !known(array)) return hipErrorInvalidHandle;
      if (array != nullptr) unit = array->element();
    }
    const auto side = [&](const hipPitchedPtr& ptr, const hipArray* array, const hipPos& at) {
      const size_t x = array != nullptr ? at.x * array->element() : at.x;
      return Side{hipMemoryTypeDevice, nullptr, ptr.ptr, array, ptr.pitch, ptr.ysize, x, at.y, at.z};
    };
    return copy_sides(side(p->dstPtr, p->dstArray, p->dstPos), side(p->srcPtr, p->srcArray, p->srcPos),
                      {saturating_product(p->extent.width, unit), p->extent.height, p->extent.depth}, p->kind, stream);
  });
}

hipError_t copy_param_2d(const hip_Memcpy2D* p, hipStream_t stream) {
  if (p == nullptr) return finish(hipErrorInvalidValue);
  return copy_sides(
      {p->dstMemoryType, p->dstHost, p->dstDevice, p->dstArray, p->dstPitch, 0, p->dstXInBytes, p->dstY, 0},
      {p->srcMemoryType, p->srcHost, p->srcDevice, p->srcArray, p->srcPitch, 0, p->srcXInBytes, p->srcY, 0},
      {p->WidthInBytes, p->Height, 1}, hipMemcpyDefault, stream);
}

hipError_t copy_param_3d(const HIP_MEMCPY3D* p, hipStream_t stream) {
  if (p == nullptr) return finish(hipErrorInvalidValue);
  return copy_sides({p->dstMemoryType, p->dstHost, p->dstDevice, p->dstArray, p->dstPitch, p->dstHeight, p->dstXInBytes,
                     p->dstY, p->dstZ},
                    {p->srcMemoryType, p->srcHost, p->srcDevice, p->srcArray, p->srcPitch, p->srcHeight, p->srcXInBytes,
                     p->srcY, p->srcZ},
                    {p->WidthInBytes, p->Height, p->Depth}, hipMemcpyDefault, stream);
}

hipError_t fill(void* dst, uint32_t value, unsigned element, size_t count, hipStream_t stream) {
  return call([&](Runtime& rt) -> hipError_t {
    if (count > SIZE_MAX / element) return hipErrorInvalidValue;
    return fill_block(rt, {dst, count * element, 0}, value, element, {count * element, 1, 1}, stream);
  });
}

hipError_t fill_2d(void* dst, size_t pitch, uint32_t value, unsigned element, size_t width, size_t height,
                   hipStream_t stream) {
  return call([&](Runtime& rt) -> hipError_t {
    if (width > SIZE_MAX / element) return hipErrorInvalidValue;
    return fill_block(rt, {dst, pitch, 0}, value, element, {width * element, height, 1}, stream);
  });
}

hipError_t fill_3d(hipPitchedPtr p, int value, hipExtent e, hipStream_t stream) {
  return call([&](Runtime& rt) {
    return fill_block(rt, {p.ptr, p.pitch, p.pitch * p.ysize}, static_cast<uint32_t>(value), 1,
                      {e.width, e.height, e.depth}, stream);
  });
}

uint32_t bits(int value) { return static_cast<uint32_t>(value); }

}  // namespace

HIPSYNTH_EXPORT hipError_t hipMemcpy(void* dst, const void* src, size_t n, hipMemcpyKind kind) {
  return synchronous([&] { return copy_call(dst, src, n, kind, nullptr); });
}
HIPSYNTH_EXPORT hipError_t hipMemcpyAsync(void* dst, const void* src, size_t n, hipMemcpyKind kind, hipStream_t s) {
  return copy_call(dst, src, n, kind, s);
}
HIPSYNTH_EXPORT hipError_t hipMemcpyWithStream(void* dst, const void* src, size_t n, hipMemcpyKind kind,
                                               hipStream_t s) {
  return call([&](Runtime& rt) {
    const hipError_t error = copy(rt, dst, src, n, kind, s);
    return error == hipSuccess ? rt.complete_stream(*rt.stream(s)) : error;
  });
}
HIPSYNTH_EXPORT hipError_t hipMemcpyHtoD(void* dst, const void* src, size_t n) {
  return synchronous([&] { return copy_call(dst, src, n, hipMemcpyHostToDevice, nullptr); });
}
HIPSYNTH_EXPORT hipError_t hipMemcpyDtoH(void* dst, void* src, size_t n) {
  return synchronous([&] { return copy_call(dst, src, n, hipMemcpyDeviceToHost, nullptr); });
}
HIPSYNTH_EXPORT hipError_t hipMemcpyDtoD(void* dst, void* src, size_t n) {
  return synchronous([&] { return copy_call(dst, src, n, hipMemcpyDeviceToDevice, nullptr); });
}
HIPSYNTH_EXPORT hipError_t hipMemcpyHtoDAsync(void* dst, const void* src, size_t n, hipStream_t s) {
  return copy_call(dst, src, n, hipMemcpyHostToDevice, s);
}
HIPSYNTH_EXPORT hipError_t hipMemcpyDtoHAsync(void* dst, void* src, size_t n, hipStream_t s) {
  return copy_call(dst, src, n, hipMemcpyDeviceToHost, s);
}
HIPSYNTH_EXPORT hipError_t hipMemcpyDtoDAsync(void* dst, void* src, size_t n, hipStream_t s) {
  return copy_call(dst, src, n, hipMemcpyDeviceToDevice, s);
}
HIPSYNTH_EXPORT hipError_t hipMemcpyPeer(void* dst, int dst_device, const void* src, int src_device, size_t n) {
  if (dst_device != 0 || src_device != 0) return finish(hipErrorInvalidDevice);
  return synchronous([&] { return copy_call(dst, src, n, hipMemcpyDeviceToDevice, nullptr); });
}
HIPSYNTH_EXPORT hipError_t hipMemcpyPeerAsync(void* dst, int dst_device, const void* src, int src_device, size_t n,
                                              hipStream_t s) {
  if (dst_device != 0 || src_device != 0) return finish(hipErrorInvalidDevice);
  return copy_call(dst, src, n, hipMemcpyDeviceToDevice, s);
}
HIPSYNTH_EXPORT hipError_t hipMemcpy2D(void* dst, size_t dst_pitch, const void* src, size_t src_pitch, size_t width,
                                       size_t height, hipMemcpyKind kind) {
  return synchronous([&] { return copy_2d(dst, dst_pitch, src, src_pitch, width, height, kind, nullptr); });
}
HIPSYNTH_EXPORT hipError_t hipMemcpy2DAsync(void* dst, size_t dst_pitch, const void* src, size_t src_pitch,
                                            size_t width, size_t height, hipMemcpyKind kind, hipStream_t s) {
  return copy_2d(dst, dst_pitch, src, src_pitch, width, height, kind, s);
}
HIPSYNTH_EXPORT hipError_t hipMemcpyParam2D(const hip_Memcpy2D* p) {
  return synchronous([&] { return copy_param_2d(p, nullptr); });
}
HIPSYNTH_EXPORT hipError_t hipMemcpyParam2DAsync(const hip_Memcpy2D* p, hipStream_t s) { return copy_param_2d(p, s); }
HIPSYNTH_EXPORT hipError_t hipMemcpy3D(const hipMemcpy3DParms* p) {
  return synchronous([&] { return copy_3d(p, nullptr); });
}
HIPSYNTH_EXPORT hipError_t hipMemcpy3DAsync(const hipMemcpy3DParms* p, hipStream_t s) { return copy_3d(p, s); }

HIPSYNTH_EXPORT hipError_t hipDrvMemcpy2DUnaligned(const hip_Memcpy2D* p) {
  return synchronous([&] { return copy_param_2d(p, nullptr); });
}
HIPSYNTH_EXPORT hipError_t hipDrvMemcpy3D(const HIP_MEMCPY3D* p) {
  return synchronous([&] { return copy_param_3d(p, nullptr); });
}
HIPSYNTH_EXPORT hipError_t hipDrvMemcpy3DAsync(const HIP_MEMCPY3D* p, hipStream_t s) { return copy_param_3d(p, s); }

HIPSYNTH_EXPORT hipError_t hipMemset(void* dst, int value, size_t n) {
  return synchronous([&] { return fill(dst, bits(value), 1, n, nullptr); });
}
HIPSYNTH_EXPORT hipError_t hipMemsetAsync(void* dst, int value, size_t n, hipStream_t s) {
  return fill(dst, bits(value), 1, n, s);
}
HIPSYNTH_EXPORT hipError_t hipMemsetD8(void* dst, unsigned char value, size_t n) {
  return synchronous([&] { return fill(dst, value, 1, n, nullptr); });
}
HIPSYNTH_EXPORT hipError_t hipMemsetD8Async(void* dst, unsigned char value, size_t n, hipStream_t s) {
  return fill(dst, value, 1, n, s);
}
HIPSYNTH_EXPORT hipError_t hipMemsetD16(void* dst, unsigned short value, size_t n) {
  return synchronous([&] { return fill(dst, value, 2, n, nullptr); });
}
HIPSYNTH_EXPORT hipError_t hipMemsetD16Async(void* dst, unsigned short value, size_t n, hipStream_t s) {
  return fill(dst, value, 2, n, s);
}
HIPSYNTH_EXPORT hipError_t hipMemsetD32(void* dst, int value, size_t n) {
  return synchronous([&] { return fill(dst, bits(value), 4, n, nullptr); });
}
HIPSYNTH_EXPORT hipError_t hipMemsetD32Async(void* dst, int value, size_t n, hipStream_t s) {
  return fill(dst, bits(value), 4, n, s);
}
HIPSYNTH_EXPORT hipError_t hipMemset2D(void* dst, size_t pitch, int value, size_t width, size_t height) {
  return synchronous([&] { return fill_2d(dst, pitch, bits(value), 1, width, height, nullptr); });
}
HIPSYNTH_EXPORT hipError_t hipMemset2DAsync(void* dst, size_t pitch, int value, size_t width, size_t height,
                                            hipStream_t s) {
  return fill_2d(dst, pitch, bits(value), 1, width, height, s);
}
HIPSYNTH_EXPORT hipError_t hipMemset3D(hipPitchedPtr p, int value, hipExtent e) {
  return synchronous([&] { return fill_3d(p, value, e, nullptr); });
}
HIPSYNTH_EXPORT hipError_t hipMemset3DAsync(hipPitchedPtr p, int value, hipExtent e, hipStream_t s) {
  return fill_3d(p, value, e, s);
}
HIPSYNTH_EXPORT hipError_t hipMemsetD2D8(void* dst, size_t pitch, unsigned char value, size_t width, size_t height) {
  return synchronous([&] { return fill_2d(dst, pitch, value, 1, width, height, nullptr); });
}
HIPSYNTH_EXPORT hipError_t hipMemsetD2D8Async(void* dst, size_t pitch, unsigned char value, size_t width, size_t height,
                                              hipStream_t s) {
  return fill_2d(dst, pitch, value, 1, width, height, s);
}
HIPSYNTH_EXPORT hipError_t hipMemsetD2D16(void* dst, size_t pitch, unsigned short value, size_t width, size_t height) {
  return synchronous([&] { return fill_2d(dst, pitch, value, 2, width, height, nullptr); });
}
HIPSYNTH_EXPORT hipError_t hipMemsetD2D16Async(void* dst, size_t pitch, unsigned short value, size_t width,
                                               size_t height, hipStream_t s) {
  return fill_2d(dst, pitch, value, 2, width, height, s);
}
HIPSYNTH_EXPORT hipError_t hipMemsetD2D32(void* dst, size_t pitch, unsigned value, size_t width, size_t height) {
  return synchronous([&] { return fill_2d(dst, pitch, value, 4, width, height, nullptr); });
}
HIPSYNTH_EXPORT hipError_t hipMemsetD2D32Async(void* dst, size_t pitch, unsigned value, size_t width, size_t height,
                                               hipStream_t s) {
  return fill_2d(dst, pitch, value, 4, width, height, s);
}
