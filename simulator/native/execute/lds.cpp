// ds_* instructions: LDS reads, writes, atomics, and the cross-lane moves that use the LDS crossbar.
#include <algorithm>
#include <bit>
#include <string_view>
#include <utility>

#include "core/state.h"
#include "execute/bank_costs.h"
#include "execute/lane_data.h"
#include "execute/memory_model.h"

namespace hipsynth {
namespace {

// Offset that an instruction adds to the addresses of its lanes; `which`: first or second access.
uint32_t lane_base(const Inst& in, uint32_t which) {
  const MemDesc& m = in.op->mem;
  const uint32_t scale = m.two_addr ? static_cast<uint32_t>(m.elem_bytes) * m.two_addr : 1;
  return static_cast<uint32_t>(which ? in.offset1 : in.offset0) * scale;
}

// Every lane's address. Without an address register, lane i accesses dword i from M0 on; `own` then holds the
// addresses.
const uint32_t* addresses_of(Arch arch, Wave& w, const Inst& in, uint32_t* own) {
  if (const uint32_t* row = operand_row(w, in.src[0])) return row;
  for (uint32_t i = 0; i < kLanes; ++i) own[i] = lds_base(arch, w) + 4 * i;
  return own;
}

void move_lanes(Context& c, Resident& r, const Step& s, uint32_t bytes, const uint64_t* offset, uint32_t* row) {
  const MemDesc& m = s.inst->op->mem;
  const uint64_t exec = r.wave.exec();
  uint64_t highest = 0;
  for (uint32_t i = 0; i < kLanes; ++i) highest = std::max(highest, (exec >> i & 1) ? offset[i] : 0);
  if (bytes == 4 && highest + bytes <= r.group->lds.size()) {  // whole dwords, all in bounds
    uint8_t* base = r.group->lds.data();
    if (m.kind == MemKind::load) {
      for_lanes(exec, [&](uint32_t lane) { row[lane] = load32(base + offset[lane]); });
    } else {
      for_lanes(exec, [&](uint32_t lane) { std::memcpy(base + offset[lane], &row[lane], 4); });
    }
    return;
  }
  for (uint64_t rest = exec; rest; rest &= rest - 1) {
    const auto lane = static_cast<uint32_t>(std::countr_zero(rest));
    uint8_t* p = lds_pointer(c, r, s, lane, offset[lane], bytes);
    if (m.kind == MemKind::load)
      load_lane(m, bytes, row, lane, p);
    else
      store_lane(m, bytes, row, lane, p);
  }
}

// Moves all lanes' consecutive elements, inside the work-group's LDS; false if the width is not supported.
bool move_block(Resident& r, const Step& s, uint32_t bytes, uint64_t offset, uint32_t* row) {
  std::vector<uint8_t>& lds = r.group->lds;
  if (offset + uint64_t{bytes} * kLanes > lds.size()) return false;
  if (s.inst->op->mem.kind == MemKind::load) return load_block(bytes, row, lds.data() + offset);
  return store_block(bytes, row, lds.data() + offset);
}

void log_lanes(Context& c, const Resident& r, const Step& s, uint64_t exec, const uint64_t* offset, uint32_t bytes) {
  const auto use = AccessLog::use_of(s.inst->op->mem.kind);
  for_lanes(exec, [&](uint32_t lane) { c.accesses->use_lds(c, r, s, use, offset[lane], bytes); });
}

// Bits of an element of a read that transposes, else 0.
uint32_t transposed_bits(MemOp op) {
  return op == MemOp::transposed_16  ? 16
         : op == MemOp::transposed_8 ? 8
         : op == MemOp::transposed_6 ? 6
         : op == MemOp::transposed_4 ? 4
                                     : 0;
}

// Within 16 lanes, the lanes' data in turn are rows of 16 elements; lane i gets element i of every row. (Measured on
// MI350: every lane's own address counts, and nothing crosses the 16 lanes.)
void transpose_rows(uint32_t width, uint32_t dwords, uint64_t exec, const uint32_t* loaded, uint32_t* row) {
  const uint32_t elements = 32 * dwords / width, lanes_of_row = 16 / elements;
  const auto element = [&](uint32_t lane, uint32_t n) {
    const uint32_t bit = n * width, word = bit / 32, shift = bit % 32;
    uint64_t v = loaded[word * kLanes + lane];
    if (shift + width > 32) v |= static_cast<uint64_t>(loaded[(word + 1) * kLanes + lane]) << 32;
    return static_cast<uint32_t>(v >> shift) & ((1u << width) - 1);
  };
  for_lanes(exec, [&](uint32_t lane) {
    const uint32_t first = lane & ~15u, column = lane & 15u;
    uint32_t words[4] = {};
    for (uint32_t k = 0; k < elements; ++k) {
      const uint32_t v = element(first + k * lanes_of_row + column / elements, column % elements), bit = k * width;
      words[bit / 32] |= v << bit % 32;
      if (bit % 32 + width > 32) words[bit / 32 + 1] |= v >> (32 - bit % 32);
    }
    for (uint32_t k = 0; k < dwords; ++k) row[k * kLanes + lane] = words[k];
  });
}

// Two equal addresses are one access, with the first data alone (CDNA3 ISA, section 11.3.1).
uint32_t count_addresses(const Inst& in) { return in.op->mem.two_addr && lane_base(in, 0) != lane_base(in, 1) ? 2 : 1; }

void access_lds(Context& c, Resident& r, const Step& s, uint64_t exec) {
  const Inst& in = *s.inst;
  const MemDesc& m = in.op->mem;
  uint32_t own[kLanes];
  const uint32_t* address = addresses_of(c.arch, r.wave, in, own);
  if (m.two_addr && !s.idle_data && address != own) {  // the first half of a read2 may overwrite them
    std::copy_n(address, kLanes, own);
    address = own;
  }
  const uint32_t addresses = count_addresses(in);
  const uint32_t bytes = m.two_addr ? m.elem_bytes : s.lane_bytes;
  uint64_t offset[kLanes];
  for (uint32_t which = 0; which < addresses; ++which) {
    uint32_t* row = m.kind == MemKind::load ? operand_row(r.wave, in.dst, which * (bytes / 4))
                                            : operand_row(r.wave, in.src[1 + which]);
    const uint32_t base = lane_base(in, which);
    if (c.model->counts_lds()) count_lds_cycles(c, s, {address, base, exec, bytes, false});
    if (s.idle_data) continue;
    uint64_t difference = ~exec;
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      offset[lane] = address[lane] + base;  // wraps at 32 bits: the base may be "negative"
      difference |= offset[lane] ^ (offset[0] + uint64_t{lane} * bytes);
    }
    if (c.accesses) log_lanes(c, r, s, exec, offset, bytes);
    if (const uint32_t width = transposed_bits(m.op)) {
      uint32_t loaded[3 * kLanes] = {};
      move_lanes(c, r, s, bytes, offset, loaded);
      transpose_rows(width, bytes / 4, exec, loaded, row);
      if (c.accesses) c.accesses->confirm_writes();
      continue;
    }
    if (difference == 0 && move_block(r, s, bytes, offset[0], row)) {
      if (c.accesses) c.accesses->confirm_writes();
      continue;
    }
    move_lanes(c, r, s, bytes, offset, row);
    if (c.accesses) c.accesses->confirm_writes();
  }
}

void atomic_lds(Context& c, Resident& r, const Step& s, uint64_t exec) {
  const Inst& in = *s.inst;
  const MemDesc& m = in.op->mem;
  const uint32_t bytes = m.elem_bytes;
  uint32_t own[kLanes];
  const uint32_t* address = addresses_of(c.arch, r.wave, in, own);
  if (m.two_addr && address != own) {  // the first result may overwrite them
    std::copy_n(address, kLanes, own);
    address = own;
  }
  // ds_cmpst compares with its first data operand and stores the second one; ds_mskor uses the first as mask.
  const bool compare_first = m.compares();
  const uint32_t kept = m.op == MemOp::condxchg_b64 ? 0xfff8 : ~0u;
  const bool keeps_denormals = r.wave.mode.denorm_f32 == 3;  // which sums in the LDS obey (CDNA3 ISA, section 9.2.2)
  const AtomicFn apply = keeps_denormals ? s.atomic : find_flushing(s.atomic);
  for (uint32_t which = 0; which < count_addresses(in); ++which) {
    const uint32_t *first = operand_row(r.wave, in.src[1 + which]),
                   *second = m.two_addr ? nullptr : operand_row(r.wave, in.src[2]);
    uint32_t* result = operand_row(r.wave, in.dst, which * (bytes / 4));
    uint32_t offset[kLanes];
    for (uint32_t lane = 0; lane < kLanes; ++lane) offset[lane] = (address[lane] + lane_base(in, which)) & kept;
    if (c.model->counts_lds()) count_lds_cycles(c, s, {offset, 0, exec, bytes, true});
    if (result) c.counts.lds_atomic_return += 1;
    if (s.idle_data) continue;
    for (uint64_t rest = exec; rest; rest &= rest - 1) {
      const auto lane = static_cast<uint32_t>(std::countr_zero(rest));
      uint64_t data = lane_value(first, lane, bytes), other = second ? lane_value(second, lane, bytes) : 0;
      if (compare_first) std::swap(data, other);
      if (c.accesses) c.accesses->use_lds(c, r, s, AccessLog::Use::atomic, offset[lane], bytes);
      const uint64_t old = apply(lds_pointer(c, r, s, lane, offset[lane], bytes), data, other);
      if (result) set_lane_value(result, lane, bytes, old);
    }
  }
}

// ds_append and ds_consume: change one counter, at M0, by the number of active lanes; all lanes get the old value.
void append_lds(Context& c, Resident& r, const Step& s, uint64_t exec) {
  const Inst& in = *s.inst;
  const uint64_t at = lds_base(c.arch, r.wave) + static_cast<uint64_t>(in.offset0);
  uint8_t* p = lds_pointer(c, r, s, 0, at, 4);
  const auto lanes = static_cast<uint32_t>(std::popcount(exec));
  const uint32_t old = load32(p), fresh = in.op->mem.op == MemOp::add_u32 ? old + lanes : old - lanes;
  std::memcpy(p, &fresh, sizeof fresh);
  uint32_t* row = operand_row(r.wave, in.dst);
  for (uint64_t rest = exec; rest; rest &= rest - 1) row[std::countr_zero(rest)] = old;
}

uint32_t swizzle_source(uint32_t pattern, uint32_t lane) {
  if (pattern >= 0xe000) {  // FFT: reverses the lane number's five low bits, except those set in the pattern
    const uint32_t keep = pattern & 0x1f;
    uint32_t reversed = 0;
    for (uint32_t k = 0; k < 5; ++k) reversed |= (lane >> k & 1) << (4 - k);
    return (lane & 0x20) | (lane & keep) | reversed >> std::popcount(keep);
  }
  if (pattern >= 0xc000) {  // rotate within 32 lanes; bits 0..4 keep part of the lane number
    const uint32_t keep = pattern & 0x1f, by = pattern >> 5 & 0x1f;
    const uint32_t moved = (pattern >> 10 & 1) ? lane - by : lane + by;
    return (lane & 0x20) | (lane & keep) | (moved & 0x1f & ~keep);
  }
  if (pattern & 0x8000) return (lane & ~3u) | (pattern >> 2 * (lane & 3) & 3);
  const uint32_t in_half = (((lane & 0x1f) & (pattern & 0x1f)) | (pattern >> 5 & 0x1f)) ^ (pattern >> 10 & 0x1f);
  return (lane & 0x20) | in_half;
}

// Inactive source lanes read as 0 (CDNA3 ISA: EXEC applies to the source reads too).
void cross_lane(Resident& r, const Step& s, uint64_t exec) {
  const Inst& in = *s.inst;
  const MemOp op = in.op->mem.op;
  const bool pushes = op == MemOp::permute, swizzles = op == MemOp::swizzle;
  const uint32_t* first = operand_row(r.wave, in.src[0]);
  const uint32_t* data = swizzles ? first : operand_row(r.wave, in.src[1]);
  uint32_t* dst = operand_row(r.wave, in.dst);
  const auto offset = static_cast<uint32_t>(in.offset0);
  uint32_t named[kLanes], seen[kLanes], moved[kLanes] = {};
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    named[lane] = swizzles ? swizzle_source(offset, lane) : (first[lane] + offset) / 4 % kLanes;
    seen[lane] = (exec >> lane & 1) ? data[lane] : 0;
  }
  if (pushes) {
    for_lanes(exec, [&](uint32_t lane) { moved[named[lane]] = data[lane]; });
  } else {
    for (uint32_t lane = 0; lane < kLanes; ++lane) moved[lane] = seen[named[lane]];
  }
  for_lanes(exec, [&](uint32_t lane) { dst[lane] = moved[lane]; });
}

}  // namespace

void count_lds_cycles(Context& c, const Step& s, const LdsAccess& access) {
  const BankCost& cost = c.bank_costs.of(reinterpret_cast<uintptr_t>(s.inst) / sizeof(Inst), access);
  c.counts.lds_idx_cycles += cost.cycles;
  c.counts.lds_bank_conflict += cost.conflicts;
  c.counts.lds_addr_conflict += cost.repeats;
}

uint8_t* lds_pointer(Context& c, Resident& r, const Step& s, uint32_t lane, uint64_t offset, uint32_t bytes) {
  std::vector<uint8_t>& lds = r.group->lds;
  if (bytes <= lds.size() && offset <= lds.size() - bytes) return lds.data() + offset;
  out_of_bounds_in_lds(c, r, s, {"LDS access", offset, bytes, static_cast<int>(lane), FaultMemory::lds});
  c.dropped = {};
  return c.dropped.data();
}

void execute_lds(Context& c, Resident& r, const Step& s) {
  const uint64_t exec = r.wave.exec();
  ++r.outstanding_lgkm;
  r.lds_outstanding = true;
  r.lds_answer = Answer::at(r.now + c.latency.lds, Level::none);
  if (exec == 0) return;
  switch (s.inst->op->mem.kind) {
    case MemKind::none:  // ds_nop
      return;
    case MemKind::cross_lane:
      if (!s.idle_data) cross_lane(r, s, exec);
      return;
    case MemKind::atomic:
      return atomic_lds(c, r, s, exec);
    case MemKind::append:
      return append_lds(c, r, s, exec);
    default:
      return access_lds(c, r, s, exec);
  }
}

}  // namespace hipsynth
