// image_* and buffer_*_format_* instructions: texel conversion, component selection, and filtering for samples. Images
// are linear in memory and have one mip level. Filter weights have eight fraction bits.
#include <algorithm>
#include <bit>
#include <cmath>
#include <string_view>

#include "core/state.h"
#include "execute/memory_model.h"
#include "execute/texel.h"

namespace hipsynth {
namespace {

using Texel = std::array<uint32_t, 4>;

uint32_t axes_of(ImageType t) {
  switch (t) {
    case ImageType::one:
      return 1;
    case ImageType::two:
    case ImageType::one_array:
      return 2;
    default:
      return 3;
  }
}
bool layered(ImageType t) { return t == ImageType::one_array || t == ImageType::two_array || t == ImageType::cube; }

// Applies a destination select: 0, 1 or a component.
uint32_t selected(const Texel& v, uint8_t select, bool integer) {
  if (select >= 4) return v[select - 4];
  return select == 0 ? 0 : integer ? 1u : std::bit_cast<uint32_t>(1.0f);
}

// One image instruction: bounds checks, texel addresses and memory model.
class Access {
 public:
  Access(Context& c, Resident& r, const Step& s) : c_(c), r_(r), s_(s) {}

  // Address of a texel inside the image, checked against the allocations.
  uint8_t* texel(const Image& i, uint32_t lane, const uint32_t (&at)[3], uint32_t tap) {
    const uint32_t bytes = texel_bytes(i.format);
    const uint64_t index = (uint64_t{at[2]} * i.height + at[1]) * i.pitch + at[0];
    return checked(i.base + index * bytes, bytes, lane, tap);
  }

  uint8_t* checked(uint64_t address, uint32_t bytes, uint32_t lane, uint32_t tap) {
    if (!c_.memory.find(address, bytes))
      out_of_bounds_access(c_, r_, s_, {"texel", address, bytes, static_cast<int>(lane)});
    address_[tap][lane] = address;
    used_[tap] |= 1ull << lane;
    bytes_ = bytes;
    return reinterpret_cast<uint8_t*>(address);
  }

  [[noreturn]] void fault(const char* what, uint64_t address, uint32_t bytes, uint32_t lane) {
    throw_illegal_access(c_, r_, s_, {what, address, bytes, static_cast<int>(lane)});
  }

  void count(MemKind kind, bool returns = true) {
    ++r_.outstanding_vm;
    const bool store = kind == MemKind::store, atomic = kind == MemKind::atomic;
    if (atomic && returns) r_.atomic_outstanding = true;
    using Kind = hipsynth::Access;
    const Kind what = store ? Kind::store : atomic ? Kind::atomic : Kind::load;
    WaveAccess texels[kTaps];
    size_t n = 0;
    for (uint32_t tap = 0; tap < kTaps; ++tap) {
      if (used_[tap]) texels[n++] = {what, bytes_, used_[tap], address_[tap], false, !store && returns};
    }
    c_.model->image_access(r_, what, {texels, n});
  }

 private:
  static constexpr uint32_t kTaps = 8;
  Context& c_;
  Resident& r_;
  const Step& s_;
  uint64_t address_[kTaps][kLanes] = {}, used_[kTaps] = {};
  uint32_t bytes_ = 4;
};

// The coordinate registers of all lanes. The text names only the first one; the descriptor determines their number.
struct Coordinates {
  const uint32_t* rows[4] = {};  // the mip level follows the coordinates
};
bool has_level(const Inst& in) { return in.op->mem.op == MemOp::mip; }

Coordinates coordinates(Access& access, Resident& r, const Step& s, const Image& image) {
  const Inst& in = *s.inst;
  const uint32_t axes = axes_of(image.type) + (has_level(in) ? 1 : 0), per_row = in.a16 ? 2 : 1;
  if (in.src[0].reg + (axes + per_row - 1) / per_row > r.wave.rows) access.fault("coordinates", in.src[0].reg, 4, 0);
  Coordinates found;
  for (uint32_t k = 0; k < axes; ++k) found.rows[k] = operand_row(r.wave, in.src[0], k / per_row);
  return found;
}

float as_float(const Inst& in, const uint32_t* row, uint32_t axis, uint32_t lane) {
  if (!in.a16) return std::bit_cast<float>(row[lane]);
  return static_cast<float>(std::bit_cast<_Float16>(static_cast<uint16_t>(row[lane] >> (axis % 2 * 16))));
}
uint32_t as_integer(const Inst& in, const uint32_t* row, uint32_t axis, uint32_t lane) {
  return in.a16 ? row[lane] >> (axis % 2 * 16) & 0xffff : row[lane];
}

// Converts a component to its d16 form, and back.
uint32_t narrowed(uint32_t v, NumberFormat n) {
  return is_integer(n) ? v & 0xffff : std::bit_cast<uint16_t>(static_cast<_Float16>(std::bit_cast<float>(v)));
}
uint32_t widened(uint32_t half, NumberFormat n) {
  const auto bits = static_cast<uint16_t>(half);
  if (n == NumberFormat::sint) return static_cast<uint32_t>(static_cast<int16_t>(bits));
  return is_integer(n) ? bits : std::bit_cast<uint32_t>(static_cast<float>(std::bit_cast<_Float16>(bits)));
}

// Moves the components selected by dmask to or from the data registers; d16 packs two per register.
void put(const Inst& in, uint32_t* row, uint32_t lane, const Texel& v, NumberFormat number) {
  uint32_t n = 0;
  for (uint32_t k = 0; k < 4; ++k) {
    if (!(in.dmask >> k & 1)) continue;
    if (!in.d16) {
      row[n++ * kLanes + lane] = v[k];
      continue;
    }
    const uint32_t half = narrowed(v[k], number);
    uint32_t& word = row[n / 2 * kLanes + lane];
    word = n % 2 ? (word & 0xffff) | half << 16 : half;
    ++n;
  }
}
Texel take(const Inst& in, const uint32_t* row, uint32_t lane, NumberFormat number) {
  Texel v = {};
  uint32_t n = 0;
  for (uint32_t k = 0; k < 4; ++k) {
    if (!(in.dmask >> k & 1)) continue;
    const uint32_t word = row[(in.d16 ? n / 2 : n) * kLanes + lane];
    v[k] = in.d16 ? widened(word >> (n % 2 * 16), number) : word;
    ++n;
  }
  return v;
}

bool inside(const Image& i, const uint32_t (&at)[3]) { return at[0] < i.width && at[1] < i.height && at[2] < i.depth; }

// Integer coordinates of a lane, in the order x, y, z or layer; false if it accesses a mip level other than the only
// one.
bool place(const Inst& in, const Image& image, const Coordinates& where, uint32_t lane, uint32_t (&at)[3]) {
  const uint32_t axes = axes_of(image.type);
  for (uint32_t k = 0; k < 3; ++k) at[k] = k < axes ? as_integer(in, where.rows[k], k, lane) : 0;
  if (image.type == ImageType::one_array) std::swap(at[1], at[2]);
  return !has_level(in) || as_integer(in, where.rows[axes], axes, lane) == 0;
}

void load_or_store(Context& c, Resident& r, const Step& s, const Image& image) {
  const Inst& in = *s.inst;
  const bool store = in.op->mem.kind == MemKind::store, integer = is_integer(image.format.number);
  Access access(c, r, s);
  const Coordinates where = coordinates(access, r, s, image);
  uint32_t* data = operand_row(r.wave, store ? in.src[1] : in.dst);
  for (uint64_t rest = r.wave.exec(); rest; rest &= rest - 1) {
    const auto lane = static_cast<uint32_t>(std::countr_zero(rest));
    uint32_t at[3];
    const bool there = place(in, image, where, lane, at) && inside(image, at);
    uint8_t* p = there ? access.texel(image, lane, at, 0) : nullptr;
    if (store && p) {
      write_texel(image.format, take(in, data, lane, image.format.number), p);
    } else if (!store) {
      const Texel raw = p ? read_texel(image.format, p) : Texel{};
      Texel v = {};
      for (size_t k = 0; k < 4 && p; ++k) v[k] = selected(raw, image.select[k], integer);
      put(in, data, lane, v, image.format.number);
    }
  }
  access.count(in.op->mem.kind);
}

// Index of texel `i` of `n` under an address mode; -1: the border.
int64_t wrapped(int64_t i, int64_t n, Wrap mode) {
  switch (mode) {
    case Wrap::repeat:
      return (i % n + n) % n;
    case Wrap::mirror: {
      const int64_t m = (i % (2 * n) + 2 * n) % (2 * n);
      return m < n ? m : 2 * n - 1 - m;
    }
    case Wrap::mirror_once:
      return std::clamp<int64_t>(i < 0 ? -1 - i : i, 0, n - 1);
    case Wrap::clamp:
      return std::clamp<int64_t>(i, 0, n - 1);
    default:
      return i < 0 || i >= n ? -1 : i;
  }
}

// The one or two texels that a sample uses along an axis, and the weight of the second one in 256ths.
struct Span {
  int64_t first = 0;
  uint32_t weight = 0;
  uint32_t taps = 1;
};
Span span_of(float coordinate, uint32_t size, bool unnormalised, bool linear) {
  constexpr double kFar = 0x1p40;  // outside any image, but within int64_t
  double u = static_cast<double>(coordinate) * (unnormalised ? 1.0 : size);
  if (!(u == u)) u = 0;
  u = std::clamp(u, -kFar, kFar);
  if (!linear) return {static_cast<int64_t>(std::floor(u)), 0, 1};
  const double scaled = std::floor((u - 0.5) * 256 + 0.5);
  const auto fixed = static_cast<int64_t>(scaled);
  return {fixed >> 8, static_cast<uint32_t>(fixed & 255), 2};
}

Texel border_texel(BorderColour colour, bool integer) {
  const uint32_t one = integer ? 1u : std::bit_cast<uint32_t>(1.0f);
  const uint32_t rgb = colour == BorderColour::opaque_white ? one : 0;
  return {rgb, rgb, rgb, colour == BorderColour::transparent_black ? 0 : one};
}

// Samples for one lane: the nearest texel, or the weighted sum of 2, 4 or 8 texels.
Texel sample_lane(Access& access, const Image& image, const Sampler& sampler, const float (&where)[3], uint32_t lane) {
  const bool integer = is_integer(image.format.number), linear = sampler.linear && !integer;
  const uint32_t size[3] = {image.width, image.height, image.depth};
  Span span[3];
  for (uint32_t k = 0; k < 3; ++k) {
    const bool layer = k == 2 && layered(image.type);
    const bool used = k == 0 || (k == 1 && axes_of(image.type) >= 2 && image.type != ImageType::one_array) ||
                      (k == 2 && image.type == ImageType::three);
    if (layer)  // the nearest layer, clamped
      span[k].first = std::clamp<int64_t>(std::llrint(std::clamp(where[k], 0.0f, 65536.0f)), 0, image.depth - 1);
    else if (used)
      span[k] = span_of(where[k], size[k], sampler.unnormalised, linear);
  }
  double sum[4] = {};
  Texel last = {};
  for (uint32_t tap = 0; tap < span[0].taps * span[1].taps * span[2].taps; ++tap) {
    const uint32_t step[3] = {tap % span[0].taps, tap / span[0].taps % span[1].taps,
                              tap / (span[0].taps * span[1].taps)};
    uint32_t at[3];
    bool outside = false;
    double weight = 1;
    for (uint32_t k = 0; k < 3; ++k) {
      const int64_t i =
          wrapped(span[k].first + step[k], size[k], k == 2 && layered(image.type) ? Wrap::clamp : sampler.wrap[k]);
      outside |= i < 0;
      at[k] = static_cast<uint32_t>(i);
      if (span[k].taps == 2) weight *= (step[k] ? span[k].weight : 256 - span[k].weight) / 256.0;
    }
    last =
        outside ? border_texel(sampler.border, integer) : read_texel(image.format, access.texel(image, lane, at, tap));
    for (size_t k = 0; k < 4 && linear; ++k) sum[k] += weight * static_cast<double>(std::bit_cast<float>(last[k]));
  }
  for (size_t k = 0; k < 4 && linear; ++k) last[k] = std::bit_cast<uint32_t>(static_cast<float>(sum[k]));
  return last;
}

void sample(Context& c, Resident& r, const Step& s, Image image) {
  const Inst& in = *s.inst;
  Access access(c, r, s);
  const Sampler sampler = unpack_sampler(&r.wave.sgpr[in.src[3].reg]);
  if (sampler.degamma && image.format.number == NumberFormat::unorm) image.format.number = NumberFormat::srgb;
  const Coordinates where = coordinates(access, r, s, image);
  uint32_t* data = operand_row(r.wave, in.dst);
  const bool integer = is_integer(image.format.number);
  for (uint64_t rest = r.wave.exec(); rest; rest &= rest - 1) {
    const auto lane = static_cast<uint32_t>(std::countr_zero(rest));
    float at[3] = {};
    for (uint32_t k = 0; k < 3; ++k) at[k] = where.rows[k] ? as_float(in, where.rows[k], k, lane) : 0.0f;
    if (image.type == ImageType::one_array) std::swap(at[1], at[2]);
    if (image.type == ImageType::cube) {  // the face's coordinates are in [1, 2]
      at[0] -= 1.0f;
      at[1] -= 1.0f;
    }
    const Texel raw = sample_lane(access, image, sampler, at, lane);
    Texel v;
    for (size_t k = 0; k < 4; ++k) v[k] = selected(raw, image.select[k], integer);
    put(in, data, lane, v, image.format.number);
  }
  access.count(MemKind::load);
}

// image_get_resinfo: width, height, depth or layers, mip levels.
void query(Resident& r, const Step& s, const Image& image) {
  const Texel size = {image.width, image.height, image.depth, 1};
  uint32_t* data = operand_row(r.wave, s.inst->dst);
  for (uint64_t rest = r.wave.exec(); rest; rest &= rest - 1)
    put(*s.inst, data, static_cast<uint32_t>(std::countr_zero(rest)), size, NumberFormat::uint);
}

// image_atomic_*: one dword of each lane's texel; returns the old value if the instruction requests it.
void atomic(Context& c, Resident& r, const Step& s, const Image& image) {
  const Inst& in = *s.inst;
  Access access(c, r, s);
  if (texel_bytes(image.format) != 4) access.fault("atomic on texels that are no dwords", image.base, 4, 0);
  const Coordinates where = coordinates(access, r, s, image);
  const uint32_t* data = operand_row(r.wave, in.src[1]);
  uint32_t* result = operand_row(r.wave, in.dst);
  for (uint64_t rest = r.wave.exec(); rest; rest &= rest - 1) {
    const auto lane = static_cast<uint32_t>(std::countr_zero(rest));
    uint32_t at[3];
    uint64_t old = 0;
    if (place(in, image, where, lane, at) && inside(image, at)) {
      const uint32_t compare = in.src[1].dwords == 2 ? data[kLanes + lane] : 0;
      old = s.atomic(access.texel(image, lane, at, 0), data[lane], compare);
    }
    if (result) result[lane] = static_cast<uint32_t>(old);
  }
  access.count(MemKind::atomic, result != nullptr);
}

// Component k of a typed buffer instruction's registers: one per register, or packed halves.
uint32_t buffer_component(const MemDesc& m, const uint32_t* row, uint32_t lane, uint32_t k, NumberFormat n) {
  if (m.d16 == 0) return row[k * kLanes + lane];
  return widened(row[k / 2 * kLanes + lane] >> (m.d16 == 2 || k % 2 ? 16 : 0), n);
}
void set_buffer_component(const MemDesc& m, uint32_t* row, uint32_t lane, uint32_t k, uint32_t v, NumberFormat n) {
  uint32_t& word = row[(m.d16 ? k / 2 : k) * kLanes + lane];
  if (m.d16 == 0)
    word = v;
  else if (m.d16 == 2 || k % 2)
    word = (word & 0xffff) | narrowed(v, n) << 16;
  else
    word = narrowed(v, n);
}

// buffer_load_format_*, buffer_store_format_* and the tbuffer forms, which specify the format: one texel per index.
void texel_buffer(Context& c, Resident& r, const Step& s) {
  const Inst& in = *s.inst;
  const MemDesc& m = in.op->mem;
  TexelBuffer b = unpack_texel_buffer(&r.wave.sgpr[in.src[2].reg]);
  if (m.op == MemOp::format_named) {
    b.format = {static_cast<DataFormat>(in.format & 15), static_cast<NumberFormat>(in.format >> 4)};
    const uint32_t present = component_count(b.format);  // the resource selects nothing (CDNA3 ISA, 9.1.4)
    for (uint32_t k = 0; k < 4; ++k) b.select[k] = static_cast<uint8_t>(k < present ? 4 + k : 0);
  }
  const uint32_t bytes = texel_bytes(b.format);
  const bool store = m.kind == MemKind::store, integer = is_integer(b.format.number);
  const uint32_t* first = operand_row(r.wave, in.src[0]);
  const uint32_t* index_row = in.idxen ? first : nullptr;
  const uint32_t* offset_row = in.offen ? (in.idxen ? operand_row(r.wave, in.src[0], 1) : first) : nullptr;
  uint32_t* data = operand_row(r.wave, store ? in.src[1] : in.dst);
  Access access(c, r, s);
  for (uint64_t rest = r.wave.exec(); rest; rest &= rest - 1) {
    const auto lane = static_cast<uint32_t>(std::countr_zero(rest));
    const uint64_t index = index_row ? index_row[lane] : 0;
    const uint64_t offset = (offset_row ? offset_row[lane] : 0) + static_cast<uint64_t>(in.imm);
    const bool valid = bytes != 0 && (b.stride ? index < b.records : offset + bytes <= b.records);
    const uint64_t address = b.base + scalar_operand(r.wave, in.src[3]) + index * b.stride + offset;
    uint8_t* p = valid ? access.checked(address, bytes, lane, 0) : nullptr;
    Texel v = {};
    for (uint32_t k = 0; store && k < m.count; ++k) v[k] = buffer_component(m, data, lane, k, b.format.number);
    if (store && p) write_texel(b.format, v, p);
    const Texel raw = p && !store ? read_texel(b.format, p) : Texel{};
    for (uint32_t k = 0; !store && k < m.count; ++k)
      set_buffer_component(m, data, lane, k, selected(raw, b.select[k], integer), b.format.number);
  }
  access.count(m.kind);
}

}  // namespace

void execute_image(Context& c, Resident& r, const Step& s) {
  const Inst& in = *s.inst;
  if (in.op->mem.typed_buffer()) return texel_buffer(c, r, s);
  const Image image = unpack_image(&r.wave.sgpr[in.src[2].reg]);
  const bool known = image.type >= ImageType::one && image.type <= ImageType::two_array;
  if (!known || texel_bytes(image.format) == 0)
    throw_illegal_access(c, r, s, {"image with an unknown descriptor", image.base, 0, -1});
  if (in.op->mem.kind == MemKind::sample) return sample(c, r, s, image);
  if (in.op->mem.kind == MemKind::query) return query(r, s, image);
  if (in.op->mem.kind == MemKind::atomic) return atomic(c, r, s, image);
  load_or_store(c, r, s, image);
}

}  // namespace hipsynth
