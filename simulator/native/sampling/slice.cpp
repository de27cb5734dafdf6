#include "sampling/slice.h"

#include <algorithm>
#include <bitset>
#include <optional>
#include <span>

namespace hipsynth {
namespace {

// All registers in one numbering: scalars, SCC, VGPRs, AGPRs.
constexpr uint32_t kScc = kScalarRegs, kVgpr = kScc + 1, kAgpr = kVgpr + 256, kRegs = kAgpr + 256;
using Set = std::bitset<kRegs>;

// Registers whose value is needed at a point. `wide`: needed in lanes that EXEC may disable here, so that a write under
// EXEC does not replace all of it; the others are needed only in active lanes.
struct Demand {
  Set any, wide;
  bool operator==(const Demand&) const = default;
};

enum class Write : uint8_t { full, masked, partial };  // masked: active lanes only; partial: possibly fewer

struct Range {
  uint32_t first = 0, count = 0;
};

struct Defined : Range {
  Write how = Write::full;
};

// Reads and writes of one instruction. A root always runs, whether its result is needed or not.
struct Effects {
  std::vector<Defined> defs;
  std::vector<Range> uses;
  bool root = false, reads_all_lanes = false, widens_exec = false;
  bool carries_up = false;  // the low dword of the result depends only on low dwords
};

// Kinds of memory that hold values which an instruction of the kernel needs.
struct LiveMemory {
  bool global = false, lds = false, scratch = false;
  bool operator==(const LiveMemory&) const = default;
};

Range range_of(const Operand& o) {
  switch (o.kind) {
    case OperandKind::sgpr:
      return {o.reg, o.dwords};
    case OperandKind::vgpr:
      return {kVgpr + o.reg, o.dwords};
    case OperandKind::agpr:
      return {kAgpr + o.reg, o.dwords};
    case OperandKind::special:
      if (static_cast<Special>(o.reg) == Special::scc) return {kScc, 1};
      return static_cast<Special>(o.reg) == Special::vccz ? Range{kVccLo, 2} : Range{};
    default:
      return {};
  }
}

void use(Effects* e, const Operand& o) {
  if (const Range r = range_of(o); r.count) e->uses.push_back(r);
}

void define(Effects* e, const Operand& o, Write vector) {
  if (const Range r = range_of(o); r.count) e->defs.push_back({r, r.first > kScc ? vector : Write::full});
}

bool is_exec(const Operand& o) { return o.kind == OperandKind::sgpr && o.reg == kExecLo; }

// True if EXEC afterwards is a subset of EXEC before.
bool narrows_exec(const Inst& in) {
  switch (in.op->narrows) {
    case Narrows::never:
      return false;
    case Narrows::always:
      return true;
    case Narrows::if_first:
      return is_exec(in.src[0]);
    case Narrows::if_either:
      return is_exec(in.src[0]) || is_exec(in.src[1]);
  }
  return false;
}

Write vector_write(const Inst& in) {
  const bool partial = in.op->partial || in.dpp.present || (in.sdwa && in.sdwa_dst_sel != 6);
  return partial ? Write::partial : Write::masked;
}

// Registers that the instruction uses implicitly. EXEC is always kept.
void use_implied(Effects* e, const OpInfo& op) {
  if (op.reads & implied::scc) e->uses.push_back({kScc, 1});
  if (op.reads & implied::vcc) e->uses.push_back({kVccLo, 2});
  if (op.reads & implied::m0) e->uses.push_back({kM0, 1});
  if (op.writes & implied::scc) e->defs.push_back({{kScc, 1}, Write::full});
}

Effects alu_effects(const Step& s) {
  const Inst& in = *s.inst;
  Effects e;
  for (const Operand& o : in.src) use(&e, o);
  define(&e, in.dst, vector_write(in));
  define(&e, in.sdst, Write::full);
  e.root = s.action == Action::alu_exec || (in.op->writes & implied::mode);
  e.widens_exec = s.action == Action::alu_exec && !narrows_exec(in);
  e.carries_up = in.op->carries_up && in.dst.dwords == 2;
  e.reads_all_lanes = in.dpp.present || in.op->cross_lane;
  use_implied(&e, *in.op);
  if (vector_write(in) == Write::partial) use(&e, in.dst);
  if (in.op->exchanges) {
    use(&e, in.dst);
    define(&e, in.src[0], Write::masked);
  }
  return e;
}

bool holds_live(const LiveMemory& live, const Inst& in) {
  const MemDesc& m = in.op->mem;
  if (m.to_lds || in.lds || m.space == MemSpace::lds) return live.lds;
  return m.space == MemSpace::scratch ? live.scratch : live.global;
}

// Operand slots as in simulator/isa/README.md. Addresses are always needed; data only if it is used later.
Effects memory_effects(const Inst& in, const LiveMemory& live) {
  const MemDesc& m = in.op->mem;
  Effects e;
  const bool scalar = in.op->unit == Unit::smem, flat = m.space == MemSpace::flat;
  if (m.kind == MemKind::cross_lane) {
    for (const Operand& o : in.src) use(&e, o);
    define(&e, in.dst, Write::masked);
    e.reads_all_lanes = true;
    return e;
  }
  e.root = true;
  const bool loads = m.kind == MemKind::load, data = scalar || flat || holds_live(live, in);
  for (int i = 0; i < 4; ++i) {
    const bool is_data = !loads && (m.space == MemSpace::lds ? i == 1 || i == 2 : i == 1);
    if (!is_data || data) use(&e, in.src[i]);
  }
  use_implied(&e, *in.op);
  if (in.lds) e.uses.push_back({kM0, 1});
  const bool partial = m.d16 != 0 || in.dst.kind == OperandKind::none;
  define(&e, in.dst, partial ? Write::partial : Write::masked);
  if (m.d16 != 0) use(&e, in.dst);
  e.reads_all_lanes = m.transposes();
  return e;
}

Effects flow_effects(const Step& s) {
  Effects e;
  e.root = true;
  use_implied(&e, *s.inst->op);
  return e;
}

Effects effects_of(const Step& s, const LiveMemory& live) {
  if (!s.inst) return {};
  switch (s.inst->op->unit) {
    case Unit::valu:
    case Unit::salu:
      return alu_effects(s);
    case Unit::flow:
      return flow_effects(s);
    default:
      return memory_effects(*s.inst, live);
  }
}

bool wanted(const Effects& e, const Demand& out) {
  for (const Defined& d : e.defs) {
    for (uint32_t i = 0; i < d.count; ++i) {
      if (out.any[d.first + i]) return true;
    }
  }
  return false;
}

// Updates the demand after an instruction to the demand before it.
void step_back(const Effects& e, Demand* d) {
  if (!e.root && !wanted(e, *d)) return;
  if (e.widens_exec) d->wide |= d->any;
  const bool low_only = e.carries_up && !d->any[e.defs[0].first + 1];
  for (const Defined& def : e.defs) {
    if (def.how == Write::partial) continue;
    for (uint32_t r = def.first; r < def.first + def.count; ++r) {
      if (def.how == Write::masked && d->wide[r]) continue;
      d->any.reset(r);
      d->wide.reset(r);
    }
  }
  for (const Range& range : e.uses) {
    const uint32_t count = low_only && range.first > kScc ? 1 : range.count;
    for (uint32_t r = range.first; r < range.first + count && r < kRegs; ++r) {
      d->any.set(r);
      if (e.reads_all_lanes) d->wide.set(r);
    }
  }
}

// The kernel's instructions [first, last) and the registers needed after each.
class Slice {
 public:
  Slice(const std::vector<Step>& steps, const KernelInfo& kernel)
      : steps_(steps), first_(kernel.entry), last_(kernel.end), behind_(last_ - first_) {}

  // False if control flow cannot be determined statically, or if registers are indexed through M0.
  bool analysable() const {
    for (uint32_t i = first_; i < last_; ++i) {
      const Step& s = steps_[i];
      if (s.action == Action::set_pc || s.action == Action::swap_pc || s.action == Action::call) return false;
      const bool jumps = s.action == Action::branch || s.action == Action::branch_if;
      if (jumps && (s.target < first_ || s.target >= last_)) return false;
      if (s.inst && s.inst->op->indexes != Indexes::none) return false;
    }
    return last_ > first_;
  }

  // `feedback`: values that are stored in device memory may be loaded again by the same dispatch.
  void solve(bool feedback) {
    for (LiveMemory next = live_;; live_ = next) {
      effects_.clear();
      for (uint32_t i = first_; i < last_; ++i) effects_.push_back(effects_of(steps_[i], live_));
      while (sweep()) {
      }
      next = live_memory();
      next.global &= feedback;
      if (next == live_) return;
    }
  }

  // Whether what a memory instruction loads is needed.
  bool load_wanted(uint32_t i) const {
    const Inst& in = *steps_[i].inst;
    return in.op->mem.to_lds || in.lds ? live_.lds : wanted(effects_[i - first_], behind_[i - first_]);
  }

  bool idle(uint32_t i) const {
    const Action a = steps_[i].action;
    if (a == Action::skip) return true;
    if (a != Action::alu) return false;
    const Effects& e = effects_[i - first_];
    return !e.root && !wanted(e, behind_[i - first_]);
  }

  // True for a memory instruction whose data is not needed.
  bool data_idle(uint32_t i) const {
    const Step& s = steps_[i];
    if (s.action != Action::vector_memory && s.action != Action::lds) return false;
    const MemDesc& m = s.inst->op->mem;
    if (m.space == MemSpace::flat || m.kind == MemKind::cache || m.kind == MemKind::none) return false;
    if (wanted(effects_[i - first_], behind_[i - first_])) return false;
    const bool to_register = m.kind == MemKind::cross_lane || (m.kind == MemKind::load && !m.to_lds && !s.inst->lds);
    return to_register || !holds_live(live_, *s.inst);
  }

 private:
  bool sweep() {
    bool changed = false;
    Demand d;
    for (uint32_t i = last_; i-- > first_;) {
      const Step& s = steps_[i];
      if (s.action == Action::end || s.action == Action::branch || i + 1 == last_) d = {};
      if (s.action == Action::branch || s.action == Action::branch_if) {
        const Demand& there = before_target(s.target);
        d.any |= there.any;
        d.wide |= there.wide;
      }
      changed |= !(behind_[i - first_] == d);
      behind_[i - first_] = d;
      step_back(effects_[i - first_], &d);
    }
    return changed;
  }

  Demand before_target(uint32_t i) const {
    Demand d = behind_[i - first_];
    step_back(effects_[i - first_], &d);
    return d;
  }

  LiveMemory live_memory() const {
    LiveMemory live = live_;
    for (uint32_t i = first_; i < last_; ++i) {
      const Step& s = steps_[i];
      if (s.action != Action::vector_memory && s.action != Action::lds) continue;
      const MemDesc& m = s.inst->op->mem;
      if (m.space == MemSpace::flat) return {true, true, true};
      if (m.kind == MemKind::cross_lane || !wanted(effects_[i - first_], behind_[i - first_])) continue;
      (m.space == MemSpace::lds ? live.lds : m.space == MemSpace::scratch ? live.scratch : live.global) = true;
    }
    return live;
  }

  const std::vector<Step>& steps_;
  uint32_t first_, last_;
  LiveMemory live_;
  std::vector<Effects> effects_;
  std::vector<Demand> behind_;
};

// The scalar registers that may point to the arguments before each instruction: they hold what the dispatcher gave, or
// what is computed from that and the program counter alone. Pointers among the arguments are loaded, and do not count.
class ArgumentPointers {
 public:
  ArgumentPointers(const std::vector<Step>& steps, const KernelInfo& kernel)
      : steps_(steps), first_(kernel.entry), before_(kernel.end - kernel.entry) {
    Scalars given;
    given.set();
    const uint32_t user = kernel.rsrc2 >> 1 & 0x1f, preloaded = kernel.kernarg_preload & 0x7f;
    for (uint32_t r = user - std::min(user, preloaded); r < user; ++r) given.reset(r);  // arguments themselves
    reach(first_, given);
    while (!open_.empty()) {
      const uint32_t i = open_.back();
      open_.pop_back();
      step(i);
    }
  }

  bool holds(uint32_t i, const Operand& o) const {
    const Range r = range_of(o);
    for (uint32_t k = r.first; k < r.first + r.count; ++k) {
      if (before_[i - first_].reached && !before_[i - first_].given[k]) return false;
    }
    return true;
  }

 private:
  using Scalars = std::bitset<kScc + 1>;
  struct Before {
    bool reached = false;
    Scalars given;
  };

  void reach(uint32_t i, const Scalars& given) {
    if (i - first_ >= before_.size()) return;
    Before& b = before_[i - first_];
    const Scalars both = b.reached ? b.given & given : given;
    if (b.reached && both == b.given) return;
    b = {true, both};
    open_.push_back(i);
  }

  void step(uint32_t i) {
    const Step& s = steps_[i];
    Scalars given = before_[i - first_].given;
    Effects e = effects_of(s, {true, true, true});
    if (s.action == Action::get_pc) define(&e, s.inst->dst, Write::full);
    const bool computed = s.inst && s.inst->op->unit == Unit::salu &&
                          std::all_of(e.uses.begin(), e.uses.end(), [&](const Range& r) { return all(given, r); });
    for (const Defined& d : e.defs) {
      for (uint32_t r = d.first; r < d.first + d.count && r <= kScc; ++r)
        given[r] = computed || s.action == Action::get_pc;
    }
    if (s.action == Action::branch || s.action == Action::branch_if) reach(s.target, given);
    if (s.action != Action::branch && s.action != Action::end && s.action != Action::trap) reach(i + 1, given);
  }

  static bool all(const Scalars& given, const Range& range) {
    for (uint32_t r = range.first; r < range.first + range.count; ++r) {
      if (r > kScc || !given[r]) return false;
    }
    return true;
  }

  const std::vector<Step>& steps_;
  uint32_t first_;
  std::vector<Before> before_;
  std::vector<uint32_t> open_;
};

// Atomics without a result commute if they add, or take an extreme or a bit, of integers.
bool depends_on_order(const Inst& in) {
  const MemDesc& m = in.op->mem;
  if (m.kind == MemKind::append) return true;
  return m.kind == MemKind::atomic && (in.dst.kind != OperandKind::none || !commutes(m.op));
}

}  // namespace

std::vector<Step> backward_slice(const Program& program, const KernelInfo& kernel) {
  std::vector<Step> steps = program.steps;
  Slice slice(program.steps, kernel);
  if (!slice.analysable()) return steps;
  slice.solve(true);
  uint32_t next = kernel.end;
  for (uint32_t i = kernel.end; i-- > kernel.entry;) {
    steps[i].idle_data = slice.data_idle(i);
    if (!slice.idle(i)) {
      next = i;
      continue;
    }
    steps[i].action = Action::hop;
    steps[i].target = next;
  }
  return steps;
}

bool has_outside_effect(const Step& s) {
  const bool memory = s.action == Action::vector_memory || s.action == Action::scalar_memory;
  const bool writes = memory && s.inst->op->mem.kind != MemKind::load && s.inst->op->mem.kind != MemKind::time;
  return s.action == Action::message || (writes && !s.idle_data);
}

bool is_pure(const std::vector<Step>& slice, const KernelInfo& kernel) {
  for (uint32_t i = kernel.entry; i < kernel.end; ++i) {
    const Action a = slice[i].action;
    if (has_outside_effect(slice[i]) || a == Action::call || a == Action::swap_pc || a == Action::set_pc) return false;
  }
  return true;
}

bool is_decided_by_data(const Program& program, const KernelInfo& kernel) {
  const std::vector<Step>& steps = program.steps;
  const bool is_known = Slice(steps, kernel).analysable();
  const std::optional<ArgumentPointers> given =
      is_known ? std::optional<ArgumentPointers>(std::in_place, steps, kernel) : std::nullopt;
  for (uint32_t i = kernel.entry; i < kernel.end; ++i) {
    const Step& s = steps[i];
    if (!s.inst || !s.decides || s.inst->op->mem.kind == MemKind::store) continue;
    if (s.action == Action::vector_memory) return true;
    const bool loads = s.action == Action::scalar_memory && s.inst->op->mem.kind == MemKind::load;
    if (loads && given && !given->holds(i, s.inst->src[0])) return true;
  }
  return false;
}

namespace {

bool is_changed_in(std::span<const Step> loop, const Operand& o) {
  const Range r = range_of(o);
  return std::ranges::any_of(loop, [&](const Step& s) {
    const Effects e = effects_of(s, {true, true, true});
    return std::ranges::any_of(
        e.defs, [&](const Defined& d) { return d.first < r.first + r.count && r.first < d.first + d.count; });
  });
}

// Whether an atomic tries the same exchange in each round of a loop, until another work-group has made way for it.
bool tries_again(std::span<const Step> loop, const Inst& in) {
  const MemDesc& m = in.op->mem;
  const bool exchanges = m.compares() || m.op == MemOp::swap_b32 || m.op == MemOp::swap_b64;
  return exchanges && in.dst.kind != OperandKind::none &&
         std::ranges::none_of(in.src, [&](const Operand& o) { return is_changed_in(loop, o); });
}

bool reads_stores_of_others(std::span<const Step> loop, const Step& s) {
  if (s.action != Action::vector_memory || !s.decides) return false;
  if (s.inst->op->mem.kind != MemKind::load) return tries_again(loop, *s.inst);
  return s.inst->glc || s.inst->sc0 || s.inst->sc1;
}

bool waits_in_a_loop(const std::vector<Step>& steps, const KernelInfo& kernel) {
  for (uint32_t i = kernel.entry; i < kernel.end; ++i) {
    const bool jumps = steps[i].action == Action::branch || steps[i].action == Action::branch_if;
    if (!jumps || steps[i].target > i) continue;
    const auto loop = std::span(steps).subspan(steps[i].target, i - steps[i].target);
    if (std::ranges::any_of(loop, [&](const Step& s) { return reads_stores_of_others(loop, s); })) return true;
  }
  return false;
}

}  // namespace

KernelTraits mark_decisive_loads(Program* program, const KernelInfo& kernel) {
  Slice slice(program->steps, kernel);
  KernelTraits traits{.repeatable = slice.analysable()};
  MemOp last = MemOp::none;
  for (uint32_t i = kernel.entry; i < kernel.end; ++i) {
    const Step& s = program->steps[i];
    const bool image = s.inst && s.inst->op->mem.space == MemSpace::image;
    if (image || s.action == Action::clock || s.action == Action::message || s.action == Action::grid_barrier)
      traits.repeatable = false;
    if (!s.inst || (s.inst->op->mem.kind != MemKind::atomic && s.inst->op->mem.kind != MemKind::append)) continue;
    const MemOp op = s.inst->op->mem.op;
    // Different operations do not commute with each other.
    traits.ordered |= depends_on_order(*s.inst) || (last != MemOp::none && op != last);
    last = op;
  }
  if (traits.repeatable) {
    slice.solve(false);
    for (uint32_t i = kernel.entry; i < kernel.end; ++i) {
      Step& s = program->steps[i];
      if (s.action == Action::scalar_memory || s.action == Action::vector_memory) s.decides = slice.load_wanted(i);
    }
  }
  traits.waits = waits_in_a_loop(program->steps, kernel);
  return traits;
}

}  // namespace hipsynth
