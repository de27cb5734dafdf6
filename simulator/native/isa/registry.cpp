// The opcode table as chosen for the host CPU, and GPR-index mode.
#include <cstdlib>
#include <span>
#include <string_view>

#include "isa/alu.h"
#include "isa/table.h"

namespace hipsynth {
namespace {

// HIPSYNTH_ISA_LEVEL=x86-64-v3 selects AVX2 on a CPU that has AVX-512; results are the same.
bool use_v4() {
  static const bool yes = [] {
    const char* wanted = std::getenv("HIPSYNTH_ISA_LEVEL");
    if (wanted != nullptr && std::string_view(wanted) == "x86-64-v3") return false;
    return __builtin_cpu_supports("x86-64-v4") != 0;
  }();
  return yes;
}

// Offsets source k (0..2) or the destination (3) by M0[7:0]; false if the result is outside the wave's registers.
bool displace(const Wave& w, Operand& o, int k) {
  if (o.kind != OperandKind::vgpr || !((w.gpr_index_mode >> k) & 1)) return true;
  o.reg = static_cast<uint16_t>(o.reg + (w.sgpr[kM0] & 0xffu));
  return o.reg + o.dwords <= w.rows;
}

}  // namespace

std::vector<OpInfo> assemble_table(const RowData* rows, size_t n, const Handlers* const* chunks) {
  std::vector<OpInfo> table;
  table.reserve(n);
  for (const RowData& r : std::span(rows, n)) {
    OpInfo& op = table.emplace_back(r.op);
    if (r.chunk < 0) continue;
    const Handlers& h = chunks[r.chunk][r.index];
    op.handler = h.handler;
    op.general = h.general;
    op.saturating = h.saturating;
    op.shape = h.shape;
    op.selects = h.selects;
  }
  return table;
}

const std::vector<OpInfo>& opcode_table() {
  static const std::vector<OpInfo> table = make_table(use_v4());
  return table;
}

const char* isa_level() { return use_v4() ? "x86-64-v4" : "x86-64-v3"; }

void execute_indexed(Wave& w, const Inst& in) {
  if (in.op->unit != Unit::valu) {
    in.fn(w, in);
    return;
  }
  // Out of range (CDNA3 ISA, "Out-of-Range GPRs"): a source reads VGPR 0; an instruction whose destination is out of
  // range has no effect.
  Inst moved = in;
  for (int k = 0; k < 3; ++k) {
    // A source that is the destination, too (v_mac, v_fmac), moves with it (CDNA3 ISA, section 6.6.2).
    const bool tied = k == 2 && std::string_view(in.op->signature).find("c=d") != std::string_view::npos;
    if (!displace(w, moved.src[k], tied ? 3 : k)) moved.src[k].reg = 0;
  }
  if (displace(w, moved.dst, 3)) moved.fn(w, moved);
}

}  // namespace hipsynth
