#include "core/register_lookahead.h"

#include <algorithm>

#include "core/waits.h"

namespace hipsynth {
namespace {

constexpr uint32_t kLookAhead = 96;  // steps to look ahead
constexpr uint32_t kNoLimit = 63;    // vector memory instructions in flight

}  // namespace

void RegisterLookahead::set_steps(const Step* steps, size_t n, uint32_t accum_offset) {
  if (steps == steps_) return;
  steps_ = steps;
  accum_offset_ = accum_offset;
  rows_.assign(n, {});
}

void RegisterLookahead::add_rows(const Step& s, Rows* rows) const {
  const Inst& in = *s.inst;
  for (const Operand* o : {&in.src[0], &in.src[1], &in.src[2], &in.src[3], &in.src[4], &in.dst}) {
    if (o->kind != OperandKind::vgpr && o->kind != OperandKind::agpr) continue;
    const uint32_t first = o->reg + (o->kind == OperandKind::agpr ? accum_offset_ : 0);
    for (uint32_t row = first; row < first + o->dwords && rows->n < kRows; ++row) {
      const auto end = rows->row.begin() + rows->n;
      if (std::find(rows->row.begin(), end, row) == end) rows->row[rows->n++] = static_cast<uint16_t>(row);
    }
  }
}

RegisterLookahead::Rows RegisterLookahead::find_rows(uint32_t pc) const {
  Rows rows;
  rows.known = true;
  for (uint32_t steps = 0; steps < kLookAhead && pc < rows_.size() && rows.n < kRows; ++steps) {
    const Step& s = steps_[pc];
    switch (s.action) {
      case Action::alu:
      case Action::alu_exec:
      case Action::vector_memory:
      case Action::lds:
        add_rows(s, &rows);
        break;
      case Action::sampled:  // LDS instructions are rarely modelled in a sample, so they need no registers
        if (s.inst->op->unit == Unit::vmem) add_rows(s, &rows);
        break;
      case Action::hop:
      case Action::branch:
        pc = s.target;
        continue;
      case Action::branch_if:
        if (s.target <= pc) {
          pc = s.target;
          continue;
        }
        break;
      case Action::waitcnt:
      case Action::sampled_wait:
        if (wait_limits(s.inst->imm).vm < kNoLimit) return rows;
        break;
      case Action::clock:
      case Action::scalar_memory:
      case Action::message:
      case Action::skip:
        break;
      default:
        return rows;
    }
    ++pc;
  }
  return rows;
}

bool RegisterLookahead::starts_without_vgprs(uint32_t pc) const {
  Rows rows;
  for (; pc < rows_.size() && rows.n == 0; ++pc) {
    const Step& s = steps_[pc];
    switch (s.action) {
      case Action::alu:
      case Action::alu_exec:
        add_rows(s, &rows);
        break;
      case Action::scalar_memory:
      case Action::clock:
      case Action::skip:
        break;
      default:
        return s.action == Action::waitcnt;
    }
  }
  return false;
}

}  // namespace hipsynth
