#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "isa/syntax.h"
#include "isa/text.h"

namespace hipsynth {
namespace {

using text::eat;
using text::integer;

using Flag = bool Inst::*;
constexpr std::pair<std::string_view, Flag> kFlags[] = {
    {"glc", &Inst::glc},     {"slc", &Inst::slc},     {"scc", &Inst::scc},     {"sc0", &Inst::sc0},
    {"sc1", &Inst::sc1},     {"nt", &Inst::nt},       {"lds", &Inst::lds},     {"gds", &Inst::gds},
    {"offen", &Inst::offen}, {"idxen", &Inst::idxen}, {"clamp", &Inst::clamp}, {"unorm", &Inst::unorm},
    {"da", &Inst::da},       {"a16", &Inst::a16},     {"d16", &Inst::d16},     {"tfe", &Inst::tfe},
    {"lwe", &Inst::lwe},
};

// "[1,0,1]" -> bits and their number; -1 if malformed.
int parse_bits(std::string_view s, uint32_t& bits) {
  if (!eat(s, "[") || !s.ends_with(']')) return -1;
  s.remove_suffix(1);
  int n = 0;
  bits = 0;
  while (!s.empty()) {
    const auto v = integer(text::trim(text::take(s, ',')));
    if (!v || *v < 0 || *v > 3 || n >= 4) return -1;
    bits |= (*v ? 1u : 0u) << n++;
  }
  return n;
}

bool parse_quad_perm(std::string_view s, uint16_t& ctrl) {
  if (!eat(s, "[") || !s.ends_with(']')) return false;
  s.remove_suffix(1);
  ctrl = 0;
  int n = 0;
  while (!s.empty()) {
    const auto v = integer(text::trim(text::take(s, ',')));
    if (!v || *v < 0 || *v > 3 || n >= 4) return false;
    ctrl = static_cast<uint16_t>(ctrl | *v << (2 * n++));
  }
  return n == 4;
}

bool dpp_base(std::string_view name, int64_t v, uint16_t& ctrl) {
  struct Form {
    std::string_view name;
    uint16_t base;
    int64_t low, high;
  };
  static constexpr Form kForms[] = {
      {"row_shl", 0x100, 1, 15}, {"row_shr", 0x110, 1, 15},      {"row_ror", 0x120, 1, 15},
      {"wave_shl", 0x12f, 1, 1}, {"wave_rol", 0x133, 1, 1},      {"wave_shr", 0x137, 1, 1},
      {"wave_ror", 0x13b, 1, 1}, {"row_newbcast", 0x150, 0, 15}, {"row_share", 0x150, 0, 15},
  };
  if (name == "row_bcast" && (v == 15 || v == 31)) {
    ctrl = v == 15 ? 0x142 : 0x143;
    return true;
  }
  for (const Form& f : kForms) {
    if (name != f.name) continue;
    ctrl = static_cast<uint16_t>(f.base + v);
    return v >= f.low && v <= f.high;
  }
  return false;
}

bool parse_dpp(std::string_view name, std::string_view value, Dpp& dpp) {
  if (name == "row_mirror" || name == "row_half_mirror") {
    dpp.present = true;
    dpp.ctrl = name == "row_mirror" ? 0x140 : 0x141;
    return true;
  }
  if (name == "quad_perm") {
    dpp.present = true;
    return parse_quad_perm(value, dpp.ctrl);
  }
  const auto v = integer(value);
  if (!v) return false;
  if (name == "row_mask" || name == "bank_mask") {
    (name == "row_mask" ? dpp.row_mask : dpp.bank_mask) = static_cast<uint8_t>(*v & 15);
    dpp.present = true;
    return true;
  }
  if (name == "bound_ctrl") {  // both spellings (0 in old assemblers) set the bit
    dpp.present = dpp.bound_ctrl = true;
    return true;
  }
  dpp.present = dpp_base(name, *v, dpp.ctrl);
  return dpp.present;
}

int parse_sel(std::string_view s) {
  static constexpr std::string_view kSel[] = {"BYTE_0", "BYTE_1", "BYTE_2", "BYTE_3", "WORD_0", "WORD_1", "DWORD"};
  for (int i = 0; i < 7; ++i) {
    if (s == kSel[i]) return i;
  }
  return -1;
}

bool parse_sdwa(std::string_view name, std::string_view value, Inst& in) {
  in.sdwa = true;
  if (name == "dst_unused") {
    in.sdwa_dst_unused = value == "UNUSED_PRESERVE" ? 2 : value == "UNUSED_SEXT" ? 1 : 0;
    return value.starts_with("UNUSED_");
  }
  const int sel = parse_sel(value);
  if (sel < 0) return false;
  if (name == "dst_sel")
    in.sdwa_dst_sel = static_cast<uint8_t>(sel);
  else if (name == "src0_sel")
    in.src[0].sdwa_sel = static_cast<uint8_t>(sel);
  else if (name == "src1_sel")
    in.src[1].sdwa_sel = static_cast<uint8_t>(sel);
  else
    return false;
  return true;
}

bool parse_swizzle(std::string_view s, int32_t& offset) {
  if (!eat(s, "swizzle(") || !s.ends_with(')')) return false;
  s.remove_suffix(1);
  const std::string_view form = text::trim(text::take(s, ','));
  if (form == "BITMASK_PERM") {
    s = text::trim(s);
    if (s.size() != 7 || s.front() != '"' || s.back() != '"') return false;
    uint32_t and_mask = 0, or_mask = 0, xor_mask = 0;
    for (int i = 0; i < 5; ++i) {
      const uint32_t bit = 1u << (4 - i);
      switch (s[static_cast<size_t>(i) + 1]) {
        case '0':
          break;
        case '1':
          or_mask |= bit;
          break;
        case 'p':
          and_mask |= bit;
          break;
        case 'i':
          and_mask |= bit;
          xor_mask |= bit;
          break;
        default:
          return false;
      }
    }
    offset = static_cast<int32_t>(and_mask | or_mask << 5 | xor_mask << 10);
    return true;
  }
  std::array<int64_t, 4> v{};
  size_t n = 0;
  while (!s.empty() && n < 4) {
    const auto x = integer(text::trim(text::take(s, ',')));
    if (!x || *x < 0 || *x > 31 + 1) return false;
    v[n++] = *x;
  }
  if (form == "QUAD_PERM" && n == 4) {
    offset = static_cast<int32_t>(0x8000 | v[0] | v[1] << 2 | v[2] << 4 | v[3] << 6);
  } else if (form == "SWAP" && n == 1) {
    offset = static_cast<int32_t>(0x1f | v[0] << 10);
  } else if (form == "REVERSE" && n == 1) {
    offset = static_cast<int32_t>(0x1f | (v[0] - 1) << 10);
  } else if (form == "ROTATE" && n == 2) {
    offset = static_cast<int32_t>(0xc000 | v[0] << 10 | v[1] << 5);
  } else if (form == "FFT" && n == 1) {
    offset = static_cast<int32_t>(0xe000 | v[0]);
  } else if (form == "BROADCAST" && n == 2) {
    offset = static_cast<int32_t>((32 - v[0]) | v[1] << 5);
  } else {
    return false;
  }
  return true;
}

bool parse_select(std::string_view name, std::string_view value, const Signature& sig, Inst& in) {
  uint32_t bits = 0;
  const int n = parse_bits(value, bits);
  if (n < 0) return false;
  if (name == "op_sel") {
    // One entry more than sources: the last one selects the destination half.
    const bool has_dst = n == sig.sources + 1 && n < 4;
    if (has_dst) bits = (bits & ((1u << (n - 1)) - 1)) | ((bits >> (n - 1)) & 1) << 3;
    in.op_sel = static_cast<uint8_t>(bits);
  } else if (name == "op_sel_hi") {
    in.op_sel_hi = static_cast<uint8_t>(bits | (sig.mix ? 0u : (7u << n) & 7u));
  } else if (name == "neg_lo" || name == "neg") {
    in.neg_lo = static_cast<uint8_t>(bits);
  } else {
    in.neg_hi = static_cast<uint8_t>(bits);
  }
  return true;
}

// Sets an unsigned field of an instruction of the LDS; false if the value does not fit.
bool set_unsigned(int64_t value, int64_t most, int32_t& field) {
  field = static_cast<int32_t>(value);
  return value >= 0 && value <= most;
}

bool parse_number(std::string_view name, std::string_view value, const Inst& old, Inst& in) {
  if (name == "offset" && value.starts_with("swizzle(")) return parse_swizzle(value, in.offset0);
  const auto v = integer(value);
  if (!v) return false;
  if (name == "offset" && old.op->unit == Unit::lds) {
    return set_unsigned(*v, 0xffff, in.offset0);
  } else if (name == "offset") {
    in.imm = *v;
  } else if (name == "offset0") {
    return set_unsigned(*v, 0xff, in.offset0);
  } else if (name == "offset1") {
    return set_unsigned(*v, 0xff, in.offset1);
  } else if (name == "mul") {
    in.omod = *v == 2 ? 1 : *v == 4 ? 2 : 0;
    return in.omod != 0;
  } else if (name == "div") {
    in.omod = 3;
    return *v == 2;
  } else if (name == "dmask") {
    in.dmask = static_cast<uint8_t>(*v & 255);
  } else if (name == "cbsz") {
    in.cbsz = static_cast<uint8_t>(*v & 7);
  } else if (name == "abid") {
    in.abid = static_cast<uint8_t>(*v & 15);
  } else if (name == "blgp") {
    in.blgp = static_cast<uint8_t>(*v & 7);
  } else if (name == "bitop3") {
    in.bitop3 = static_cast<uint8_t>(*v & 255);
  } else if (name == "fi") {
    in.fi = *v != 0;
  } else {
    return false;
  }
  return true;
}

// "[BUF_DATA_FORMAT_32,BUF_NUM_FORMAT_FLOAT]", either of the two, or a number; the names are listed in the order of
// their codes.
bool parse_format(std::string_view s, uint8_t& format) {
  static constexpr std::string_view kData[] = {
      "INVALID",    "8",          "16",      "8_8",   "32",          "16_16",    "10_11_11",    "11_11_10",
      "10_10_10_2", "2_10_10_10", "8_8_8_8", "32_32", "16_16_16_16", "32_32_32", "32_32_32_32", "RESERVED_15"};
  static constexpr std::string_view kNumber[] = {"UNORM", "SNORM", "USCALED",    "SSCALED",
                                                 "UINT",  "SINT",  "RESERVED_6", "FLOAT"};
  if (const auto v = integer(s)) {
    format = static_cast<uint8_t>(*v & 127);
    return *v >= 0 && *v < 128;
  }
  if (!eat(s, "[") || !s.ends_with(']')) return false;
  s.remove_suffix(1);
  while (!s.empty()) {
    std::string_view name = text::trim(text::take(s, ','));
    const bool data = eat(name, "BUF_DATA_FORMAT_");
    if (!data && !eat(name, "BUF_NUM_FORMAT_")) return false;
    const std::span<const std::string_view> names =
        data ? std::span<const std::string_view>(kData) : std::span<const std::string_view>(kNumber);
    const auto found = std::ranges::find(names, name);
    if (found == names.end()) return false;
    const auto code = static_cast<unsigned>(found - names.begin());
    format = static_cast<uint8_t>(data ? (format & 0x70u) | code : (format & 15u) | code << 4);
  }
  return true;
}

bool parse_one(std::string_view token, const Signature& sig, Inst& in) {
  for (const auto& [name, flag] : kFlags) {
    if (token == name) {
      in.*flag = true;
      return true;
    }
  }
  std::string_view value = token;
  const std::string_view name = text::take(value, ':');
  if (name == "format") return parse_format(value, in.format);
  if (name.starts_with("op_sel") || name.starts_with("neg")) return parse_select(name, value, sig, in);
  if (name.starts_with("dst_") || name.ends_with("_sel")) return parse_sdwa(name, value, in);
  if (name.starts_with("row_") || name.starts_with("wave_") || name == "quad_perm" || name == "bank_mask" ||
      name == "bound_ctrl") {
    return parse_dpp(name, value, in.dpp);
  }
  return parse_number(name, value, in, in);
}

}  // namespace

std::string parse_modifiers(std::string_view s, const Signature& sig, Inst& in) {
  s = text::trim(s);
  while (!s.empty()) {
    const std::string_view token = text::take(s, ' ');
    s = text::trim(s);
    if (token.empty()) continue;
    if (!parse_one(token, sig, in)) return std::string(token);
  }
  return "";
}

}  // namespace hipsynth
