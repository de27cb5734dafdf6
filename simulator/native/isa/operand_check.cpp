// Checks which operands each slot of an instruction may hold. Handlers and the engine index register files by operand
// without further checks, so nothing that breaks these rules may be decoded, even from malicious text.
#include <bit>
#include <string_view>

#include "isa/syntax.h"

namespace hipsynth {
namespace {

bool vector(const Operand& o) { return o.kind == OperandKind::vgpr || o.kind == OperandKind::agpr; }
bool scalar(const Operand& o) { return o.kind == OperandKind::sgpr; }
bool vectors(const Operand& o, uint32_t dwords) { return vector(o) && o.dwords == dwords; }
bool scalars(const Operand& o, uint32_t dwords) { return scalar(o) && o.dwords == dwords; }
bool absent(const Operand& o) { return o.kind == OperandKind::none; }
bool off(const Operand& o) { return o.kind == OperandKind::off; }
bool scalar_or_constant(const Operand& o) {
  return scalars(o, 1) || o.kind == OperandKind::constant || o.kind == OperandKind::off;
}

uint32_t dwords_of(uint32_t bytes) { return (bytes + 3) / 4; }

const Operand* operand_of(const Inst& in, Slot slot) {
  switch (slot) {
    case Slot::dst:
      return &in.dst;
    case Slot::sdst:
      return &in.sdst;
    case Slot::src0:
      return &in.src[0];
    case Slot::src1:
      return &in.src[1];
    case Slot::src2:
      return &in.src[2];
    case Slot::src3:
      return &in.src[3];
    case Slot::src4:
      return &in.src[4];
    default:
      return nullptr;
  }
}

// Operands whose format is a modifier: as many registers as the format needs.
bool mx_ok(const Inst& in, Slot slot, const Operand& o) {
  const uint8_t format = slot == Slot::src0 ? in.cbsz : in.blgp;
  return format < kMxFormats && vectors(o, kMxDwords[format]);
}

bool one_row(Type t) {
  return t == Type::b32 || t == Type::f32 || t == Type::b16 || t == Type::f16 || t == Type::pk16 || t == Type::pki16 ||
         t == Type::pkb16;
}

// Widths of ALU operands; wide types were already checked during parsing.
bool alu_widths_ok(const Inst& in, const Signature& sig) {
  for (const SlotSpec& s : sig.slots) {
    const Operand* o = operand_of(in, s.slot);
    if (o == nullptr || absent(*o)) continue;
    if (in.op->unit == Unit::salu && vector(*o)) return false;
    if (s.type == Type::mx) {
      if (!mx_ok(in, s.slot, *o)) return false;
      continue;
    }
    if (s.dwords != 0 && vector(*o) && o->dwords != s.dwords) return false;
    if (s.dwords != 0 && !vector(*o) && s.slot != Slot::src2) return false;
    if (one_row(s.type) && (vector(*o) || scalar(*o)) && o->dwords != 1) return false;
  }
  return true;
}

bool valu_ok(const Inst& in, const Signature& sig) {
  const std::string_view name = in.op->name;
  if (name == "v_readlane_b32") return vector(in.src[0]) && scalar(in.dst);
  if (name == "v_readfirstlane_b32") return scalar(in.dst);
  if (in.op->exchanges) return vector(in.dst) && vector(in.src[0]);
  if (name.starts_with("v_cvt_scalef32_") && in.src[0].kind == OperandKind::constant) return false;  // of which format?
  if (sig.has_result && !vector(in.dst)) return false;
  return absent(in.sdst) || scalars(in.sdst, 2);
}

bool salu_ok(const Inst& in) {
  const std::string_view name = in.op->name;
  if (name.starts_with("s_movrels")) return scalar(in.dst) && scalar(in.src[0]);
  return !name.starts_with("s_movreld") || scalar(in.dst);
}

bool smem_ok(const Inst& in) {
  const MemDesc& m = in.op->mem;
  const uint32_t dwords = m.count * (m.elem_bytes / 4u);
  if (m.kind == MemKind::cache) return true;
  if (m.kind == MemKind::time) return scalars(in.dst, 2);
  const bool base = scalars(in.src[0], m.space == MemSpace::buffer ? 4 : 2);  // a buffer resource or an address
  const bool offset = absent(in.src[1]) || scalar_or_constant(in.src[1]);
  if (m.kind == MemKind::atomic) {
    const uint32_t data = m.compares() ? 2 * dwords : dwords;
    return base && offset && scalars(in.src[2], data) && (absent(in.dst) || scalars(in.dst, dwords));
  }
  return base && offset && scalars(m.kind == MemKind::store ? in.src[2] : in.dst, dwords);
}

// The data operand of vector memory, FLAT and DS instructions.
bool data_ok(const Inst& in, const Operand& data) {
  const MemDesc& m = in.op->mem;
  const uint32_t dwords = dwords_of(m.two_addr ? m.elem_bytes : m.elem_bytes * m.count);
  if (m.kind != MemKind::atomic || m.space == MemSpace::lds) return vectors(data, dwords);
  return vectors(data, m.compares() ? 2 * dwords : dwords);
}

bool result_ok(const Inst& in) {
  const MemDesc& m = in.op->mem;
  const uint32_t dwords = dwords_of(m.elem_bytes * m.count);
  if (m.kind == MemKind::store) return absent(in.dst);
  if (m.kind == MemKind::atomic) return absent(in.dst) || vectors(in.dst, dwords);
  return m.to_lds || in.lds ? absent(in.dst) : vectors(in.dst, dwords);
}

// Loads directly into the LDS: whole elements of at most a dword, or (gfx950) three or four dwords; not through FLAT.
bool fits_lds(const Inst& in) {
  const MemDesc& m = in.op->mem;
  const uint32_t bytes = uint32_t{m.elem_bytes} * m.count;
  return m.kind == MemKind::load && bytes <= 16 && bytes != 8 && m.d16 == 0 && m.space != MemSpace::flat;
}

bool flat_ok(const Inst& in) {
  const MemDesc& m = in.op->mem;
  const bool load = m.kind == MemKind::load;
  const Operand &address = in.src[0], &base = load ? in.src[1] : in.src[2];
  if (!load && !data_ok(in, in.src[1])) return false;
  if (!result_ok(in) || (in.lds && !fits_lds(in))) return false;
  switch (m.space) {
    case MemSpace::flat:
      return vectors(address, 2);
    case MemSpace::scratch:
      return (vectors(address, 1) || off(address)) && (scalars(base, 1) || off(base));
    default:
      return scalars(base, 2) ? vectors(address, 1) || off(address) : off(base) && vectors(address, 2);
  }
}

bool buffer_ok(const Inst& in) {
  const MemDesc& m = in.op->mem;
  const uint32_t parts = static_cast<uint32_t>(in.offen) + in.idxen;
  const bool address = parts == 0 ? vectors(in.src[0], 1) || off(in.src[0]) : vectors(in.src[0], parts);
  if (in.lds && !fits_lds(in)) return false;
  if (m.kind != MemKind::load && !data_ok(in, in.src[1])) return false;
  return address && result_ok(in) && scalars(in.src[2], 4) && scalar_or_constant(in.src[3]);
}

// Typed buffers and images. dmask selects the components; the d16 forms hold two of them per register.
bool image_ok(const Inst& in) {
  const MemDesc& m = in.op->mem;
  if (m.typed_buffer()) return !in.lds && buffer_ok(in);
  const auto components = static_cast<uint32_t>(std::popcount(in.dmask & 15u));
  const bool gives = m.kind == MemKind::store || m.kind == MemKind::atomic;
  const Operand& data = gives ? in.src[1] : in.dst;
  if (m.kind == MemKind::atomic && in.dmask != (m.compares() ? 3 : 1)) return false;  // cmpswap: two dwords
  const bool resource = scalars(in.src[2], 8) && (m.kind != MemKind::sample || scalars(in.src[3], 4));
  const bool plain = !in.tfe && !in.lwe && in.dmask <= 15 && components > 0;
  return plain && resource && in.src[0].kind == OperandKind::vgpr &&
         vectors(data, in.d16 ? (components + 1) / 2 : components);
}

bool vmem_ok(const Inst& in) {
  const MemDesc& m = in.op->mem;
  if (m.kind == MemKind::cache) return true;
  if (m.space == MemSpace::image) return image_ok(in);
  return m.space == MemSpace::buffer ? buffer_ok(in) : flat_ok(in);
}

bool lds_ok(const Inst& in, const Signature& sig) {
  const MemDesc& m = in.op->mem;
  if (m.kind == MemKind::none) return true;
  if (m.kind == MemKind::append) return vectors(in.dst, 1);
  if (m.op == MemOp::addtid && sig.sources + sig.has_result == 1)  // addressed by work-item number
    return m.kind == MemKind::load ? vectors(in.dst, 1) : vectors(in.src[1], 1);
  if (!vectors(in.src[0], 1)) return false;
  if (m.kind == MemKind::cross_lane) return vectors(in.dst, 1) && (sig.sources < 2 || vectors(in.src[1], 1));
  if (!result_ok(in)) return false;
  if (sig.has_result && absent(in.dst)) return false;
  return (sig.sources < 2 || data_ok(in, in.src[1])) && (sig.sources < 3 || data_ok(in, in.src[2]));
}

bool flow_ok(const Inst& in, const Signature& sig) {
  for (const SlotSpec& s : sig.slots) {
    const Operand* o = operand_of(in, s.slot);
    if (o != nullptr && !(s.type == Type::b32 ? vectors(*o, 1) : scalars(*o, 2))) return false;
  }
  return true;
}

bool unit_ok(const Inst& in, const Signature& sig) {
  switch (in.op->unit) {
    case Unit::valu:
      return alu_widths_ok(in, sig) && valu_ok(in, sig);
    case Unit::salu:
      return alu_widths_ok(in, sig) && salu_ok(in);
    case Unit::flow:
      return flow_ok(in, sig);
    case Unit::smem:
      return smem_ok(in);
    case Unit::vmem:
      return vmem_ok(in);
    case Unit::lds:
      return lds_ok(in, sig);
  }
  return false;
}

}  // namespace

bool operands_ok(const Inst& in, const Signature& sig) {
  for (const Operand* o : {&in.dst, &in.sdst, &in.src[0], &in.src[1], &in.src[2], &in.src[3], &in.src[4]}) {
    if (scalar(*o) && o->reg + o->dwords > kScalarRegs) return false;
  }
  return unit_ok(in, sig);
}

}  // namespace hipsynth
