// s_load_*, s_buffer_load_*, scalar stores, clocks and scalar cache operations.
#include <algorithm>
#include <cstring>

#include "core/state.h"

namespace hipsynth {
namespace {

constexpr uint64_t kScalarSlack = 64;  // the compiler may widen a scalar load to the end of its aligned block

uint64_t scalar_offset(const Wave& w, const Inst& in) {
  return scalar_operand(w, in.src[1]) + static_cast<uint64_t>(in.imm);
}

bool is_buffer(const Inst& in) { return std::strncmp(in.op->name, "s_buffer_", 9) == 0; }

// The clocks move with the work done, so that a timing loop ends, and ends the same way every time.
uint64_t read_clock(const Context& c, const Inst& in) {
  const uint64_t cycles = c.clock + c.counts.wave_instructions * 4;
  return std::strcmp(in.op->mem.op, "memrealtime") == 0 ? cycles / 16 : cycles;
}

void check(Context& c, Resident& r, const Step& s, uint64_t address, uint32_t bytes, const char* what) {
  if (c.memory->find(address, bytes)) return;
  const Memory::Allocation* a = c.memory->find(address, 4);
  const uint64_t end = a ? (a->start + a->bytes + kScalarSlack - 1) / kScalarSlack * kScalarSlack : 0;
  if (!a || address + bytes > end) throw_illegal_access(c, r, s, {what, address, bytes, -1});
}

void load(Context& c, Resident& r, const Step& s) {
  Wave& w = r.wave;
  const Inst& in = *s.inst;
  const uint32_t bytes = s.lane_bytes, dst = in.dst.reg;
  uint64_t address = w.sgpr64(in.src[0].reg) + scalar_offset(w, in);
  uint32_t valid = bytes;
  if (is_buffer(in)) {
    const uint32_t* word = &w.sgpr[in.src[0].reg];
    const uint64_t offset = scalar_offset(w, in) & ~3ull;
    const uint32_t stride = word[1] >> 16 & 0x3fff;
    const uint64_t size = stride ? uint64_t{stride} * word[2] : word[2];
    address = (word[0] | static_cast<uint64_t>(word[1] & 0xffff) << 32) + offset;
    valid = offset >= size ? 0 : static_cast<uint32_t>(std::min<uint64_t>(bytes, (size - offset) & ~3ull));
  }
  address &= ~3ull;
  std::memset(&w.sgpr[dst], 0, bytes);
  ++r.outstanding_lgkm;
  if (valid == 0) return;
  check(c, r, s, address, valid, "scalar read");
  std::memcpy(&w.sgpr[dst], reinterpret_cast<const void*>(address), valid);
  if (c.hierarchy) r.smem_level = std::max(r.smem_level, c.hierarchy->scalar(r.group->cu, address, valid));
}

void store(Context& c, Resident& r, const Step& s) {
  Wave& w = r.wave;
  const Inst& in = *s.inst;
  uint64_t base = w.sgpr64(in.src[0].reg);
  if (is_buffer(in)) base &= 0xffffffffffffull;
  const uint64_t address = (base + scalar_offset(w, in)) & ~3ull;
  if (!c.memory->find(address, s.lane_bytes))
    throw_illegal_access(c, r, s, {"scalar write", address, s.lane_bytes, -1});
  std::memcpy(reinterpret_cast<void*>(address), &w.sgpr[in.src[2].reg], s.lane_bytes);
  ++r.outstanding_lgkm;
  if (c.hierarchy) c.hierarchy->scalar(r.group->cu, address, s.lane_bytes);
}

}  // namespace

void execute_scalar_memory(Context& c, Resident& r, const Step& s) {
  switch (s.inst->op->mem.kind) {
    case MemKind::load:
      return load(c, r, s);
    case MemKind::store:
      return store(c, r, s);
    case MemKind::time:
      r.wave.set_sgpr64(s.inst->dst.reg, read_clock(c, *s.inst));
      ++r.outstanding_lgkm;
      return;
    default:
      return;  // s_dcache_inv and s_dcache_wb: scalar data is always coherent here
  }
}

}  // namespace hipsynth
