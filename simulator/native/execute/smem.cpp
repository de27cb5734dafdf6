// s_load_*, s_buffer_load_*, scalar stores, clocks and scalar cache operations.
#include <algorithm>
#include <cstring>

#include "core/footprint.h"
#include "core/state.h"
#include "execute/memory_model.h"

namespace hipsynth {
namespace {

constexpr uint64_t kScalarSlack = 64;  // the compiler may widen a scalar load to the end of its aligned block

uint64_t scalar_offset(const Wave& w, const Inst& in) {
  return scalar_operand(w, in.src[1]) + static_cast<uint64_t>(in.imm);
}

// Clocks advance with the executed work, so that a timing loop terminates, always after the same number of iterations.
// The real-time counter runs at a constant rate that is independent of the core clock.
uint64_t read_clock(const Context& c, const Inst& in) {
  const uint64_t cycles = c.clock + c.counts.wave_instructions * kCyclesPerInstruction;
  return in.op->mem.op == MemOp::memrealtime ? static_cast<uint64_t>(static_cast<double>(cycles) * c.realtime_ticks)
                                             : cycles;
}

void check(Context& c, Resident& r, const Step& s, uint64_t address, uint32_t bytes, const char* what) {
  if (c.memory.find(address, bytes)) return;
  const Memory::Allocation* a = c.memory.find(address, 4);
  const uint64_t end = a ? (a->start + a->bytes + kScalarSlack - 1) / kScalarSlack * kScalarSlack : 0;
  if (!a || address + bytes > end) out_of_bounds_access(c, r, s, {what, address, bytes, -1});
}

// Address of an access, and how much of it is inside its buffer.
struct Place {
  uint64_t address;
  uint32_t valid;
};

Place place_of(const Wave& w, const Inst& in, uint32_t bytes) {
  const MemDesc& m = in.op->mem;
  if (m.space == MemSpace::scratch) {  // register offsets are in units of 64 bytes
    const uint64_t steps = scalar_operand(w, in.src[1]);
    return {(w.sgpr64(in.src[0].reg) + steps * 64 + static_cast<uint64_t>(in.imm)) & ~3ull, bytes};
  }
  if (m.space != MemSpace::buffer) return {(w.sgpr64(in.src[0].reg) + scalar_offset(w, in)) & ~3ull, bytes};
  const uint32_t* word = &w.sgpr[in.src[0].reg];
  const uint64_t offset = scalar_offset(w, in) & ~3ull;
  const uint32_t stride = word[1] >> 16 & 0x3fff;
  const uint64_t size = stride ? uint64_t{stride} * word[2] : word[2];
  const uint64_t base = word[0] | static_cast<uint64_t>(word[1] & 0xffff) << 32;
  const uint64_t valid = offset >= size ? 0 : std::min<uint64_t>(bytes, (size - offset) & ~3ull);
  return {(base + offset) & ~3ull, static_cast<uint32_t>(valid)};
}

void load(Context& c, Resident& r, const Step& s) {
  Wave& w = r.wave;
  const uint32_t dst = s.inst->dst.reg;
  const Place p = place_of(w, *s.inst, s.lane_bytes);
  std::memset(&w.sgpr[dst], 0, s.lane_bytes);
  ++r.outstanding_lgkm;
  if (p.valid == 0) return;
  check(c, r, s, p.address, p.valid, "scalar read");
  if (c.footprint) c.footprint->add(s.decides ? Footprint::decides : Footprint::reads, p.address, p.valid);
  if (c.accesses) c.accesses->use_device_memory(c, r, s, AccessLog::Use::read, p.address, p.valid);
  std::memcpy(&w.sgpr[dst], reinterpret_cast<const void*>(p.address), p.valid);
  c.model->scalar_load(r, p.address, p.valid);
}

// Host pointer for a store; null if it is outside its buffer.
void* writable(Context& c, Resident& r, const Step& s, uint32_t bytes, const char* what) {
  const Place p = place_of(r.wave, *s.inst, bytes);
  ++r.outstanding_lgkm;
  if (p.valid < bytes) return nullptr;
  if (!c.memory.find(p.address, bytes)) out_of_bounds_access(c, r, s, {what, p.address, bytes, -1});
  if (c.footprint) {
    c.footprint->add(Footprint::writes, p.address, bytes);
    if (s.inst->op->mem.kind == MemKind::atomic)
      c.footprint->add(s.decides ? Footprint::decides : Footprint::reads, p.address, bytes);
  }
  c.model->scalar_write(r, p.address, bytes);
  return reinterpret_cast<void*>(p.address);
}

void store(Context& c, Resident& r, const Step& s) {
  void* p = writable(c, r, s, s.lane_bytes, "scalar write");
  if (p) std::memcpy(p, &r.wave.sgpr[s.inst->src[2].reg], s.lane_bytes);
}

void atomic(Context& c, Resident& r, const Step& s) {
  Wave& w = r.wave;
  const uint32_t bytes = s.lane_bytes, data = s.inst->src[2].reg, dst = s.inst->dst.reg;
  const auto value = [&](uint32_t reg) { return bytes == 8 ? w.sgpr64(reg) : w.sgpr[reg]; };
  void* p = writable(c, r, s, bytes, "scalar atomic");
  const bool compares = s.inst->src[2].dwords > bytes / 4;
  const uint64_t old = p ? s.atomic(p, value(data), compares ? value(data + bytes / 4) : 0) : 0;
  if (s.inst->dst.kind == OperandKind::none) return;
  std::memcpy(&w.sgpr[dst], &old, bytes);
}

}  // namespace

void execute_scalar_memory(Context& c, Resident& r, const Step& s) {
  switch (s.inst->op->mem.kind) {
    case MemKind::load:
      return load(c, r, s);
    case MemKind::store:
      return store(c, r, s);
    case MemKind::atomic:
      return atomic(c, r, s);
    case MemKind::time:
      r.wave.set_sgpr64(s.inst->dst.reg, read_clock(c, *s.inst));
      ++r.outstanding_lgkm;
      return;
    default:
      return;  // s_dcache_inv and s_dcache_wb: scalar data is always coherent here
  }
}

}  // namespace hipsynth
