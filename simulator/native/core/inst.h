// A decoded instruction: the assembler text, resolved once at load time.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "architectures.h"
#include "core/action.h"
#include "core/wave.h"
#include "opcode_enums.h"

namespace hipsynth {

// The unit that executes an instruction; drives dispatch in the engine, SQ_* counters and timing.
enum class Unit : uint8_t {
  valu,  // vector ALU, incl. MFMA and cross-lane VALU
  salu,  // scalar ALU
  flow,  // s_branch*, s_cbranch*, s_endpgm, s_barrier, s_waitcnt, s_nop, s_sleep, s_setpc, s_swappc, s_getpc, s_call,
         // s_trap ...
  smem,  // s_load*, s_buffer_load*, s_dcache*, s_memtime
  vmem,  // global_*, buffer_*, scratch_*, flat_* (flat may resolve to LDS at run time)
  lds,   // ds_* (incl. ds_bpermute and friends, which touch no LDS memory)
};

// Issue rate classes; the cycles of each class are in the device tables.
enum class Rate : uint8_t { full, packed, trans, f64, int64_mul, mfma, none };

// Which SQ counter a vector instruction increments (SQ_INSTS_VALU_<...>), or a flow instruction (the last three).
enum class Count : uint8_t {
  other,
  add_f16,
  mul_f16,
  fma_f16,
  trans_f16,
  add_f32,
  mul_f32,
  fma_f32,
  trans_f32,
  add_f64,
  mul_f64,
  fma_f64,
  trans_f64,
  int32,
  int64,
  cvt,
  mfma,
  branch,
  message,
  scalar,
};

enum class OperandKind : uint8_t { none, sgpr, vgpr, agpr, constant, special, off };

// Values that are neither registers nor constants, resolved when read.
enum class Special : uint8_t {
  vccz,
  execz,
  scc,
  shared_base,
  shared_limit,
  private_base,
  private_limit,
  pops,
  lds_direct
};

struct Operand {
  OperandKind kind = OperandKind::none;
  uint8_t dwords = 1;
  bool neg = false, abs = false, sext = false;
  uint8_t sdwa_sel = 6;  // 0..3 byte, 4..5 word, 6 dword
  uint16_t reg = 0;      // first register; Special when kind == special
  uint64_t value = 0;    // constant, already converted to the operand's type and width
};

struct Wave;
struct Inst;
using AluHandler = void (*)(Wave&, const Inst&);

// Effect of a memory instruction, as data. Filled from the opcode table.
enum class MemSpace : uint8_t { none, global, flat, scratch, buffer, lds, constant, image };
enum class MemKind : uint8_t { none, load, store, atomic, cross_lane, cache, time, append, sample, query };

struct MemDesc {
  MemSpace space = MemSpace::none;
  MemKind kind = MemKind::none;
  uint8_t elem_bytes = 4;    // bytes of one element in memory
  uint8_t count = 1;         // elements per lane (dwordx4: 4)
  bool sign_extend = false;  // sbyte, sshort
  uint8_t d16 = 0;           // 0 no, 1 low half, 2 high half (the other half is kept)
  uint8_t two_addr = 0;      // ds_read2/write2: 1, st64 form: 64
  bool to_lds = false;       // global_load_lds_*
  MemOp op = MemOp::none;

  // Compare-and-swap: takes two data values.
  bool compares() const {
    return op == MemOp::cmpswap_b32 || op == MemOp::cmpswap_b64 || op == MemOp::cmpswap_f32 || op == MemOp::cmpswap_f64;
  }
  // LDS reads after which a lane has elements that other lanes addressed.
  bool transposes() const { return op >= MemOp::transposed_16 && op <= MemOp::transposed_8; }
  // Typed buffers. Their assembler text names all operand registers, unlike that of images.
  bool typed_buffer() const { return op == MemOp::format || op == MemOp::format_named; }
};

// Whether EXEC after an instruction is a subset of EXEC before it: if its first source is EXEC, or if either source is.
enum class Narrows : uint8_t { never, always, if_first, if_either };

// Whether the instruction indexes registers by M0: scalar registers of its own, or vector registers of all later
// instructions.
enum class Indexes : uint8_t { none, sgpr, vgpr };

// A row of the opcode table. The columns are described in simulator/isa/README.md.
struct OpInfo {
  const char* name = "";  // base mnemonic, no _e32/_e64/_sdwa/_dpp
  Unit unit = Unit::flow;
  Rate rate = Rate::none;
  Count count = Count::other;
  uint8_t archs = 0;  // bit per Arch
  Action action = Action::refused;
  Condition condition = Condition::none;
  uint8_t reads = 0, writes = 0;  // bits of `implied`; without EXEC as the lane mask of vector instructions
  Narrows narrows = Narrows::never;
  Indexes indexes = Indexes::none;
  int8_t adds = 0;       // the result is the first source plus (1) or minus (-1) the second, possibly with SCC as carry
  bool partial = false;  // some bits or lanes of the destination may keep their old value
  bool cross_lane = false;            // a lane's result depends on other lanes
  bool carries_up = false;            // the low dword of the result depends only on the low dwords of the sources
  bool exchanges = false;             // the source is written too
  uint16_t mfma_cycles[kArchs] = {};  // by Arch: passes * 4, matrix instructions only
  uint32_t mfma_mops = 0;             // SQ_INSTS_VALU_MFMA_MOPS_* units (512 FLOPs each) per instruction
  const char* mfma_type = "";         // "F16", "BF16", "F32", "F64", "I8"
  // The same where cbsz and blgp name the operands' formats, if neither has 8 bits; "": they do not name them.
  uint16_t narrow_cycles[kArchs] = {};
  const char* narrow_type = "";
  uint8_t flops = 0;  // floating-point operations of one active lane, matrix instructions excepted
  MemDesc mem{};
  const char* signature = "";  // typed operands as in the table, e.g. "d:f32 a:f32 b:f32"
  const char* refused = "";    // why the row is known but cannot execute; empty: it can
  // Handlers are chosen at start-up for the host CPU. Null for flow, smem, vmem, lds, which the engine executes.
  AluHandler handler = nullptr;
  AluHandler general = nullptr;     // valu: variant for SDWA, DPP, op_sel, clamp, omod (null: not needed)
  AluHandler saturating = nullptr;  // variant with clamp, for integer rows
  const void* shape = nullptr;      // operand classes for the general variant (isa/valu.h)
  bool selects = false;             // the plain handler itself applies op_sel, op_sel_hi, neg_lo and neg_hi
};

// DPP controls: the raw dpp_ctrl field value plus masks, or absent.
struct Dpp {
  bool present = false;
  uint16_t ctrl = 0;  // 9-bit DPP_CTRL encoding (quad_perm 0..0xff, row_shl 0x101.. and so on)
  uint8_t row_mask = 0xf, bank_mask = 0xf;
  bool bound_ctrl = false;
};

struct Inst {
  const OpInfo* op = nullptr;
  AluHandler fn = nullptr;  // chosen at decode: op->handler or a specialised variant of it
  Operand dst, sdst;        // sdst: carry-out / vcc destination / second result
  Operand src[5];
  bool plain = false;  // only vector registers (no AGPRs), scalars and constants, and no modifiers
  bool clamp = false;
  uint8_t omod = 0;  // 0 none, 1 *2, 2 *4, 3 /2
  uint8_t op_sel = 0, op_sel_hi = 0x7, neg_lo = 0, neg_hi = 0;
  bool sdwa = false;
  uint8_t sdwa_dst_sel = 6, sdwa_dst_unused = 0;  // unused: 0 pad, 1 sext, 2 preserve
  Dpp dpp{};
  uint8_t cbsz = 0, abid = 0, blgp = 0;  // MFMA
  uint8_t bitop3 = 0;                    // truth table of v_bitop3_*
  bool fi = false;                       // v_permlane*_swap: reads inactive lanes
  int64_t imm = 0;                       // branch target (instruction index), simm16, waitcnt, memory offset, hwreg
  int32_t offset0 = 0, offset1 = 0;      // ds_read2-style offsets
  bool glc = false, slc = false, scc = false, sc0 = false, sc1 = false, nt = false, lds = false, gds = false;
  bool offen = false, idxen = false;
  uint8_t dmask = 0;   // image instructions: component mask; unorm, da, a16, d16, tfe and lwe are theirs too
  uint8_t format = 1;  // tbuffer: data format, number format from bit 4 on; default 8-bit unorm
  bool unorm = false, da = false, a16 = false, d16 = false, tfe = false, lwe = false;
  uint64_t address = 0;  // byte address in the code object
  uint8_t size = 4;      // bytes
};

// Whether a load from memory goes to the LDS, without registers between.
inline bool loads_to_lds(const Inst& in) { return in.op->mem.to_lds || in.lds; }

// Formats of 8, 8, 6, 6 and 4 bits: what cbsz and blgp of f8f6f4 instructions name.
inline constexpr uint8_t kMxFormats = 5;
inline constexpr uint8_t kMxDwords[kMxFormats] = {8, 8, 6, 6, 4};  // of a lane's 32 elements
inline bool has_narrow_operands(const Inst& in) {
  return in.op->narrow_type[0] != '\0' && kMxDwords[in.cbsz] < 8 && kMxDwords[in.blgp] < 8;
}
inline uint32_t matrix_cycles(const Inst& in, Arch arch) {
  const auto i = static_cast<size_t>(arch);
  return has_narrow_operands(in) ? in.op->narrow_cycles[i] : in.op->mfma_cycles[i];
}
inline const char* matrix_type(const Inst& in) {
  return has_narrow_operands(in) ? in.op->narrow_type : in.op->mfma_type;
}

// "s_trap 2" ends a wave (LLVM, AMDGPUUsage); higher numbers have no effect without a debugger.
constexpr int64_t kAbortTrap = 2;

// The decoded text section of a code object. `index_of(address)` maps byte addresses for s_setpc and symbols.
struct Code {
  Arch arch = Arch::gfx90a;
  std::vector<Inst> insts;
  std::vector<uint32_t> index_by_word;  // (address - base) / 4 -> index, ~0u inside an instruction
  uint64_t base = 0;
  std::vector<std::string> text;  // assembler text per instruction, for messages
  // Instructions that cannot execute, by index, with the reason. They only affect kernels that can reach them.
  std::map<uint32_t, std::string> refused;
};

// Decodes llvm-objdump text (or plain assembler lines without addresses). Never throws: an instruction that it cannot
// decode is entered in Code::refused and listed once in `unsupported`.
struct DecodeResult {
  Code code;
  std::vector<std::string> unsupported;  // "v_foo_b32: no such opcode in the table" / "bad operand ..."
};
DecodeResult decode(Arch arch, const std::string& objdump_text);

const std::vector<OpInfo>& opcode_table();  // all rows, generated from simulator/isa/*.toml

}  // namespace hipsynth
