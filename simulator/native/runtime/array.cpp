#include "array.h"

namespace hipsynth::runtime {
namespace {

std::set<const hipArray*>& arrays() {
  static std::set<const hipArray*> table;
  return table;
}

// Formats of the driver's array descriptors (hipArray_Format).
struct Format {
  unsigned number;
  int bits;
  hipChannelFormatKind kind;
};
constexpr Format kFormats[] = {
    {0x01, 8, hipChannelFormatKindUnsigned},  {0x02, 16, hipChannelFormatKindUnsigned},
    {0x03, 32, hipChannelFormatKindUnsigned}, {0x08, 8, hipChannelFormatKindSigned},
    {0x09, 16, hipChannelFormatKindSigned},   {0x0a, 32, hipChannelFormatKindSigned},
    {0x10, 16, hipChannelFormatKindFloat},    {0x20, 32, hipChannelFormatKindFloat},
};

unsigned format_of(const hipChannelFormatDesc& c) {
  for (const Format& f : kFormats) {
    if (f.bits == c.x && f.kind == c.f) return f.number;
  }
  return 0;
}

unsigned count_channels(const hipChannelFormatDesc& c) {
  return (c.x > 0 ? 1u : 0u) + (c.y > 0 ? 1u : 0u) + (c.z > 0 ? 1u : 0u) + (c.w > 0 ? 1u : 0u);
}

// One, two or four channels, all of the same size.
bool usable(const hipChannelFormatDesc& c) {
  const unsigned n = count_channels(c);
  if (format_of(c) == 0 || n == 0 || n == 3) return false;
  for (int bits : {c.y, c.z, c.w}) {
    if (bits != 0 && bits != c.x) return false;
  }
  return true;
}

hipError_t create(hipArray_t* out, const hipChannelFormatDesc& channels, hipExtent extent, unsigned flags) {
  return call([&](Runtime& rt) -> hipError_t {
    if (out == nullptr || extent.width == 0 || (extent.height == 0 && extent.depth != 0)) return hipErrorInvalidValue;
    if (!usable(channels)) return hipErrorInvalidValue;
    if (extent.width > kMostImageWidth || extent.height > kMostImageHeight || extent.depth > kMostImageDepth)
      return hipErrorInvalidValue;
    if (hipError_t error = check_unsafe(rt); error != hipSuccess) return error;
    auto array =
        std::make_unique<hipArray>(hipArray{channels, extent.width, extent.height, extent.depth, flags, nullptr});
    array->data = rt.memory().allocate(array->bytes(), Memory::Kind::device);
    arrays().insert(array.get());
    *out = array.release();
    return hipSuccess;
  });
}

hipError_t destroy(hipArray_t array) {
  return call([&](Runtime& rt) -> hipError_t {
    if (hipError_t error = check_unsafe(rt); error != hipSuccess) return error;
    rt.complete_all();
    if (arrays().erase(array) == 0) return hipErrorContextIsDestroyed;
    rt.memory().release(array->data);
    delete array;
    return hipSuccess;
  });
}

// Channel description of a driver-style descriptor; no channels when its format is unknown.
hipChannelFormatDesc channels_of(unsigned format, unsigned count) {
  for (const Format& f : kFormats) {
    if (f.number != format || count > 4) continue;
    const auto bits = [&](unsigned channel) { return channel < count ? f.bits : 0; };
    return {bits(0), bits(1), bits(2), bits(3), f.kind};
  }
  return {0, 0, 0, 0, hipChannelFormatKindNone};
}

// Copies between a block at byte `x` of row `y` of an array and linear memory.
hipError_t copy_to(hipArray_t array, size_t x, size_t y, const void* src, size_t pitch, Block block, hipMemcpyKind kind,
                   hipStream_t stream) {
  return call([&](Runtime& rt) -> hipError_t {
    if (!known(array)) return hipErrorInvalidHandle;
    const Place to = place_in(*array, x, y, 0, block);
    if (to.base == nullptr) return hipErrorInvalidValue;
    return copy_block(rt, to, {src, pitch, 0}, block, kind, stream);
  });
}

hipError_t copy_from(void* dst, size_t pitch, const hipArray* array, size_t x, size_t y, Block block,
                     hipMemcpyKind kind, hipStream_t stream) {
  return call([&](Runtime& rt) -> hipError_t {
    if (!known(array)) return hipErrorInvalidHandle;
    const Place from = place_in(*array, x, y, 0, block);
    if (from.base == nullptr) return hipErrorInvalidValue;
    return copy_block(rt, {dst, pitch, 0}, from, block, kind, stream);
  });
}

// Copies consecutive bytes of an array; the range may continue over row ends.
hipError_t copy_run(hipArray_t array, size_t offset, void* other, size_t bytes, bool to_array, hipMemcpyKind kind,
                    hipStream_t stream) {
  return call([&](Runtime& rt) -> hipError_t {
    if (!known(array)) return hipErrorInvalidHandle;
    const size_t size = array->bytes();
    if (offset > size || bytes > size - offset) return hipErrorInvalidValue;
    char* at = static_cast<char*>(array->data) + offset;
    return to_array ? copy(rt, at, other, bytes, kind, stream) : copy(rt, other, at, bytes, kind, stream);
  });
}

size_t run_offset(const hipArray* array, size_t x, size_t y) { return known(array) ? y * array->pitch() + x : 0; }

}  // namespace

bool known(const hipArray* array) { return arrays().contains(array); }

Place place_in(const hipArray& a, size_t x, size_t y, size_t z, const Block& block) {
  const auto fits = [](size_t at, size_t size, size_t all) { return at <= all && size <= all - at; };
  if (!fits(x, block.width, a.pitch()) || !fits(y, block.height, a.rows()) || !fits(z, block.depth, a.slices())) {
    return {};
  }
  const size_t slice = a.pitch() * a.rows();
  return {static_cast<char*>(a.data) + z * slice + y * a.pitch() + x, a.pitch(), slice};
}

void forget_arrays() {
  for (const hipArray* array : arrays()) delete array;
  arrays().clear();
}

}  // namespace hipsynth::runtime

using namespace hipsynth::runtime;

HIPSYNTH_EXPORT hipChannelFormatDesc hipCreateChannelDesc(int x, int y, int z, int w, hipChannelFormatKind kind) {
  return {x, y, z, w, kind};
}

HIPSYNTH_EXPORT hipError_t hipMallocArray(hipArray_t* out, const hipChannelFormatDesc* channels, size_t width,
                                          size_t height, unsigned flags) {
  if (channels == nullptr) return finish(hipErrorInvalidValue);
  return create(out, *channels, {width, height, 0}, flags);
}
HIPSYNTH_EXPORT hipError_t hipMalloc3DArray(hipArray_t* out, const hipChannelFormatDesc* channels, hipExtent extent,
                                            unsigned flags) {
  if (channels == nullptr) return finish(hipErrorInvalidValue);
  return create(out, *channels, extent, flags);
}
HIPSYNTH_EXPORT hipError_t hipArrayCreate(hipArray_t* out, const HIP_ARRAY_DESCRIPTOR* d) {
  if (d == nullptr) return finish(hipErrorInvalidValue);
  return create(out, channels_of(d->Format, d->NumChannels), {d->Width, d->Height, 0}, 0);
}
HIPSYNTH_EXPORT hipError_t hipArray3DCreate(hipArray_t* out, const HIP_ARRAY3D_DESCRIPTOR* d) {
  if (d == nullptr) return finish(hipErrorInvalidValue);
  return create(out, channels_of(d->Format, d->NumChannels), {d->Width, d->Height, d->Depth}, d->Flags);
}
HIPSYNTH_EXPORT hipError_t hipFreeArray(hipArray_t array) {
  return array == nullptr ? finish(hipErrorInvalidValue) : destroy(array);
}
HIPSYNTH_EXPORT hipError_t hipArrayDestroy(hipArray_t array) { return hipFreeArray(array); }

HIPSYNTH_EXPORT hipError_t hipGetChannelDesc(hipChannelFormatDesc* out, const hipArray* array) {
  return call([&](Runtime&) -> hipError_t {
    if (out == nullptr || !known(array)) return hipErrorInvalidValue;
    *out = array->channels;
    return hipSuccess;
  });
}
HIPSYNTH_EXPORT hipError_t hipArrayGetInfo(hipChannelFormatDesc* channels, hipExtent* extent, unsigned* flags,
                                           hipArray_t array) {
  return call([&](Runtime&) -> hipError_t {
    if (!known(array)) return hipErrorInvalidHandle;
    if (channels != nullptr) *channels = array->channels;
    if (extent != nullptr) *extent = {array->width, array->height, array->depth};
    if (flags != nullptr) *flags = array->flags;
    return hipSuccess;
  });
}
HIPSYNTH_EXPORT hipError_t hipArrayGetDescriptor(HIP_ARRAY_DESCRIPTOR* out, hipArray_t array) {
  return call([&](Runtime&) -> hipError_t {
    if (out == nullptr) return hipErrorInvalidValue;
    if (!known(array)) return hipErrorInvalidHandle;
    *out = {array->width, array->height, format_of(array->channels), count_channels(array->channels)};
    return hipSuccess;
  });
}
HIPSYNTH_EXPORT hipError_t hipArray3DGetDescriptor(HIP_ARRAY3D_DESCRIPTOR* out, hipArray_t array) {
  return call([&](Runtime&) -> hipError_t {
    if (out == nullptr) return hipErrorInvalidValue;
    if (!known(array)) return hipErrorInvalidHandle;
    *out = {array->width, array->height, array->depth, format_of(array->channels), count_channels(array->channels),
            array->flags};
    return hipSuccess;
  });
}

HIPSYNTH_EXPORT hipError_t hipMemcpy2DToArray(hipArray_t dst, size_t x, size_t y, const void* src, size_t pitch,
                                              size_t width, size_t height, hipMemcpyKind kind) {
  return synchronous([&] { return copy_to(dst, x, y, src, pitch, {width, height, 1}, kind, nullptr); });
}
HIPSYNTH_EXPORT hipError_t hipMemcpy2DToArrayAsync(hipArray_t dst, size_t x, size_t y, const void* src, size_t pitch,
                                                   size_t width, size_t height, hipMemcpyKind kind, hipStream_t s) {
  return copy_to(dst, x, y, src, pitch, {width, height, 1}, kind, s);
}
HIPSYNTH_EXPORT hipError_t hipMemcpy2DFromArray(void* dst, size_t pitch, const hipArray* src, size_t x, size_t y,
                                                size_t width, size_t height, hipMemcpyKind kind) {
  return synchronous([&] { return copy_from(dst, pitch, src, x, y, {width, height, 1}, kind, nullptr); });
}
HIPSYNTH_EXPORT hipError_t hipMemcpy2DFromArrayAsync(void* dst, size_t pitch, const hipArray* src, size_t x, size_t y,
                                                     size_t width, size_t height, hipMemcpyKind kind, hipStream_t s) {
  return copy_from(dst, pitch, src, x, y, {width, height, 1}, kind, s);
}
HIPSYNTH_EXPORT hipError_t hipMemcpy2DArrayToArray(hipArray_t dst, size_t x, size_t y, const hipArray* src,
                                                   size_t from_x, size_t from_y, size_t width, size_t height,
                                                   hipMemcpyKind kind) {
  return synchronous([&]() -> hipError_t {
    if (!known(dst) || !known(src)) return hipErrorInvalidHandle;
    const Block block{width, height, 1};
    const Place to = place_in(*dst, x, y, 0, block), from = place_in(*src, from_x, from_y, 0, block);
    if (to.base == nullptr || from.base == nullptr) return hipErrorInvalidValue;
    return copy_block(Runtime::get(), to, from, block, kind, nullptr);
  });
}
HIPSYNTH_EXPORT hipError_t hipMemcpyToArray(hipArray_t dst, size_t x, size_t y, const void* src, size_t n,
                                            hipMemcpyKind kind) {
  return synchronous(
      [&] { return copy_run(dst, run_offset(dst, x, y), const_cast<void*>(src), n, true, kind, nullptr); });
}
HIPSYNTH_EXPORT hipError_t hipMemcpyFromArray(void* dst, const hipArray* src, size_t x, size_t y, size_t n,
                                              hipMemcpyKind kind) {
  return synchronous(
      [&] { return copy_run(const_cast<hipArray_t>(src), run_offset(src, x, y), dst, n, false, kind, nullptr); });
}
HIPSYNTH_EXPORT hipError_t hipMemcpyHtoA(hipArray_t dst, size_t offset, const void* src, size_t n) {
  return synchronous(
      [&] { return copy_run(dst, offset, const_cast<void*>(src), n, true, hipMemcpyHostToDevice, nullptr); });
}
HIPSYNTH_EXPORT hipError_t hipMemcpyHtoAAsync(hipArray_t dst, size_t offset, const void* src, size_t n, hipStream_t s) {
  return copy_run(dst, offset, const_cast<void*>(src), n, true, hipMemcpyHostToDevice, s);
}
HIPSYNTH_EXPORT hipError_t hipMemcpyAtoH(void* dst, hipArray_t src, size_t offset, size_t n) {
  return synchronous([&] { return copy_run(src, offset, dst, n, false, hipMemcpyDeviceToHost, nullptr); });
}
HIPSYNTH_EXPORT hipError_t hipMemcpyAtoHAsync(void* dst, hipArray_t src, size_t offset, size_t n, hipStream_t s) {
  return copy_run(src, offset, dst, n, false, hipMemcpyDeviceToHost, s);
}
HIPSYNTH_EXPORT hipError_t hipMemcpyDtoA(hipArray_t dst, size_t offset, void* src, size_t n) {
  return synchronous([&] { return copy_run(dst, offset, src, n, true, hipMemcpyDeviceToDevice, nullptr); });
}
HIPSYNTH_EXPORT hipError_t hipMemcpyAtoD(void* dst, hipArray_t src, size_t offset, size_t n) {
  return synchronous([&] { return copy_run(src, offset, dst, n, false, hipMemcpyDeviceToDevice, nullptr); });
}
HIPSYNTH_EXPORT hipError_t hipMemcpyAtoA(hipArray_t dst, size_t to, hipArray_t src, size_t from, size_t n) {
  return synchronous([&]() -> hipError_t {
    if (!known(src) || from > src->bytes()) return hipErrorInvalidValue;
    return copy_run(dst, to, static_cast<char*>(src->data) + from, n, true, hipMemcpyDeviceToDevice, nullptr);
  });
}
