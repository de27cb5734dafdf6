#include "core/program.h"

#include <algorithm>

namespace hipsynth {
namespace {

static_assert(std::ranges::all_of(kArchTraits, [](const ArchTraits& a) { return a.wave_lanes == kLanes; }));

// True if EXEC is among the explicit or implied destinations.
bool writes_exec(const Inst& inst) {
  if (inst.op->writes & implied::exec) return true;
  for (const Operand* o : {&inst.dst, &inst.sdst}) {
    if (o->kind == OperandKind::sgpr && o->reg <= kExecHi && o->reg + o->dwords > kExecLo) return true;
  }
  return false;
}

// If the L2 flushes denormals in float additions, its atomics differ from the LDS's.
AtomicFn atomic_of(const OpInfo& op, Arch arch, bool exact_sums) {
  return find_atomic(op.mem.op, traits(arch).l2_add_f32_flushes && op.unit == Unit::vmem, exact_sums);
}

void resolve(const Inst& inst, Arch arch, bool exact_sums, Step* step) {
  const OpInfo& op = *inst.op;
  step->fn = inst.fn;
  step->lane_bytes = static_cast<uint8_t>(op.mem.elem_bytes * op.mem.count);
  step->action = op.action;
  if (op.unit == Unit::flow) {
    step->condition = op.condition;
    step->target = static_cast<uint32_t>(inst.imm);
  }
  if (op.action == Action::alu && writes_exec(inst)) step->action = Action::alu_exec;
  if (op.action == Action::trap && inst.imm > kAbortTrap) step->action = Action::skip;  // meant for a debugger
  if (op.mem.kind == MemKind::atomic) step->atomic = atomic_of(op, arch, exact_sums);
}

uint32_t issue_cycles(const Spec& spec, Arch arch, const Inst& inst) {
  const OpInfo& op = *inst.op;
  double cycles = spec.issue.wave_cycles;
  if (op.unit == Unit::valu) {
    if (op.rate == Rate::mfma) return matrix_cycles(inst, arch);
    cycles = op.rate == Rate::trans       ? spec.issue.trans_cycles
             : op.rate == Rate::f64       ? spec.issue.f64_cycles
             : op.rate == Rate::int64_mul ? spec.issue.int64_mul_cycles
                                          : spec.issue.valu_cycles;
  }
  return static_cast<uint32_t>(cycles);
}

}  // namespace

std::unique_ptr<Program> make_program(const Module& module, const Spec& spec, bool exact_sums) {
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
    if (!code.refused.contains(index)) resolve(inst, code.arch, exact_sums, &step);
    program->steps.push_back(step);
    program->issued.push_back(cycles);
    cycles += issue_cycles(spec, code.arch, inst);
  }
  program->issued.push_back(cycles);
  program->steps.push_back(Step{nullptr, nullptr, nullptr, Action::trap});  // running past the end traps
  return program;
}

}  // namespace hipsynth
