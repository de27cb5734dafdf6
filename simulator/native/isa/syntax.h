// The decoder's view of an opcode row: the slot of Inst for each text operand, and parsers for operands and modifiers.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/inst.h"

namespace hipsynth {

// Operand types of the table, as far as the decoder distinguishes them.
enum class Type : uint8_t {
  b16,
  b32,
  b64,
  b128,
  f16,
  f32,
  f64,
  i64,
  pk16,
  pki16,
  pkb16,
  pk32,
  mask,
  mix,
  mat,
  mx,
  acc,
  wide,
  addr,
  saddr,
};
// Destination of a parsed operand.
enum class Slot : uint8_t {
  dst,
  sdst,
  src0,
  src1,
  src2,
  src3,
  src4,
  imm,
  target,
  waitcnt,
  hwreg,
  sendmsg,
  gpridx,
  soffset
};

struct SlotSpec {
  Slot slot = Slot::dst;
  Type type = Type::b32;
  bool optional = false;
  uint8_t dwords = 0;  // exact register tuple width of matrix operands; 0: given by the type
};
struct Signature {
  std::vector<SlotSpec> slots;
  bool accumulates = false;  // "c=d"
  bool reads_vcc = false;    // "x=vcc"
  bool packed = false, mix = false, float_result = false, has_result = false;
  uint8_t sources = 0;
};
Signature parse_signature(const OpInfo& op);

// Parses one operand's text into `out`; false if it is not an operand of that type.
bool parse_operand(std::string_view text, Type type, Operand& out);

// False if an operand's kind or width is not what the instruction reads or writes.
bool operands_ok(const Inst& in, const Signature& sig);

// Immediates: s_waitcnt counters, hwreg(...), sendmsg(...), gpr_idx(...).
bool parse_waitcnt(std::string_view text, int64_t& imm);
bool parse_hwreg(std::string_view text, int64_t& imm);
bool parse_sendmsg(std::string_view text, int64_t& imm);
bool parse_gpridx(std::string_view text, int64_t& imm);

// Parses the text after the operands into modifier fields of `in`; returns the first unknown token, or "".
std::string parse_modifiers(std::string_view text, const Signature& sig, Inst& in);

}  // namespace hipsynth
