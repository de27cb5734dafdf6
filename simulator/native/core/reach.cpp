#include "core/reach.h"

#include <algorithm>
#include <optional>
#include <set>

namespace hipsynth {
namespace {

constexpr uint32_t kAddressWindow = 24;  // instructions after s_getpc_b64 searched for its additions
constexpr uint16_t kReturnAddress = 30;  // SGPR pair of LLVM's calling convention

class Walk {
 public:
  explicit Walk(const Program& program)
      : program_(program), code_(program.module->code()), seen_(code_.insts.size(), false) {}

  Reach run(uint32_t entry) {
    visit(entry);
    walk();
    Reach out;
    out.certain_vgprs = vgprs_;
    out.certain_agprs = agprs_;
    follow_pointers();
    out.vgprs = vgprs_;
    out.agprs = agprs_;
    out.indexed = indexed_;
    out.images = images_;
    if (jumps_) {
      for (const Inst& in : code_.insts) registers(in);
      out.any_vgprs = vgprs_;
      out.any_agprs = agprs_;
    }
    out.sgprs = sgprs_;
    out.refused.assign(refused_.begin(), refused_.end());
    return out;
  }

 private:
  void walk() {
    while (!open_.empty()) {
      const uint32_t i = open_.back();
      open_.pop_back();
      step(i);
    }
  }

  // Visits what function pointers and unknown addresses may lead to.
  void follow_pointers() {
    bool pointers = false, unknown = false;
    while (through_pointers_ != pointers || unresolved_ != unknown) {
      pointers = through_pointers_;
      unknown = unresolved_;
      if (pointers) visit_all(program_.module->address_taken());
      if (unknown) visit_all(program_.module->functions());
      walk();
    }
  }

  void visit(uint32_t i) {
    if (i >= seen_.size() || seen_[i]) return;
    seen_[i] = true;
    open_.push_back(i);
  }

  void visit_all(const std::vector<uint32_t>& list) {
    for (const uint32_t i : list) visit(i);
  }

  void step(uint32_t i) {
    if (const auto it = code_.refused.find(i); it != code_.refused.end()) {
      refused_.insert(it->second);
      return visit(i + 1);  // continue, so that the list is complete
    }
    registers(code_.insts[i]);
    switch (program_.steps[i].action) {
      case Action::end:
      case Action::trap:
        return;
      case Action::branch:
        return visit(program_.steps[i].target);
      case Action::branch_if:
      case Action::call:
        visit(program_.steps[i].target);
        break;
      case Action::set_pc:
        jumps_ = true;
        through_pointers_ |= !returns(code_.insts[i]);
        return;
      case Action::swap_pc:
        jumps_ = true;
        through_pointers_ |= !calls_formed_address(i);
        break;
      case Action::get_pc:
        formed_address(i);
        break;
      default:
        break;
    }
    visit(i + 1);
  }

  void registers(const Inst& in) {
    indexed_ |= in.op->indexes == Indexes::vgpr;
    if (in.op->indexes == Indexes::sgpr) sgprs_ = kScalarRegs;
    for (const Operand* o : {&in.dst, &in.src[0], &in.src[1], &in.src[2], &in.src[3], &in.src[4]}) {
      if (o == &in.src[0] && in.op->mem.space == MemSpace::image && !in.op->mem.typed_buffer()) {
        images_ = true;  // checked at execution, when the image is known
        continue;
      }
      const uint32_t end = uint32_t{o->reg} + o->dwords;
      if (o->kind == OperandKind::vgpr) vgprs_ = std::max(vgprs_, end);
      if (o->kind == OperandKind::agpr) agprs_ = std::max(agprs_, end);
      if (o->kind == OperandKind::sgpr && o->reg < kFlatScratchLo) sgprs_ = std::max(sgprs_, end);
    }
  }

  // Whether a jump returns from a function: what follows its calls is reached without it.
  static bool returns(const Inst& jump) {
    return jump.src[0].kind == OperandKind::sgpr && jump.src[0].reg == kReturnAddress;
  }

  static bool overlaps(const Operand& a, const Operand& b) { return a.reg < b.reg + 2 && b.reg < a.reg + a.dwords; }

  // Whether the address that a call goes to was formed by an s_getpc_b64 before it, in the same basic block.
  bool calls_formed_address(uint32_t call) const {
    const Operand& target = code_.insts[call].src[0];
    for (uint32_t i = call; i > 0 && call - i < kAddressWindow; --i) {
      const Action action = program_.steps[i - 1].action;
      const Inst& in = code_.insts[i - 1];
      if (action == Action::get_pc && in.dst.reg == target.reg) return true;
      if (in.dst.kind == OperandKind::sgpr && in.op->adds == 0 && overlaps(in.dst, target)) return false;  // a load
      if (action == Action::branch || action == Action::branch_if || action == Action::swap_pc) return false;
    }
    return false;
  }

  // The constant that the instructions after s_getpc_b64 add to SGPR `reg`.
  std::optional<int64_t> added(uint32_t from, uint16_t reg, bool with_carry) const {
    for (uint32_t i = from; i < code_.insts.size() && i < from + kAddressWindow; ++i) {
      const Inst& in = code_.insts[i];
      const bool carries = in.op->reads & implied::scc;
      if (in.dst.kind != OperandKind::sgpr || in.dst.reg != reg || in.op->adds == 0 || carries != with_carry) continue;
      if (in.src[1].kind != OperandKind::constant) return std::nullopt;
      const auto v = static_cast<int64_t>(in.src[1].value & 0xffffffffu);
      return in.op->adds * v;
    }
    return std::nullopt;
  }

  // Resolves the address formed by s_getpc_b64 and the additions after it: code is visited, data ignored.
  void formed_address(uint32_t i) {
    const uint16_t reg = code_.insts[i].dst.reg;
    const auto low = added(i + 1, reg, false);
    const auto high = added(i + 1, static_cast<uint16_t>(reg + 1), true);
    if (!low || !high) {
      unresolved_ = true;
      return;
    }
    const uint64_t offset = static_cast<uint64_t>(*low) + (static_cast<uint64_t>(*high) << 32);
    const uint64_t target = code_.insts[i].address + code_.insts[i].size + offset;
    const uint64_t word = (target - code_.base) / 4;
    if (target >= code_.base && target % 4 == 0 && word < code_.index_by_word.size()) visit(code_.index_by_word[word]);
  }

  const Program& program_;
  const Code& code_;
  std::vector<bool> seen_;
  std::vector<uint32_t> open_;
  std::set<std::string> refused_;
  uint32_t vgprs_ = 0, agprs_ = 0, sgprs_ = 0;
  bool jumps_ = false, through_pointers_ = false, unresolved_ = false, indexed_ = false, images_ = false;
};

}  // namespace

Reach reach(const Program& program, uint32_t entry) { return Walk(program).run(entry); }

}  // namespace hipsynth
