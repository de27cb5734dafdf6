// Texture and image descriptors of gfx90a (T#, S#) and the formats of their texels. The HIP runtime builds descriptors
// with pack_image and pack_sampler; kernels hand them to image instructions.
// Source: "AMD Instinct MI200 Instruction Set Architecture", sections Image Resource Descriptor and Image Sampler.
#pragma once

#include <array>
#include <cstdint>

namespace hipsynth {

enum class ImageType : uint8_t { one = 8, two = 9, three = 10, cube = 11, one_array = 12, two_array = 13 };

// Numbers of the descriptor's data format, named by the widths of the components.
enum class DataFormat : uint8_t {
  f8 = 1,
  f16 = 2,
  f8_8 = 3,
  f32 = 4,
  f16_16 = 5,
  f10_11_11 = 6,
  f11_11_10 = 7,
  f10_10_10_2 = 8,
  f2_10_10_10 = 9,
  f8_8_8_8 = 10,
  f32_32 = 11,
  f16_16_16_16 = 12,
  f32_32_32 = 13,
  f32_32_32_32 = 14
};
enum class NumberFormat : uint8_t {
  unorm = 0,
  snorm = 1,
  uscaled = 2,
  sscaled = 3,
  uint = 4,
  sint = 5,
  real = 7,
  srgb = 9
};

struct TexelFormat {
  DataFormat data = DataFormat::f32;
  NumberFormat number = NumberFormat::real;
};

// Bytes of one texel, 0 for a format that does not exist.
uint32_t texel_bytes(TexelFormat f);
uint32_t component_count(TexelFormat f);
// Four components as the instruction returns them: floats, or integers for uint and sint. Missing ones are 0, 0, 0, 1.
std::array<uint32_t, 4> read_texel(TexelFormat f, const uint8_t* p);
void write_texel(TexelFormat f, const std::array<uint32_t, 4>& value, uint8_t* p);
inline bool is_integer(NumberFormat n) { return n == NumberFormat::uint || n == NumberFormat::sint; }

// A linear image: rows of `pitch` texels, slices of `height` rows. All sizes in texels.
struct Image {
  uint64_t base = 0;  // device address, a multiple of 256
  ImageType type = ImageType::two;
  TexelFormat format;
  uint32_t width = 1, height = 1, depth = 1;  // depth: slices of a 3-D image, layers of an array, 6 faces of a cube map
  uint32_t pitch = 1;
  std::array<uint8_t, 4> select = {4, 5, 6, 7};  // for x, y, z, w: 0 zero, 1 one, 4..7 component
};
std::array<uint32_t, 8> pack_image(const Image& image);
Image unpack_image(const uint32_t* words);

enum class Wrap : uint8_t { repeat = 0, mirror = 1, clamp = 2, mirror_once = 3, border = 6 };
enum class BorderColour : uint8_t { transparent_black = 0, opaque_black = 1, opaque_white = 2 };

struct Sampler {
  std::array<Wrap, 3> wrap = {Wrap::clamp, Wrap::clamp, Wrap::clamp};
  bool unnormalised = false;  // coordinates in texels instead of fractions of the image
  bool linear = false;
  bool degamma = false;  // colours of 8-bit unorm texels are sRGB
  BorderColour border = BorderColour::transparent_black;
};
std::array<uint32_t, 4> pack_sampler(const Sampler& sampler);
Sampler unpack_sampler(const uint32_t* words);

// A typed buffer (V#) of texels, for textures over linear memory.
struct TexelBuffer {
  uint64_t base = 0;
  uint32_t stride = 0, records = 0;  // bytes between texels, number of texels
  TexelFormat format;
  std::array<uint8_t, 4> select = {4, 5, 6, 7};
};
std::array<uint32_t, 4> pack_texel_buffer(const TexelBuffer& buffer);
TexelBuffer unpack_texel_buffer(const uint32_t* words);

}  // namespace hipsynth
