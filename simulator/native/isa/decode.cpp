// Decodes llvm-objdump text, or plain assembler lines, into instructions.
#include <set>
#include <string_view>
#include <unordered_map>

#include "isa/syntax.h"
#include "isa/text.h"

namespace hipsynth {
namespace {

using text::trim;

constexpr uint64_t kMaxText = 1u << 26;  // bytes of one code object's text

// Placeholder for an instruction that cannot execute.
const OpInfo& refused_op() {
  static const OpInfo op = [] {
    OpInfo o;
    o.name = "refused";
    return o;
  }();
  return op;
}

Type type_of(std::string_view t) {
  static const std::unordered_map<std::string_view, Type> kTypes = {
      {"b16", Type::b16},      {"u16", Type::b16},       {"i16", Type::b16},      {"h16", Type::f16},
      {"f16", Type::f16},      {"f16s", Type::f16},      {"pk_f16s", Type::pk16}, {"b32", Type::b32},
      {"u32", Type::b32},      {"i32", Type::b32},       {"f32bits", Type::f32},  {"f32", Type::f32},
      {"f64bits", Type::f64},  {"b64", Type::b64},       {"u64", Type::b64},      {"i64", Type::i64},
      {"f64", Type::f64},      {"b128", Type::b128},     {"pk_f16", Type::pk16},  {"pk_u16", Type::pki16},
      {"pk_i16", Type::pki16}, {"pk_bf16", Type::pkb16}, {"pk_f32", Type::pk32},  {"pk_b32", Type::pk32},
      {"mask", Type::mask},    {"mix", Type::mix},       {"mat", Type::mat},      {"mx", Type::mx},
      {"acc", Type::acc},      {"quad", Type::acc},      {"wide", Type::wide},    {"addr", Type::addr},
      {"saddr", Type::saddr}};
  return kTypes.at(t);
}

struct Decoder {
  Arch arch;
  DecodeResult result;
  std::set<std::string> unsupported;
  std::unordered_map<std::string_view, std::pair<const OpInfo*, const Signature*>> ops;
  std::unordered_map<std::string, uint32_t> labels;
  struct Fixup {
    uint32_t index;
    bool numeric;
    uint64_t address;
    std::string label;
  };
  std::vector<Fixup> fixups;
  uint64_t next_address = 0;
  bool based = false;

  explicit Decoder(Arch a);
  void line(std::string_view s);
  void instruction(std::string_view s, std::string_view comment);
  std::string read(std::string_view s, Inst& in);
  bool operands(const Signature& sig, std::string_view& s, Inst& in);
  bool one_operand(const SlotSpec& spec, std::string_view text, Inst& in);
  void append_padding_trap();
  void append(Inst& in, std::string_view text);
  void finish();
  void complain(std::string message) { unsupported.insert(std::move(message)); }
};

const std::vector<Signature>& signatures() {
  static const std::vector<Signature> all = [] {
    std::vector<Signature> v;
    for (const OpInfo& op : opcode_table()) v.push_back(parse_signature(op));
    return v;
  }();
  return all;
}

Decoder::Decoder(Arch a) : arch(a) {
  result.code.arch = a;
  const auto& table = opcode_table();
  const auto& sigs = signatures();
  ops.reserve(table.size());
  for (size_t i = 0; i < table.size(); ++i) {
    if (table[i].archs & (1u << static_cast<int>(a))) ops.emplace(table[i].name, std::pair{&table[i], &sigs[i]});
  }
}

struct Comment {
  uint64_t address = 0;
  uint8_t size = 0;  // 0: none given
};
// " 000000001900: C0020002 0000002C <sym+0x7c>"
Comment parse_comment(std::string_view s) {
  Comment c;
  s = trim(s);
  const size_t colon = s.find(':');
  if (colon == std::string_view::npos || colon == 0) return c;
  uint64_t address = 0;
  const auto [end, error] = std::from_chars(s.data(), s.data() + colon, address, 16);
  if (error != std::errc{} || end != s.data() + colon) return c;
  s = trim(s.substr(colon + 1));
  int words = 0;
  while (!s.empty() && s.front() != '<') {
    text::take(s, ' ');
    s = trim(s);
    ++words;
  }
  if (words == 0 || words > 5) return c;
  c.address = address;
  c.size = static_cast<uint8_t>(4 * words);
  return c;
}

// Mnemonic without encoding suffixes.
std::string_view base_name(std::string_view name) {
  for (const std::string_view suffix : {"_dpp", "_sdwa", "_e32", "_e64"}) {
    if (name.ends_with(suffix)) name.remove_suffix(suffix.size());
  }
  return name;
}

bool Decoder::one_operand(const SlotSpec& spec, std::string_view s, Inst& in) {
  switch (spec.slot) {
    case Slot::dst:
      return parse_operand(s, spec.type, in.dst) && in.dst.kind != OperandKind::constant;
    case Slot::sdst:
      return parse_operand(s, spec.type, in.sdst) && in.sdst.kind != OperandKind::constant;
    case Slot::src0:
      return parse_operand(s, spec.type, in.src[0]);
    case Slot::src1:
      return parse_operand(s, spec.type, in.src[1]);
    case Slot::src2:
      return parse_operand(s, spec.type, in.src[2]);
    case Slot::src3:
      return parse_operand(s, spec.type, in.src[3]);
    case Slot::src4:
      return parse_operand(s, spec.type, in.src[4]);
    case Slot::hwreg:
      return parse_hwreg(s, in.imm);
    case Slot::sendmsg:
      return parse_sendmsg(s, in.imm);
    case Slot::gpridx:
      return parse_gpridx(s, in.imm);
    case Slot::waitcnt:
      return parse_waitcnt(s, in.imm);
    case Slot::imm: {
      const auto v = text::integer(trim(s));
      if (!v) return false;
      in.imm = in.op->unit == Unit::salu ? static_cast<int16_t>(*v) : *v;
      return true;
    }
    case Slot::soffset: {
      if (const auto v = text::integer(trim(s))) {
        in.imm = *v;
        return true;
      }
      return parse_operand(s, Type::b32, in.src[1]);
    }
    case Slot::target: {
      const auto v = text::integer(trim(s));
      // In objdump text the offset counts dwords after the instruction; without addresses each line counts as one
      // dword.
      const uint64_t to = v ? in.address + 4 + static_cast<uint64_t>(static_cast<int16_t>(*v)) * 4 : 0;
      fixups.push_back({static_cast<uint32_t>(result.code.insts.size()), v.has_value(), to, std::string(trim(s))});
      return !trim(s).empty();
    }
  }
  return false;
}

// Splits off the operand list; leaves the modifiers in `s`.
bool Decoder::operands(const Signature& sig, std::string_view& s, Inst& in) {
  std::string_view parts[8];
  size_t n = 0;
  if (sig.slots.empty()) return true;
  if (sig.slots.front().slot == Slot::waitcnt) {
    const std::string_view all = s;
    s = {};
    return one_operand(sig.slots.front(), all, in);
  }
  for (;;) {
    s = trim(s);
    if (s.empty() || n == 8) break;
    // An operand ends at a comma or, if none follows, at a space.
    std::string_view rest = s;
    const std::string_view to_comma = text::take(rest, ',');
    std::string_view word_rest = s;
    const std::string_view to_space = text::take(word_rest, ' ');
    if (to_space.size() < to_comma.size() && trim(to_comma.substr(to_space.size())).size() > 0) {
      parts[n++] = to_space;
      s = word_rest;
      break;
    }
    parts[n++] = trim(to_comma);
    const bool more = to_comma.size() < s.size();
    s = rest;
    if (!more) break;
  }
  size_t required = 0;
  for (const SlotSpec& spec : sig.slots) required += spec.optional ? 0 : 1;
  if (n < required || n > sig.slots.size()) return false;
  bool spare = n > required;
  size_t k = 0;
  for (const SlotSpec& spec : sig.slots) {
    if (spec.optional && !spare) continue;
    if (spec.optional) spare = false;
    if (!one_operand(spec, parts[k++], in)) return false;
  }
  return true;
}

bool needs_general(const Inst& in, const Signature& sig) {
  if (in.sdwa || in.dpp.present || in.clamp || in.omod) return true;
  if (in.op->selects) return false;
  return in.op_sel || (sig.packed && (in.op_sel_hi != 7 || in.neg_lo || in.neg_hi));
}

bool is_plain(const Inst& in) {
  if (in.op_sel || in.op_sel_hi != 7 || in.neg_lo || in.neg_hi) return false;
  for (const Operand& o : in.src) {
    if (o.neg || o.abs || o.kind == OperandKind::agpr || o.kind == OperandKind::special) return false;
  }
  return in.dst.kind != OperandKind::agpr;
}

// Clamping an integer result needs a saturating handler. Returns an error message or "".
std::string choose_handler(Inst& in, const Signature& sig) {
  const OpInfo& op = *in.op;
  in.fn = op.handler;
  in.plain = is_plain(in);
  if (op.general == nullptr) return "";
  if (in.clamp && sig.has_result && !sig.float_result && op.saturating == nullptr) {
    return std::string(op.name) + ": clamp is not executed for this opcode";
  }
  if (needs_general(in, sig)) in.fn = op.general;
  return "";
}

constexpr uint8_t kMostCoordinates = 4;  // x, y, z or layer, mip level

// Buffer and scalar atomics name the data register once: it is also the destination if the old value is returned.
void finish_memory(Inst& in) {
  const MemDesc& m = in.op->mem;
  const bool scalar = in.op->unit == Unit::smem, image = m.space == MemSpace::image && !m.typed_buffer();
  if ((m.space == MemSpace::buffer || scalar || image) && m.kind == MemKind::atomic && (in.glc || in.sc0)) {
    in.dst = in.src[scalar ? 2 : 1];
    if (m.compares()) in.dst.dwords = static_cast<uint8_t>(in.dst.dwords / 2);
  }
  // Image instructions name only the first coordinate; their number depends on the image.
  if (image) in.src[0].dwords = kMostCoordinates;
}

// Padding or data between functions: executing it is an error.
void Decoder::append_padding_trap() {
  Inst in;
  in.op = ops.at("s_trap").first;
  in.address = next_address;
  in.size = 0;
  in.imm = kAbortTrap;
  result.code.insts.push_back(in);
  result.code.text.emplace_back("bytes that are no instruction");
}

void Decoder::append(Inst& in, std::string_view s) {
  Code& code = result.code;
  const size_t word = (in.address - code.base) / 4;
  if (code.index_by_word.size() < word + in.size / 4) code.index_by_word.resize(word + in.size / 4, ~0u);
  code.index_by_word[word] = static_cast<uint32_t>(code.insts.size());
  code.insts.push_back(in);
  code.text.emplace_back(s);
}

// An inline constant such as 1.0 is a half where v_fma_mix reads one; integers are the same bits in both formats.
void halve_constants(Inst& in, const Signature& sig) {
  constexpr uint64_t kLargest = 64, kLowest = 0xffff'fff0;
  for (int k = 0; k < sig.sources; ++k) {
    Operand& o = in.src[k];
    const bool is_float = o.kind == OperandKind::constant && o.value > kLargest && o.value < kLowest;
    if (!is_float || !((in.op_sel_hi >> k) & 1)) continue;
    const auto value = std::bit_cast<float>(static_cast<uint32_t>(o.value));
    o.value = std::bit_cast<uint16_t>(static_cast<_Float16>(value));
  }
}

// Decodes one instruction's text into `in`; returns an error message or "".
std::string Decoder::read(std::string_view s, Inst& in) {
  std::string_view rest = s;
  size_t end = 0;
  while (end < rest.size() && !text::is_space(rest[end])) ++end;
  const std::string_view mnemonic = rest.substr(0, end);
  rest = trim(rest.substr(end));
  auto it = ops.find(mnemonic);
  if (it == ops.end()) it = ops.find(base_name(mnemonic));
  if (it == ops.end()) return std::string(mnemonic) + ": no such opcode in the table";
  const auto& [op, sig] = it->second;
  in.op = op;
  if (op->refused[0] != '\0') return std::string(op->name) + ": " + op->refused;
  in.op_sel_hi = sig->mix ? 0 : 7;
  if (mnemonic.ends_with("_sdwa")) in.sdwa = true;
  if (!operands(*sig, rest, in)) return "bad operands: " + std::string(s);
  const std::string unknown = parse_modifiers(rest, *sig, in);
  if (!unknown.empty()) return "unknown modifier '" + unknown + "': " + std::string(s);
  if (sig->mix) halve_constants(in, *sig);
  if (sig->accumulates) in.src[2] = in.dst;
  if (sig->reads_vcc) {
    in.src[3].kind = OperandKind::sgpr;
    in.src[3].reg = kVccLo;
    in.src[3].dwords = 2;
  }
  finish_memory(in);
  if (!operands_ok(in, *sig)) return "bad operands: " + std::string(s);
  return choose_handler(in, *sig);
}

void Decoder::instruction(std::string_view s, std::string_view comment) {
  const Comment c = parse_comment(comment);
  Inst in;
  in.size = c.size ? c.size : 4;
  in.address = c.size ? c.address : next_address;
  if (!based) {
    result.code.base = in.address;
    based = true;
  }
  if (in.address < next_address) return complain("addresses go backwards");
  if (in.address - result.code.base > kMaxText) return complain("addresses are too far apart");
  if (in.address > next_address && !result.code.insts.empty()) append_padding_trap();
  next_address = in.address + in.size;
  const size_t fixups_before = fixups.size();
  std::string complaint = read(s, in);
  if (!complaint.empty()) {
    fixups.resize(fixups_before);
    Inst refused;
    refused.op = &refused_op();
    refused.size = in.size;
    refused.address = in.address;
    in = refused;
    result.code.refused.emplace(static_cast<uint32_t>(result.code.insts.size()), complaint);
    complain(std::move(complaint));
  }
  append(in, s);
}

void Decoder::line(std::string_view s) {
  const bool indented = !s.empty() && text::is_space(s.front());
  std::string_view comment;
  if (const size_t at = s.find("//"); at != std::string_view::npos) {
    comment = s.substr(at + 2);
    s = s.substr(0, at);
  } else if (const size_t semi = s.find(';'); semi != std::string_view::npos) {
    s = s.substr(0, semi);
  }
  s = trim(s);
  if (s.empty() || s == "...") return;
  if (s.back() == ':' && s.find(' ') == std::string_view::npos) {
    labels[std::string(s.substr(0, s.size() - 1))] = static_cast<uint32_t>(result.code.insts.size());
    return;
  }
  if (!indented && (s.ends_with(":") || s.find("file format") != std::string_view::npos)) return;
  if (s.front() == '.') return;  // .long padding, directives
  instruction(s, comment);
}

void Decoder::finish() {
  Code& code = result.code;
  for (const Fixup& f : fixups) {
    if (f.index >= code.insts.size()) continue;
    uint32_t to = ~0u;
    if (f.numeric) {
      const uint64_t word = (f.address - code.base) / 4;
      if (f.address >= code.base && word < code.index_by_word.size()) to = code.index_by_word[word];
    } else if (const auto it = labels.find(f.label); it != labels.end() && it->second < code.insts.size()) {
      to = it->second;
    }
    if (to == ~0u) {
      std::string complaint = "branch to nowhere: " + code.text[f.index];
      code.insts[f.index].op = &refused_op();
      code.refused.emplace(f.index, complaint);
      complain(std::move(complaint));
      continue;
    }
    code.insts[f.index].imm = to;
  }
  result.unsupported.assign(unsupported.begin(), unsupported.end());
}

}  // namespace

Signature parse_signature(const OpInfo& op) {
  static const std::unordered_map<std::string_view, Slot> kSlots = {
      {"d", Slot::dst},         {"e", Slot::sdst},          {"a", Slot::src0},      {"b", Slot::src1},
      {"c", Slot::src2},        {"x", Slot::src3},          {"y", Slot::src4},      {"k", Slot::imm},
      {"target", Slot::target}, {"waitcnt", Slot::waitcnt}, {"hwreg", Slot::hwreg}, {"sendmsg", Slot::sendmsg},
      {"gpridx", Slot::gpridx}, {"soff", Slot::soffset}};
  Signature sig;
  std::string_view s = op.signature;
  while (!s.empty()) {
    std::string_view token = text::take(s, ' ');
    if (token == "c=d") sig.accumulates = true;
    if (token == "x=vcc") sig.reads_vcc = true;
    if (token.find('=') != std::string_view::npos) continue;
    std::string_view name = text::take(token, ':');
    SlotSpec spec;
    spec.optional = name.ends_with('?');
    if (spec.optional) name.remove_suffix(1);
    spec.slot = kSlots.at(name);
    if (token.starts_with("mat") || token.starts_with("mx") || token.starts_with("acc") || token.starts_with("wide") ||
        token.starts_with("quad")) {
      const size_t digits = token.find_first_of("0123456789");
      spec.dwords = static_cast<uint8_t>(text::integer(token.substr(digits)).value_or(0));
      token = token.substr(0, digits);
    }
    if (!token.empty()) spec.type = type_of(token);
    sig.packed |=
        spec.type == Type::pk16 || spec.type == Type::pki16 || spec.type == Type::pkb16 || spec.type == Type::pk32;
    sig.mix |= spec.type == Type::mix;
    if (spec.slot == Slot::dst) {
      sig.has_result = true;
      sig.float_result = token == "f16" || token == "f32" || token == "f64" || token == "pk_f16" || token == "pk_f32";
    }
    if (spec.slot >= Slot::src0 && spec.slot <= Slot::src3) ++sig.sources;
    sig.slots.push_back(spec);
  }
  return sig;
}

DecodeResult decode(Arch arch, const std::string& objdump_text) {
  Decoder d(arch);
  std::string_view rest = objdump_text;
  const size_t guess = rest.size() / 60;
  d.result.code.insts.reserve(guess);
  d.result.code.text.reserve(guess);
  while (!rest.empty()) {
    const size_t end = rest.find('\n');
    d.line(rest.substr(0, end));
    rest = end == std::string_view::npos ? std::string_view{} : rest.substr(end + 1);
  }
  d.finish();
  return std::move(d.result);
}

}  // namespace hipsynth
