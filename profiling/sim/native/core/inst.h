// A decoded instruction: what the assembler text says, resolved once at load.
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

// Which unit executes an instruction; drives dispatch in the engine, SQ_* counters and timing.
enum class Unit : uint8_t {
  valu,  // vector ALU, incl. MFMA and cross-lane VALU
  salu,  // scalar ALU
  flow,  // s_branch*, s_cbranch*, s_endpgm, s_barrier, s_waitcnt, s_nop, s_sleep, s_setpc, s_swappc, s_getpc, s_call,
         // s_trap ...
  smem,  // s_load*, s_buffer_load*, s_dcache*, s_memtime
  vmem,  // global_*, buffer_*, scratch_*, flat_* (flat may resolve to LDS at run time)
  lds,   // ds_* (incl. ds_bpermute and friends, which touch no LDS memory)
};

// Rate classes of the issue model; cycles per class stand in the arch tables.
enum class Rate : uint8_t { full, trans, f64, int64_mul, mfma, none };

// What the SQ counts of a vector instruction (SQ_INSTS_VALU_<...>) and of a flow instruction (the last three).
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

// What a memory instruction does, as data. Filled from the opcode table.
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

  // Compare-and-swap: two data values.
  bool compares() const {
    return op == MemOp::cmpswap_b32 || op == MemOp::cmpswap_b64 || op == MemOp::cmpswap_f32 || op == MemOp::cmpswap_f64;
  }
  // Typed buffers, whose operands the text names in full, unlike those of images.
  bool typed_buffer() const { return op == MemOp::format || op == MemOp::format_named; }
};

// Whether EXEC after an instruction is a part of EXEC before: if its first source is EXEC, if either is.
enum class Narrows : uint8_t { never, always, if_first, if_either };

// Instructions that choose registers by M0: scalar ones, or vector ones of all instructions that follow.
enum class Indexes : uint8_t { none, sgpr, vgpr };

// A row of the opcode table. Columns are described in profiling/sim/isa/README.md.
struct OpInfo {
  const char* name = "";  // base mnemonic, no _e32/_e64/_sdwa/_dpp
  Unit unit = Unit::flow;
  Rate rate = Rate::none;
  Count count = Count::other;
  uint8_t archs = 0;  // bit per Arch
  Action action = Action::refused;
  Condition condition = Condition::none;
  uint8_t reads = 0, writes = 0;  // bits of `implied`; EXEC as the lane mask of vector instructions left out
  Narrows narrows = Narrows::never;
  Indexes indexes = Indexes::none;
  int8_t adds = 0;          // the result is the first source plus (1) or minus (-1) the second, perhaps with SCC
  bool partial = false;     // part of the destination's bits or lanes may keep their old value
  bool cross_lane = false;  // a lane's result depends on other lanes
  bool carries_up = false;  // the low dword of the result depends on low dwords alone
  bool exchanges = false;   // the source is written too
  uint16_t mfma_cycles[kArchs] = {};  // by Arch: passes * 4, matrix instructions only
  uint32_t mfma_mops = 0;             // SQ_INSTS_VALU_MFMA_MOPS_* units (512 FLOPs each) per instruction
  const char* mfma_type = "";         // "F16", "BF16", "F32", "F64", "I8"
  uint8_t flops = 0;                  // floating-point operations of one active lane, matrix instructions excepted
  MemDesc mem{};
  const char* signature = "";  // typed operands as in the table, e.g. "d:f32 a:f32 b:f32"
  const char* refused = "";    // why the row is known but not executed; empty: it executes
  // The rest is chosen at start, for the CPU at hand. Null for flow, smem, vmem, lds: the engine executes those.
  AluHandler handler = nullptr;
  AluHandler general = nullptr;     // valu: the form that honours SDWA, DPP, op_sel, clamp, omod (null: none needed)
  AluHandler saturating = nullptr;  // integer rows with a clamp form
  const void* shape = nullptr;      // operand classes for the general form (isa/valu.h)
  bool selects = false;             // the plain handler honours op_sel, op_sel_hi, neg_lo and neg_hi itself
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
  AluHandler fn = nullptr;  // chosen at decode: op->handler or a specialised form of it
  Operand dst, sdst;        // sdst: carry-out / vcc destination / second result
  Operand src[4];
  bool plain = false;  // vector registers (no AGPRs), scalars and constants alone, without any modifier
  bool clamp = false;
  uint8_t omod = 0;  // 0 none, 1 *2, 2 *4, 3 /2
  uint8_t op_sel = 0, op_sel_hi = 0x7, neg_lo = 0, neg_hi = 0;
  bool sdwa = false;
  uint8_t sdwa_dst_sel = 6, sdwa_dst_unused = 0;  // unused: 0 pad, 1 sext, 2 preserve
  Dpp dpp{};
  uint8_t cbsz = 0, abid = 0, blgp = 0;  // MFMA
  int64_t imm = 0;                       // branch target (instruction index), simm16, waitcnt, memory offset, hwreg
  int32_t offset0 = 0, offset1 = 0;      // ds_read2-style offsets
  bool glc = false, slc = false, scc = false, sc0 = false, sc1 = false, nt = false, lds = false, gds = false;
  bool offen = false, idxen = false;
  uint8_t dmask = 0;   // image instructions: which components; with it unnormalised, array, 16-bit and error forms
  uint8_t format = 1;  // tbuffer: data format, number format from bit 4 on; the text leaves out 8-bit unorm
  bool unorm = false, da = false, a16 = false, d16 = false, tfe = false, lwe = false;
  uint64_t address = 0;  // byte address in the code object
  uint8_t size = 4;      // bytes
};

// "s_trap 2" ends a wave (LLVM, AMDGPUUsage); higher ones do nothing without a debugger.
constexpr int64_t kAbortTrap = 2;

// A decoded code object's text section. `index_of(address)` maps byte addresses for s_setpc and symbols.
struct Code {
  Arch arch = Arch::gfx90a;
  std::vector<Inst> insts;
  std::vector<uint32_t> index_by_word;  // (address - base) / 4 -> index, ~0u in the middle of an instruction
  uint64_t base = 0;
  std::vector<std::string> text;  // assembler text per instruction, for messages
  // Instructions that cannot run, by index, and why. They matter only to kernels that can reach them.
  std::map<uint32_t, std::string> refused;
};

// Decodes llvm-objdump text (or plain assembler lines without addresses). Never throws for what it cannot read: such
// an instruction is in Code::refused, and listed once in `unsupported`.
struct DecodeResult {
  Code code;
  std::vector<std::string> unsupported;  // "v_foo_b32: no such opcode in the table" / "bad operand ..."
};
DecodeResult decode(Arch arch, const std::string& objdump_text);

const std::vector<OpInfo>& opcode_table();  // all rows, generated from profiling/sim/isa/*.toml
const OpInfo* find_opcode(Arch arch, const std::string& base_mnemonic);

}  // namespace hipsynth
