// Texture and surface objects: descriptors in device memory, in the layout that the device library reads. Not available
// on gfx942, which has no image instructions.
#include <cstring>

#include "array.h"
#include "execute/texel.h"

using namespace hipsynth::runtime;
using hipsynth::Memory;

namespace {

// Target of a hipTextureObject_t or hipSurfaceObject_t: a resource descriptor of eight words (four for linear memory),
// four words of format information, then the sampler (device libraries, ockl image functions).
struct Object {
  uint32_t resource[8];
  uint32_t channel_type, channel_order;
  uint32_t width;
  uint32_t reserved1;
  uint32_t sampler[4];
  uint32_t reserved2[4];
};
static_assert(offsetof(Object, width) == 40 && offsetof(Object, sampler) == 48);

struct Texture {
  hipResourceDesc resource;
  hipTextureDesc texture;
};

std::map<uint64_t, Texture>& textures() {
  static std::map<uint64_t, Texture> table;
  return table;
}

std::set<uint64_t>& surfaces() {
  static std::set<uint64_t> table;
  return table;
}

enum Resource : int { kArray = 0, kLinear = 2, kPitched = 3 };

// Texel format of a channel description; `normalised`: integers are read as fractions of their range.
hipsynth::TexelFormat format_of(const hipChannelFormatDesc& c, bool normalised) {
  using hipsynth::DataFormat;
  using hipsynth::NumberFormat;
  struct Row {
    int bits, channels;
    DataFormat format;
  };
  static constexpr Row kRows[] = {
      {8, 1, DataFormat::f8},   {8, 2, DataFormat::f8_8},    {8, 4, DataFormat::f8_8_8_8},
      {16, 1, DataFormat::f16}, {16, 2, DataFormat::f16_16}, {16, 4, DataFormat::f16_16_16_16},
      {32, 1, DataFormat::f32}, {32, 2, DataFormat::f32_32}, {32, 4, DataFormat::f32_32_32_32},
  };
  const int channels = (c.x > 0) + (c.y > 0) + (c.z > 0) + (c.w > 0);
  const NumberFormat number = c.f == hipChannelFormatKindFloat ? NumberFormat::real
                              : c.f == hipChannelFormatKindSigned
                                  ? (normalised ? NumberFormat::snorm : NumberFormat::sint)
                                  : (normalised ? NumberFormat::unorm : NumberFormat::uint);
  for (const Row& row : kRows) {
    if (row.bits == c.x && row.channels == channels) return {row.format, number};
  }
  return {DataFormat{}, number};
}

hipsynth::Image image_of(const hipArray& array, bool normalised) {
  hipsynth::Image image;
  image.base = reinterpret_cast<uint64_t>(array.data);
  const bool layered = (array.flags & kArrayLayered) != 0, cube = (array.flags & kArrayCubemap) != 0;
  using hipsynth::ImageType;
  image.type = cube                ? ImageType::cube
               : layered           ? (array.height == 0 ? ImageType::one_array : ImageType::two_array)
               : array.depth != 0  ? ImageType::three
               : array.height != 0 ? ImageType::two
                                   : ImageType::one;
  image.format = format_of(array.channels, normalised);
  image.width = image.pitch = static_cast<uint32_t>(array.width);
  image.height = static_cast<uint32_t>(array.rows());
  image.depth = static_cast<uint32_t>(array.slices());
  return image;
}

hipsynth::Wrap wrap_of(int mode) {
  constexpr hipsynth::Wrap kModes[] = {hipsynth::Wrap::repeat, hipsynth::Wrap::clamp, hipsynth::Wrap::mirror,
                                       hipsynth::Wrap::border};
  return mode >= 0 && mode < 4 ? kModes[mode] : hipsynth::Wrap::clamp;
}

hipsynth::Sampler sampler_of(const hipTextureDesc& t) {
  hipsynth::Sampler sampler;
  for (size_t i = 0; i < 3; ++i) sampler.wrap[i] = wrap_of(t.addressMode[i]);
  sampler.unnormalised = t.normalizedCoords == 0;
  sampler.linear = t.filterMode != 0;
  sampler.degamma = t.sRGB != 0;
  const bool opaque = t.borderColor[3] != 0, white = opaque && t.borderColor[0] != 0;
  sampler.border = white    ? hipsynth::BorderColour::opaque_white
                   : opaque ? hipsynth::BorderColour::opaque_black
                            : hipsynth::BorderColour::transparent_black;
  return sampler;
}

// Sets the channel type and order as the device library encodes them (hsa_ext_image_channel_type_t and _order_t).
void name_channels(const hipChannelFormatDesc& c, bool normalised, Object* object) {
  const uint32_t size = c.x == 8 ? 0 : c.x == 16 ? 1 : 2;
  constexpr uint32_t kSnorm = 0, kUnorm = 2, kSigned = 8, kUnsigned = 11, kHalf = 14, kFloat = 15;
  if (c.f == hipChannelFormatKindFloat) {
    object->channel_type = c.x == 16 ? kHalf : kFloat;
  } else if (c.f == hipChannelFormatKindSigned) {
    object->channel_type = (normalised ? kSnorm : kSigned) + size;
  } else {
    object->channel_type = (normalised ? kUnorm : kUnsigned) + size;
  }
  constexpr uint32_t kR = 1, kRg = 3, kRgba = 8;
  object->channel_order = c.z > 0 ? kRgba : c.y > 0 ? kRg : kR;
}

template <size_t N>
void put(uint32_t (&words)[8], const std::array<uint32_t, N>& packed) {
  std::memcpy(words, packed.data(), sizeof packed);
}

// Fills the resource descriptor. hipErrorInvalidValue for memory outside the device or an unsupported format.
hipError_t describe(Runtime& rt, const hipResourceDesc& r, bool normalised, Object* object, hipsynth::Image* image) {
  if (r.resType == kArray) {
    if (!known(r.res.array)) return hipErrorInvalidHandle;
    *image = image_of(*r.res.array, normalised);
    name_channels(r.res.array->channels, normalised, object);
  } else if (r.resType == kPitched) {
    const auto& p = r.res.pitch2D;
    image->base = reinterpret_cast<uint64_t>(p.devPtr);
    image->format = format_of(p.desc, normalised);
    name_channels(p.desc, normalised, object);
    const uint32_t bytes = texel_bytes(image->format);
    if (bytes == 0 || p.pitchInBytes % bytes != 0 || image->base % 256 != 0) return hipErrorInvalidValue;
    image->width = static_cast<uint32_t>(p.width);
    image->height = static_cast<uint32_t>(p.height);
    image->pitch = static_cast<uint32_t>(p.pitchInBytes / bytes);
    if (p.pitchInBytes / bytes > kMostImagePitch || p.height > kMostImageHeight || p.width > kMostImageWidth ||
        rt.memory().find(image->base, saturating_product(p.pitchInBytes, p.height)) == nullptr)
      return hipErrorInvalidValue;
  } else if (r.resType == kLinear) {
    const auto& l = r.res.linear;
    hipsynth::TexelBuffer buffer;
    buffer.base = reinterpret_cast<uint64_t>(l.devPtr);
    buffer.format = format_of(l.desc, normalised);
    buffer.stride = texel_bytes(buffer.format);
    if (buffer.stride == 0 || rt.memory().find(buffer.base, l.sizeInBytes) == nullptr) return hipErrorInvalidValue;
    buffer.records = static_cast<uint32_t>(l.sizeInBytes / buffer.stride);
    object->width = buffer.records;
    put(object->resource, pack_texel_buffer(buffer));
    return hipSuccess;
  } else {
    return hipErrorNotSupported;  // mipmapped arrays
  }
  if (texel_bytes(image->format) == 0) return hipErrorInvalidValue;
  object->width = image->width;
  put(object->resource, pack_image(*image));
  return hipSuccess;
}

uint64_t place(Runtime& rt, const Object& object) {
  void* at = rt.memory().allocate(sizeof object, Memory::Kind::kernarg);
  std::memcpy(at, &object, sizeof object);
  return reinterpret_cast<uint64_t>(at);
}

bool has_images(Runtime& rt) { return traits(rt.config.arch).images; }

template <typename Table>
hipError_t destroy(Runtime& rt, Table& table, uint64_t object) {
  rt.complete_all();
  if (table.erase(object) == 0) return hipErrorInvalidValue;
  rt.memory().release(reinterpret_cast<void*>(object));
  return hipSuccess;
}

}  // namespace

void hipsynth::runtime::forget_textures() {
  Runtime& rt = Runtime::get();
  while (!textures().empty()) destroy(rt, textures(), textures().begin()->first);
  while (!surfaces().empty()) destroy(rt, surfaces(), *surfaces().begin());
}

HIPSYNTH_EXPORT hipError_t hipCreateTextureObject(uint64_t* out, const hipResourceDesc* r, const hipTextureDesc* t,
                                                  const void* view) {
  return call([&](Runtime& rt) -> hipError_t {
    if (out == nullptr || r == nullptr || t == nullptr) return hipErrorInvalidValue;
    if (!has_images(rt) || view != nullptr) return hipErrorNotSupported;
    Object object{};
    hipsynth::Image image;
    const bool normalised = t->readMode != 0;
    hipError_t error = describe(rt, *r, normalised, &object, &image);
    if (error != hipSuccess) return error;
    const bool integer = is_integer(image.format.number);
    if (r->resType != kLinear && t->filterMode != 0 && integer) return hipErrorInvalidValue;
    if (image.type == hipsynth::ImageType::three && t->filterMode != 0) return hipErrorNotSupported;  // as on hardware
    const auto sampler = pack_sampler(sampler_of(*t));
    std::memcpy(object.sampler, sampler.data(), sizeof object.sampler);
    *out = place(rt, object);
    textures()[*out] = {*r, *t};
    return hipSuccess;
  });
}
HIPSYNTH_EXPORT hipError_t hipDestroyTextureObject(uint64_t object) {
  return call([&](Runtime& rt) { return object == 0 ? hipSuccess : destroy(rt, textures(), object); });
}
HIPSYNTH_EXPORT hipError_t hipGetTextureObjectResourceDesc(hipResourceDesc* out, uint64_t object) {
  return call([&](Runtime&) -> hipError_t {
    if (out == nullptr || !textures().contains(object)) return hipErrorInvalidValue;
    *out = textures()[object].resource;
    return hipSuccess;
  });
}
HIPSYNTH_EXPORT hipError_t hipGetTextureObjectTextureDesc(hipTextureDesc* out, uint64_t object) {
  return call([&](Runtime&) -> hipError_t {
    if (out == nullptr || !textures().contains(object)) return hipErrorInvalidValue;
    *out = textures()[object].texture;
    return hipSuccess;
  });
}

HIPSYNTH_EXPORT hipError_t hipCreateSurfaceObject(uint64_t* out, const hipResourceDesc* r) {
  return call([&](Runtime& rt) -> hipError_t {
    if (out == nullptr || r == nullptr || r->resType != kArray) return hipErrorInvalidValue;
    if (!has_images(rt)) return hipErrorNotSupported;
    Object object{};
    hipsynth::Image image;
    hipError_t error = describe(rt, *r, false, &object, &image);
    if (error != hipSuccess) return error;
    *out = *surfaces().insert(place(rt, object)).first;
    return hipSuccess;
  });
}
HIPSYNTH_EXPORT hipError_t hipDestroySurfaceObject(uint64_t object) {
  return call([&](Runtime& rt) { return destroy(rt, surfaces(), object); });
}
