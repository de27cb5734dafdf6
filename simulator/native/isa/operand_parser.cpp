#include <array>
#include <bit>
#include <charconv>
#include <utility>

#include "isa/syntax.h"
#include "isa/text.h"

namespace hipsynth {
namespace {

using text::eat;
using text::integer;

struct Named {
  std::string_view name;
  OperandKind kind;
  uint16_t reg;
  uint8_t dwords;
};
constexpr uint16_t special(Special s) { return static_cast<uint16_t>(s); }
constexpr Named kNamed[] = {
    {"vcc", OperandKind::sgpr, kVccLo, 2},
    {"exec", OperandKind::sgpr, kExecLo, 2},
    {"off", OperandKind::off, 0, 0},
    {"m0", OperandKind::sgpr, kM0, 1},
    {"vcc_lo", OperandKind::sgpr, kVccLo, 1},
    {"vcc_hi", OperandKind::sgpr, kVccHi, 1},
    {"exec_lo", OperandKind::sgpr, kExecLo, 1},
    {"exec_hi", OperandKind::sgpr, kExecHi, 1},
    {"null", OperandKind::off, 0, 0},
    {"flat_scratch", OperandKind::sgpr, kFlatScratchLo, 2},
    {"flat_scratch_lo", OperandKind::sgpr, kFlatScratchLo, 1},
    {"flat_scratch_hi", OperandKind::sgpr, kFlatScratchLo + 1, 1},
    {"xnack_mask", OperandKind::sgpr, kXnackMaskLo, 2},
    {"xnack_mask_lo", OperandKind::sgpr, kXnackMaskLo, 1},
    {"xnack_mask_hi", OperandKind::sgpr, kXnackMaskLo + 1, 1},
    {"src_shared_base", OperandKind::special, special(Special::shared_base), 2},
    {"src_shared_limit", OperandKind::special, special(Special::shared_limit), 2},
    {"src_private_base", OperandKind::special, special(Special::private_base), 2},
    {"src_private_limit", OperandKind::special, special(Special::private_limit), 2},
    {"src_pops_exiting_wave_id", OperandKind::special, special(Special::pops), 1},
    {"src_vccz", OperandKind::special, special(Special::vccz), 1},
    {"src_execz", OperandKind::special, special(Special::execz), 1},
    {"src_scc", OperandKind::special, special(Special::scc), 1},
    {"vccz", OperandKind::special, special(Special::vccz), 1},
    {"execz", OperandKind::special, special(Special::execz), 1},
    {"scc", OperandKind::special, special(Special::scc), 1},
};

bool parse_named(std::string_view s, Operand& out) {
  for (const Named& n : kNamed) {
    if (s != n.name) continue;
    out.kind = n.kind;
    out.reg = n.reg;
    out.dwords = n.dwords;
    return true;
  }
  return false;
}

// Parses "12" or "[4:7]" after the register letter.
bool parse_range(std::string_view s, uint32_t& first, uint32_t& count) {
  if (s.empty()) return false;
  if (s.front() != '[') {
    const auto v = integer(s);
    if (!v || *v < 0 || *v > 511 || !text::is_digit(s.front())) return false;
    first = static_cast<uint32_t>(*v);
    count = 1;
    return true;
  }
  if (s.back() != ']') return false;
  s = s.substr(1, s.size() - 2);
  const std::string_view low = text::take(s, ':');
  const auto a = integer(low);
  const auto b = s.empty() ? a : integer(s);
  if (!a || !b || *a < 0 || *b < *a || *b > 511) return false;
  first = static_cast<uint32_t>(*a);
  count = static_cast<uint32_t>(*b - *a + 1);
  return true;
}

bool parse_register(std::string_view s, Operand& out) {
  OperandKind kind;
  uint32_t base = 0, limit = 256;
  if (eat(s, "ttmp")) {
    kind = OperandKind::sgpr;
    base = 108;
    limit = 16;
  } else if (s.front() == 'v' || s.front() == 'a') {
    kind = s.front() == 'v' ? OperandKind::vgpr : OperandKind::agpr;
    s.remove_prefix(1);
  } else if (eat(s, "s")) {
    kind = OperandKind::sgpr;
    limit = 102;
  } else {
    return false;
  }
  uint32_t first = 0, count = 0;
  if (!parse_range(s, first, count) || first + count > limit || count > 32) return false;
  out.kind = kind;
  out.reg = static_cast<uint16_t>(base + first);
  out.dwords = static_cast<uint8_t>(count);
  return true;
}

bool is_wide(Type t) {
  return t == Type::b64 || t == Type::f64 || t == Type::i64 || t == Type::mask || t == Type::wide;
}
bool is_half(Type t) { return t == Type::b16 || t == Type::f16 || t == Type::pk16; }

// A decimal integer is an inline constant (sign extended); a hexadecimal one is a 32-bit literal. A float is one of the
// operand's width; packed integers get the 32 bits of the single-precision one (LLVM: getInlineEncodingV216).
bool parse_constant(std::string_view s, Type type, Operand& out) {
  out.kind = OperandKind::constant;
  out.dwords = 1;
  if (const auto v = integer(s)) {
    const bool literal = s.find('x') != std::string_view::npos;
    uint64_t bits = static_cast<uint64_t>(*v);
    if (literal && bits <= 0xffffffffull) {
      if (type == Type::f64) bits <<= 32;
      if (type == Type::i64) bits = static_cast<uint64_t>(static_cast<int64_t>(static_cast<int32_t>(bits)));
    }
    out.value = bits;
    return true;
  }
  double value = 0;
  const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), value);
  if (error != std::errc{} || end != s.data() + s.size()) return false;
  if (type == Type::pkb16) {
    out.value = std::bit_cast<uint32_t>(static_cast<float>(value)) >> 16;
  } else if (is_half(type)) {
    out.value = std::bit_cast<uint16_t>(static_cast<_Float16>(value));
  } else if (is_wide(type)) {
    out.value = std::bit_cast<uint64_t>(value);
  } else {
    out.value = std::bit_cast<uint32_t>(static_cast<float>(value));
  }
  return true;
}

// Strips neg(), abs(), sext(), -, |...| around the operand.
std::string_view strip_modifiers(std::string_view s, Operand& out) {
  for (;;) {
    if (s.ends_with(')') && (s.starts_with("neg(") || s.starts_with("abs("))) {
      (s.front() == 'n' ? out.neg : out.abs) = true;
      s = s.substr(4, s.size() - 5);
    } else if (s.ends_with(')') && s.starts_with("sext(")) {
      out.sext = true;
      s = s.substr(5, s.size() - 6);
    } else if (s.size() > 2 && s.front() == '|' && s.back() == '|') {
      out.abs = true;
      s = s.substr(1, s.size() - 2);
    } else if (s.size() > 1 && s.front() == '-' && !text::is_digit(s[1]) && s[1] != '.') {
      out.neg = true;
      s.remove_prefix(1);
    } else {
      return s;
    }
  }
}

// Register tuples must have the width of the type: wider ones would access adjacent registers. Special values are
// truncated or extended when they are read.
bool width_fits(Type type, const Operand& o) {
  if (o.kind == OperandKind::constant || o.kind == OperandKind::off || o.kind == OperandKind::special) return true;
  switch (type) {
    case Type::b16:
    case Type::f16:
    case Type::f32:
    case Type::pk16:
    case Type::pki16:
    case Type::pkb16:
    case Type::mix:
      return o.dwords == 1;
    case Type::b64:
    case Type::f64:
    case Type::i64:
    case Type::pk32:
    case Type::mask:
      return o.dwords == 2;
    case Type::b128:
      return o.dwords == 4;
    case Type::addr:
    case Type::saddr:
      return o.dwords <= 2;
    default:
      return true;
  }
}

}  // namespace

bool parse_operand(std::string_view s, Type type, Operand& out) {
  out = Operand{};
  s = strip_modifiers(text::trim(s), out);
  // A literal that could be an inline constant is written lit(0x...).
  if (s.starts_with("lit(") && s.ends_with(')')) s = s.substr(4, s.size() - 5);
  if (s.empty()) return false;
  const char c = s.front();
  const bool number = text::is_digit(c) || (c == '-' && s.size() > 1);
  if (number) return parse_constant(s, type, out);
  return (parse_register(s, out) || parse_named(s, out)) && width_fits(type, out);
}

bool parse_waitcnt(std::string_view s, int64_t& imm) {
  if (const auto v = integer(text::trim(s))) {
    imm = *v & 0xffff;
    return true;
  }
  int64_t vm = 63, exp = 7, lgkm = 15;
  s = text::trim(s);
  while (!s.empty()) {
    std::string_view token = text::take(s, ' ');
    s = text::trim(s);
    while (eat(token, "&")) {
    }
    if (token.empty()) continue;
    int64_t* field = eat(token, "vmcnt(")     ? &vm
                     : eat(token, "expcnt(")  ? &exp
                     : eat(token, "lgkmcnt(") ? &lgkm
                                              : nullptr;
    const size_t close = token.find(')');
    if (field == nullptr || close == std::string_view::npos) return false;
    const auto v = integer(token.substr(0, close));
    if (!v || *v < 0) return false;
    *field = *v;
  }
  imm = (vm & 15) | (exp & 7) << 4 | (lgkm & 15) << 8 | ((vm >> 4) & 3) << 14;
  return true;
}

bool parse_hwreg(std::string_view s, int64_t& imm) {
  static constexpr std::pair<std::string_view, int> kIds[] = {{"HW_REG_MODE", 1},
                                                              {"HW_REG_STATUS", 2},
                                                              {"HW_REG_TRAPSTS", 3},
                                                              {"HW_REG_HW_ID", 4},
                                                              {"HW_REG_GPR_ALLOC", 5},
                                                              {"HW_REG_LDS_ALLOC", 6},
                                                              {"HW_REG_IB_STS", 7},
                                                              {"HW_REG_SH_MEM_BASES", 15},
                                                              {"HW_REG_TBA_LO", 16},
                                                              {"HW_REG_TBA_HI", 17},
                                                              {"HW_REG_TMA_LO", 18},
                                                              {"HW_REG_TMA_HI", 19},
                                                              {"HW_REG_XCC_ID", 20},
                                                              {"HW_REG_SQ_PERF_SNAPSHOT_DATA", 21},
                                                              {"HW_REG_SQ_PERF_SNAPSHOT_DATA1", 22},
                                                              {"HW_REG_SQ_PERF_SNAPSHOT_PC_LO", 23},
                                                              {"HW_REG_SQ_PERF_SNAPSHOT_PC_HI", 24}};
  s = text::trim(s);
  if (const auto v = integer(s)) {
    imm = *v & 0xffff;
    return true;
  }
  if (!eat(s, "hwreg(") || !s.ends_with(')')) return false;
  s.remove_suffix(1);
  const std::string_view name = text::trim(text::take(s, ','));
  int64_t id = -1, offset = 0, width = 32;
  for (const auto& [known, number] : kIds) {
    if (name == known) id = number;
  }
  if (const auto v = integer(name)) id = *v;
  if (!s.empty()) {
    const auto o = integer(text::trim(text::take(s, ',')));
    const auto w = integer(text::trim(s));
    if (!o || !w) return false;
    offset = *o;
    width = *w;
  }
  if (id < 0 || id > 63 || offset < 0 || offset > 31 || width < 1 || width > 32) return false;
  imm = id | offset << 6 | (width - 1) << 11;
  return true;
}

bool parse_sendmsg(std::string_view s, int64_t& imm) {
  static constexpr std::pair<std::string_view, int> kMessages[] = {
      {"MSG_INTERRUPT", 1},       {"MSG_GS", 2},
      {"MSG_GS_DONE", 3},         {"MSG_SAVEWAVE", 4},
      {"MSG_STALL_WAVE_GEN", 5},  {"MSG_HALT_WAVES", 6},
      {"MSG_ORDERED_PS_DONE", 7}, {"MSG_EARLY_PRIM_DEALLOC", 8},
      {"MSG_GS_ALLOC_REQ", 9},    {"MSG_GET_DOORBELL", 10},
      {"MSG_SYSMSG", 15}};
  s = text::trim(s);
  if (const auto v = integer(s)) {
    imm = *v & 0xffff;
    return true;
  }
  if (!eat(s, "sendmsg(") || !s.ends_with(')')) return false;
  s.remove_suffix(1);
  const std::string_view name = text::trim(text::take(s, ','));
  if (const auto v = integer(name)) {
    imm = *v;
    return true;
  }
  for (const auto& [known, number] : kMessages) {
    if (name == known) {
      imm = number;
      return true;
    }
  }
  return false;
}

bool parse_gpridx(std::string_view s, int64_t& imm) {
  s = text::trim(s);
  if (const auto v = integer(s)) {
    imm = *v & 15;
    return true;
  }
  if (!eat(s, "gpr_idx(") || !s.ends_with(')')) return false;
  s.remove_suffix(1);
  imm = 0;
  while (!s.empty()) {
    const std::string_view name = text::trim(text::take(s, ','));
    if (name == "SRC0")
      imm |= 1;
    else if (name == "SRC1")
      imm |= 2;
    else if (name == "SRC2")
      imm |= 4;
    else if (name == "DST")
      imm |= 8;
    else
      return false;
  }
  return true;
}

}  // namespace hipsynth
