#include "execute/texel.h"

#include <bit>
#include <cmath>
#include <cstring>

namespace hipsynth {
namespace {

// Component widths from the lowest bit up; the format's name lists them from the highest.
struct Layout {
  uint8_t components;
  uint8_t bits[4];
};
constexpr Layout kLayouts[] = {{0, {}},
                               {1, {8}},
                               {1, {16}},
                               {2, {8, 8}},
                               {1, {32}},
                               {2, {16, 16}},
                               {3, {11, 11, 10}},
                               {3, {10, 11, 11}},
                               {4, {2, 10, 10, 10}},
                               {4, {10, 10, 10, 2}},
                               {4, {8, 8, 8, 8}},
                               {2, {32, 32}},
                               {4, {16, 16, 16, 16}},
                               {3, {32, 32, 32}},
                               {4, {32, 32, 32, 32}}};

const Layout& layout(TexelFormat f) {
  const auto i = static_cast<size_t>(f.data);
  return kLayouts[i < std::size(kLayouts) ? i : 0];
}

uint32_t mask(uint32_t bits) { return bits >= 32 ? ~0u : (1u << bits) - 1; }
int32_t extend(uint32_t v, uint32_t bits) {
  return bits >= 32 ? static_cast<int32_t>(v) : static_cast<int32_t>(v << (32 - bits)) >> (32 - bits);
}

float srgb_to_linear(float c) { return c <= 0.04045f ? c / 12.92f : std::pow((c + 0.055f) / 1.055f, 2.4f); }

// Unsigned floats of 10 or 11 bits: five bits of exponent, the rest mantissa.
float small_float(uint32_t v, uint32_t bits) {
  const uint32_t m = bits - 5, e = v >> m, f = v & mask(m);
  if (e == 31) return f ? std::nanf("") : HUGE_VALF;
  const float fraction = static_cast<float>(f) / static_cast<float>(1u << m);
  return e == 0 ? std::ldexp(fraction, -14) : std::ldexp(1.0f + fraction, static_cast<int>(e) - 15);
}

float real_of(uint32_t v, uint32_t bits) {
  if (bits == 32) return std::bit_cast<float>(v);
  if (bits == 16) return static_cast<float>(std::bit_cast<_Float16>(static_cast<uint16_t>(v)));
  return bits >= 10 ? small_float(v, bits) : 0.0f;  // narrower floats do not exist
}

uint32_t component(NumberFormat n, uint32_t raw, uint32_t bits, bool alpha) {
  const auto top = static_cast<float>(mask(bits)), half = static_cast<float>(mask(bits - 1));
  switch (n) {
    case NumberFormat::uint:
      return raw;
    case NumberFormat::sint:
      return static_cast<uint32_t>(extend(raw, bits));
    case NumberFormat::unorm:
      return std::bit_cast<uint32_t>(static_cast<float>(raw) / top);
    case NumberFormat::srgb: {
      const float v = static_cast<float>(raw) / top;
      return std::bit_cast<uint32_t>(alpha ? v : srgb_to_linear(v));
    }
    case NumberFormat::snorm:
      return std::bit_cast<uint32_t>(std::fmax(-1.0f, static_cast<float>(extend(raw, bits)) / half));
    case NumberFormat::uscaled:
      return std::bit_cast<uint32_t>(static_cast<float>(raw));
    case NumberFormat::sscaled:
      return std::bit_cast<uint32_t>(static_cast<float>(extend(raw, bits)));
    default:
      return std::bit_cast<uint32_t>(real_of(raw, bits));
  }
}

// NaN becomes 0, as Direct3D specifies for these formats.
double clamped(double v, double low, double high) { return v != v ? 0 : v > low ? (v < high ? v : high) : low; }

// Converts a component of a store instruction to the bits in memory.
uint32_t raw_of(NumberFormat n, uint32_t value, uint32_t bits) {
  const double v = static_cast<double>(std::bit_cast<float>(value)), top = mask(bits), half = mask(bits - 1);
  switch (n) {
    case NumberFormat::uint:
      return value < mask(bits) ? value : mask(bits);
    case NumberFormat::sint: {
      const auto high = static_cast<int32_t>(mask(bits - 1)), s = static_cast<int32_t>(value);
      return static_cast<uint32_t>(s > high ? high : s < -high - 1 ? -high - 1 : s) & mask(bits);
    }
    case NumberFormat::unorm:
    case NumberFormat::srgb:
      return static_cast<uint32_t>(std::nearbyint(clamped(v, 0, 1) * top));
    case NumberFormat::snorm:
      return static_cast<uint32_t>(static_cast<int32_t>(std::nearbyint(clamped(v, -1, 1) * half))) & mask(bits);
    case NumberFormat::uscaled:
      return static_cast<uint32_t>(clamped(v, 0, top));
    case NumberFormat::sscaled:
      return static_cast<uint32_t>(static_cast<int32_t>(clamped(v, -half - 1, half))) & mask(bits);
    default:
      return bits == 16 ? std::bit_cast<uint16_t>(static_cast<_Float16>(std::bit_cast<float>(value))) : value;
  }
}

uint32_t field(const uint32_t* words, uint32_t at, uint32_t bits) {
  const uint64_t pair = words[at / 32] | (at % 32 + bits > 32 ? static_cast<uint64_t>(words[at / 32 + 1]) << 32 : 0);
  return static_cast<uint32_t>(pair >> (at % 32)) & mask(bits);
}

template <size_t N>
void set(std::array<uint32_t, N>* words, uint32_t at, uint32_t bits, uint32_t value) {
  for (uint32_t i = 0; i < bits; ++i) (*words)[(at + i) / 32] |= (value >> i & 1) << ((at + i) % 32);
}

}  // namespace

uint32_t component_count(TexelFormat f) { return layout(f).components; }

uint32_t texel_bytes(TexelFormat f) {
  const Layout& l = layout(f);
  uint32_t bits = 0;
  for (uint32_t k = 0; k < l.components; ++k) bits += l.bits[k];
  return bits / 8;
}

std::array<uint32_t, 4> read_texel(TexelFormat f, const uint8_t* p) {
  const Layout& l = layout(f);
  uint32_t words[4] = {};
  std::memcpy(words, p, texel_bytes(f));
  std::array<uint32_t, 4> out = {0, 0, 0, is_integer(f.number) ? 1u : std::bit_cast<uint32_t>(1.0f)};
  uint32_t at = 0;
  for (uint32_t k = 0; k < l.components; at += l.bits[k++])
    out[k] = component(f.number, field(words, at, l.bits[k]), l.bits[k], k == 3);
  return out;
}

void write_texel(TexelFormat f, const std::array<uint32_t, 4>& value, uint8_t* p) {
  const Layout& l = layout(f);
  std::array<uint32_t, 4> words = {};
  uint32_t at = 0;
  for (uint32_t k = 0; k < l.components; at += l.bits[k++])
    set(&words, at, l.bits[k], raw_of(f.number, value[k], l.bits[k]));
  std::memcpy(p, words.data(), texel_bytes(f));
}

std::array<uint32_t, 8> pack_image(const Image& i) {
  std::array<uint32_t, 8> w = {};
  w[0] = static_cast<uint32_t>(i.base >> 8);
  set(&w, 32, 8, static_cast<uint32_t>(i.base >> 40));
  set(&w, 52, 6, static_cast<uint32_t>(i.format.data));
  set(&w, 58, 4, static_cast<uint32_t>(i.format.number));
  set(&w, 64, 14, i.width - 1);
  set(&w, 78, 14, i.height - 1);
  for (uint32_t k = 0; k < 4; ++k) set(&w, 96 + 3 * k, 3, i.select[k]);
  set(&w, 124, 4, static_cast<uint32_t>(i.type));
  set(&w, 128, 13, i.depth - 1);
  set(&w, 141, 16, i.pitch - 1);
  return w;
}

Image unpack_image(const uint32_t* w) {
  Image i;
  i.base = static_cast<uint64_t>(w[0]) << 8 | static_cast<uint64_t>(field(w, 32, 8)) << 40;
  i.format = {static_cast<DataFormat>(field(w, 52, 6)), static_cast<NumberFormat>(field(w, 58, 4))};
  i.width = field(w, 64, 14) + 1;
  i.height = field(w, 78, 14) + 1;
  for (uint32_t k = 0; k < 4; ++k) i.select[k] = static_cast<uint8_t>(field(w, 96 + 3 * k, 3));
  i.type = static_cast<ImageType>(field(w, 124, 4));
  i.depth = field(w, 128, 13) + 1;
  i.pitch = field(w, 141, 16) + 1;
  return i;
}

std::array<uint32_t, 4> pack_sampler(const Sampler& s) {
  std::array<uint32_t, 4> w = {};
  for (uint32_t k = 0; k < 3; ++k) set(&w, 3 * k, 3, static_cast<uint32_t>(s.wrap[k]));
  set(&w, 15, 1, s.unnormalised);
  set(&w, 20, 1, s.degamma);
  for (const uint32_t filter : {84u, 86u}) set(&w, filter, 2, s.linear);  // magnification, minification
  set(&w, 88, 2, s.linear ? 2 : 1);                                       // between slices
  set(&w, 126, 2, static_cast<uint32_t>(s.border));
  return w;
}

Sampler unpack_sampler(const uint32_t* w) {
  Sampler s;
  for (uint32_t k = 0; k < 3; ++k) s.wrap[k] = static_cast<Wrap>(field(w, 3 * k, 3));
  s.unnormalised = field(w, 15, 1) != 0;
  s.degamma = field(w, 20, 1) != 0;
  s.linear = (field(w, 84, 2) & 1) != 0;
  s.border = static_cast<BorderColour>(field(w, 126, 2));
  return s;
}

std::array<uint32_t, 4> pack_texel_buffer(const TexelBuffer& b) {
  std::array<uint32_t, 4> w = {};
  w[0] = static_cast<uint32_t>(b.base);
  set(&w, 32, 16, static_cast<uint32_t>(b.base >> 32));
  set(&w, 48, 14, b.stride);
  w[2] = b.records;
  for (uint32_t k = 0; k < 4; ++k) set(&w, 96 + 3 * k, 3, b.select[k]);
  set(&w, 108, 3, static_cast<uint32_t>(b.format.number));
  set(&w, 111, 4, static_cast<uint32_t>(b.format.data));
  return w;
}

TexelBuffer unpack_texel_buffer(const uint32_t* w) {
  TexelBuffer b;
  b.base = w[0] | static_cast<uint64_t>(field(w, 32, 16)) << 32;
  b.stride = field(w, 48, 14);
  b.records = w[2];
  for (uint32_t k = 0; k < 4; ++k) b.select[k] = static_cast<uint8_t>(field(w, 96 + 3 * k, 3));
  b.format = {static_cast<DataFormat>(field(w, 111, 4)), static_cast<NumberFormat>(field(w, 108, 3))};
  return b;
}

}  // namespace hipsynth
