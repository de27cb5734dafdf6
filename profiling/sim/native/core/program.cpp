#include "core/program.h"

#include <string_view>

namespace hipsynth {
namespace {

struct FlowRow {
  std::string_view name;
  Action action;
  Condition condition = Condition::scc0;
};

constexpr FlowRow kFlow[] = {
    {"s_endpgm", Action::end},
    {"s_endpgm_saved", Action::end},
    {"s_endpgm_ordered_ps_done", Action::end},
    {"s_cbranch_cdbgsys", Action::skip},
    {"s_cbranch_cdbguser", Action::skip},
    {"s_cbranch_cdbgsys_or_user", Action::skip},
    {"s_cbranch_cdbgsys_and_user", Action::skip},
    {"s_branch", Action::branch},
    {"s_call_b64", Action::call},
    {"s_cbranch_scc0", Action::branch_if, Condition::scc0},
    {"s_cbranch_scc1", Action::branch_if, Condition::scc1},
    {"s_cbranch_vccz", Action::branch_if, Condition::vccz},
    {"s_cbranch_vccnz", Action::branch_if, Condition::vccnz},
    {"s_cbranch_execz", Action::branch_if, Condition::execz},
    {"s_cbranch_execnz", Action::branch_if, Condition::execnz},
    {"s_barrier", Action::barrier},
    {"s_waitcnt", Action::waitcnt},
    {"ds_gws_barrier", Action::grid_barrier},
    {"ds_gws_init", Action::skip},
    {"s_trap", Action::trap},
    {"s_getpc_b64", Action::get_pc},
    {"s_setpc_b64", Action::set_pc},
    {"s_swappc_b64", Action::swap_pc},
    // Hints and messages without effect on results: they cost an issue slot and nothing else.
    {"s_nop", Action::skip},
    {"s_sleep", Action::skip},
    {"s_setprio", Action::skip},
    {"s_sendmsg", Action::message},
    {"s_sendmsghalt", Action::end},
    {"s_sethalt", Action::skip},
    {"s_setkill", Action::skip},
    {"s_icache_inv", Action::skip},
    {"s_incperflevel", Action::skip},
    {"s_decperflevel", Action::skip},
    {"s_ttracedata", Action::skip},
    {"s_wakeup", Action::skip},
};

const FlowRow* find_flow(const char* name) {
  for (const FlowRow& row : kFlow) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

// True when EXEC is among the destinations, named or implied.
bool writes_exec(const Inst& inst) {
  const std::string_view name = inst.op->name;
  if (name.find("saveexec") != name.npos || name.find("wrexec") != name.npos || name.rfind("v_cmpx", 0) == 0)
    return true;
  for (const Operand* o : {&inst.dst, &inst.sdst}) {
    if (o->kind == OperandKind::sgpr && o->reg <= kExecHi && o->reg + o->dwords > kExecLo) return true;
  }
  return false;
}

// The L2 of gfx90a adds floats with denormals flushed; that of gfx942 keeps them, as the LDS does (LLVM's feature
// MemoryAtomicFAddF32DenormalSupport).
AtomicFn atomic_of(const OpInfo& op, Arch arch) {
  const bool flushes = arch == Arch::gfx90a && op.unit == Unit::vmem && std::string_view(op.mem.op) == "add_f32";
  return find_atomic(flushes ? "add_f32_flushed" : op.mem.op);
}

void resolve(const Inst& inst, Arch arch, Step* step) {
  const OpInfo& op = *inst.op;
  step->inst = &inst;
  step->fn = inst.fn;
  step->lane_bytes = static_cast<uint8_t>(op.mem.elem_bytes * op.mem.count);
  switch (op.unit) {
    case Unit::valu:
    case Unit::salu:
      step->action = writes_exec(inst) ? Action::alu_exec : Action::alu;
      return;
    case Unit::smem:
      step->action = op.mem.kind == MemKind::time ? Action::clock : Action::scalar_memory;
      break;
    case Unit::vmem:
      step->action = Action::vector_memory;
      break;
    case Unit::lds:
      step->action = Action::lds;
      break;
    case Unit::flow: {
      if (const FlowRow* row = find_flow(op.name)) {
        const bool debugger_trap = row->action == Action::trap && inst.imm > kAbortTrap;
        step->action = debugger_trap ? Action::skip : row->action;
        step->condition = row->condition;
        step->target = static_cast<uint32_t>(inst.imm);
      }
      return;
    }
  }
  if (op.mem.kind == MemKind::atomic) step->atomic = atomic_of(op, arch);
}

uint32_t issue_cycles(const SpecTable& spec, Arch arch, const OpInfo& op) {
  const char* key = "issue.wave_cycles";
  if (op.unit == Unit::valu) {
    if (op.rate == Rate::mfma) return arch == Arch::gfx942 ? op.mfma_cycles_942 : op.mfma_cycles;
    key = op.rate == Rate::trans       ? "issue.trans_cycles"
          : op.rate == Rate::f64       ? "issue.f64_cycles"
          : op.rate == Rate::int64_mul ? "issue.int64_mul_cycles"
                                       : "issue.valu_cycles";
  }
  return static_cast<uint32_t>(spec.at(key));
}

}  // namespace

std::unique_ptr<Program> make_program(const Module& module, const SpecTable& spec) {
  auto program = std::make_unique<Program>();
  program->module = &module;
  const Code& code = module.code();
  program->steps.reserve(code.insts.size() + 1);
  uint32_t cycles = 0;
  for (const Inst& inst : code.insts) {
    Step step;
    step.inst = &inst;
    step.action = Action::refused;
    const auto index = static_cast<uint32_t>(program->steps.size());
    if (!code.refused.contains(index)) resolve(inst, code.arch, &step);
    program->steps.push_back(step);
    program->issued.push_back(cycles);
    cycles += issue_cycles(spec, code.arch, *inst.op);
  }
  program->issued.push_back(cycles);
  program->steps.push_back(Step{nullptr, nullptr, nullptr, Action::trap});  // running past the end is a trap
  return program;
}

}  // namespace hipsynth
