// global_*, flat_*, scratch_* and buffer_* instructions.
#include <algorithm>
#include <bit>

#include "core/footprint.h"
#include "core/state.h"
#include "execute/bank_costs.h"
#include "execute/lane_data.h"
#include "isa/alu.h"
#include "memory/access_timing.h"
#include "sampling/trace.h"

namespace hipsynth {
namespace {

constexpr uint64_t kAllLanes = ~0ull;
constexpr uint32_t kScratchStride = 4 * kLanes;  // lanes are interleaved by dwords: 256 bytes per private dword

// Operand slots by meaning, as in the opcode table's README.
struct Operands {
  const Operand *vaddr, *data, *saddr, *srsrc, *soffset;
};

Operands operands_of(const Inst& in) {
  const MemDesc& m = in.op->mem;
  const bool has_data = m.kind != MemKind::load;
  if (m.space == MemSpace::buffer) return {&in.src[0], &in.src[1], nullptr, &in.src[2], &in.src[3]};
  return {&in.src[0], &in.src[1], has_data ? &in.src[2] : &in.src[1], nullptr, nullptr};
}

struct Lanes {
  alignas(64) uint64_t address[kLanes];
  uint64_t exec = 0;
  uint64_t dropped = 0;  // buffer lanes out of range: loads return 0, stores are dropped
  uint64_t partial = 0;  // lanes of which only the first `inside` dwords are in range
  uint32_t inside[kLanes];
  bool contiguous = false;
  bool interleaved = false;  // swizzled memory: dwords of a lane are dword_stride bytes apart
  uint32_t dword_stride = kScratchStride;
};

void global_addresses(Wave& w, const Inst& in, const Operands& o, Lanes* l) {
  const auto offset = static_cast<uint64_t>(in.imm);
  const uint32_t* low = operand_row(w, *o.vaddr);
  if (o.saddr->kind == OperandKind::sgpr) {
    const uint64_t base = w.sgpr64(o.saddr->reg) + offset;
    for (int i = 0; i < kLanes; ++i) l->address[i] = base + (low ? low[i] : 0u);
    return;
  }
  const uint32_t* high = operand_row(w, *o.vaddr, 1);
  for (int i = 0; i < kLanes; ++i) l->address[i] = (static_cast<uint64_t>(high[i]) << 32 | low[i]) + offset;
}

// Loads and stores for which a base address suffices if the lanes are contiguous.
bool moves_block(const Step& s) {
  const bool whole_dwords = s.lane_bytes == 4 || s.lane_bytes == 8 || s.lane_bytes == 16;
  return whole_dwords && s.inst->op->mem.kind != MemKind::atomic && !loads_to_lds(*s.inst);
}

// Fast test for the usual case, without computing every lane's address: all lanes active, lane i at base + i * bytes.
bool contiguous_base(Wave& w, const Inst& in, const Operands& o, uint32_t bytes, uint64_t* base) {
  if (w.exec() != kAllLanes) return false;
  const uint32_t* low = operand_row(w, *o.vaddr);
  const bool scalar = o.saddr->kind == OperandKind::sgpr;
  if (!low || low[0] > ~0u - kLanes * bytes) return false;
  uint32_t difference = 0;
  for (uint32_t i = 0; i < kLanes; ++i) difference |= low[i] ^ (low[0] + i * bytes);
  uint64_t start = low[0] + static_cast<uint64_t>(in.imm);
  if (scalar) {
    start += w.sgpr64(o.saddr->reg);
  } else {
    const uint32_t* high = operand_row(w, *o.vaddr, 1);
    for (uint32_t i = 0; i < kLanes; ++i) difference |= high[i] ^ high[0];
    start += static_cast<uint64_t>(high[0]) << 32;
  }
  *base = start;
  return difference == 0;
}

uint64_t private_address(const Resident& r, uint32_t lane, uint64_t offset) {
  return r.scratch + offset / 4 * kScratchStride + lane * 4ull + offset % 4;
}

void scratch_addresses(Context& c, Resident& r, const Step& s, const Operands& o, Lanes* l) {
  const uint32_t* v = operand_row(r.wave, *o.vaddr);
  const uint32_t base = scalar_operand(r.wave, *o.saddr) + static_cast<uint32_t>(s.inst->imm);
  uint32_t offset[kLanes], furthest = 0;
  for (uint32_t i = 0; i < kLanes; ++i) offset[i] = base + (v ? v[i] : 0);
  for_lanes(l->exec, [&](uint32_t lane) { furthest = std::max(furthest, offset[lane]); });
  if (furthest + uint64_t{s.lane_bytes} > c.scratch_lane_bytes) {
    const auto lane = static_cast<int>(std::find(offset, offset + kLanes, furthest) - offset);
    throw_scratch_overflow(c, r, s, furthest, lane);
  }
  for (uint32_t i = 0; i < kLanes; ++i) l->address[i] = private_address(r, i, offset[i]);
  l->interleaved = true;
}

// Buffer resource fields as in the CDNA3 ISA guide, section "Buffer Resource Descriptor".
struct Resource {
  uint64_t base;
  uint32_t stride, records, index_stride;
  bool swizzle, add_tid;
};

Resource read_resource(const Wave& w, const Operand& o) {
  const uint32_t* word = &w.sgpr[o.reg];
  const bool add_tid = word[3] >> 23 & 1;  // the data format then holds more bits of the stride (CDNA3 ISA, table 45)
  return {word[0] | static_cast<uint64_t>(word[1] & 0xffff) << 32,
          (word[1] >> 16 & 0x3fff) | (add_tid ? (word[3] >> 15 & 15) << 14 : 0),
          word[2],
          8u << (word[3] >> 21 & 3),
          (word[1] >> 31) != 0,
          add_tid};
}

// Swizzled buffers: every dword of every lane must be in the wave's own private memory (add_tid) or in an allocation.
void check_swizzled(Context& c, Resident& r, const Step& s, bool own, const Lanes& l) {
  const uint64_t end = r.scratch + uint64_t{c.scratch_lane_bytes} * kLanes;
  for (uint64_t rest = l.exec; rest; rest &= rest - 1) {
    const int lane = std::countr_zero(rest);
    const uint64_t first = l.address[lane] & ~3ull, dwords = (l.address[lane] % 4 + s.lane_bytes + 3) / 4;
    for (uint64_t k = 0; k < dwords; ++k) {
      const uint64_t at = first + k * l.dword_stride;
      if (own ? at >= r.scratch && at < end : c.memory.find(at, 4) != nullptr) continue;
      if (own) throw_scratch_overflow(c, r, s, at, lane);
      out_of_bounds_access(c, r, s, {"swizzled access", at, 4, lane});
    }
  }
}

void buffer_addresses(Context& c, Resident& r, const Step& s, const Operands& o, Lanes* l) {
  const Inst& in = *s.inst;
  const Resource v = read_resource(r.wave, *o.srsrc);
  const uint32_t* first = operand_row(r.wave, *o.vaddr);
  const uint32_t* index_row = in.idxen ? first : nullptr;
  const uint32_t* offset_row = in.offen ? (in.idxen ? operand_row(r.wave, *o.vaddr, 1) : first) : nullptr;
  const uint64_t base = v.base + scalar_operand(r.wave, *o.soffset);
  // Without an index and swizzled addresses, a stride only spreads lines over the sets of the vL1D (bit 14 of it).
  const bool structured = v.stride != 0 && (in.idxen || v.add_tid || v.swizzle);
  const bool unchecked = v.add_tid && !in.idxen;  // CDNA3 ISA, section 9.1.5.1
  const bool by_dwords =
      !structured && s.lane_bytes > 4 && in.op->mem.kind != MemKind::atomic;  // each dword is checked
  for (uint32_t i = 0; i < kLanes; ++i) {
    const uint64_t index = (index_row ? index_row[i] : 0) + (v.add_tid ? i : 0);
    const uint64_t offset = (offset_row ? offset_row[i] : 0) + static_cast<uint64_t>(in.imm);
    if (v.swizzle) {
      l->address[i] = base + (index / v.index_stride * v.stride + offset / 4 * 4) * v.index_stride +
                      index % v.index_stride * 4 + offset % 4;
    } else {
      l->address[i] = base + index * v.stride + offset;
    }
    const bool inside = structured ? index < v.records : v.swizzle || offset + s.lane_bytes <= v.records;
    if (inside || unchecked) continue;
    l->dropped |= 1ull << i;
    l->inside[i] = by_dwords && offset < v.records ? static_cast<uint32_t>((v.records - offset) / 4) : 0;
    if (l->inside[i]) l->partial |= 1ull << i;
  }
  l->interleaved = v.swizzle;
  l->dword_stride = v.index_stride * 4;
  l->dropped &= l->exec;
  l->partial &= l->exec;
  l->exec &= ~l->dropped;
  l->dropped &= ~l->partial;
  if (v.swizzle) check_swizzled(c, r, s, v.add_tid, *l);
}

// True if every lane is active and lane i is at address[0] + i * bytes.
bool is_contiguous(const Lanes& l, uint32_t bytes) {
  if (l.exec != kAllLanes) return false;
  uint64_t difference = 0;
  for (uint64_t i = 0; i < kLanes; ++i) difference |= l.address[i] ^ (l.address[0] + i * bytes);
  return difference == 0;
}

void check_bounds(Context& c, Resident& r, const Step& s, Lanes* l) {
  const uint32_t bytes = s.lane_bytes;
  l->contiguous = is_contiguous(*l, bytes);
  if (l->contiguous && c.memory.find(l->address[0], uint64_t{bytes} * kLanes)) return;
  uint64_t low = ~0ull, high = 0;
  for_lanes(l->exec, [&](uint32_t lane) {
    low = std::min(low, l->address[lane]);
    high = std::max(high, l->address[lane]);
  });
  if (high >= low && c.memory.find(low, high - low + bytes)) return;
  for (uint64_t rest = l->exec; rest; rest &= rest - 1) {
    const int lane = std::countr_zero(rest);
    if (c.memory.find(l->address[lane], bytes)) continue;
    const char* what = s.inst->op->mem.kind == MemKind::load    ? "read"
                       : s.inst->op->mem.kind == MemKind::store ? "write"
                                                                : "atomic";
    out_of_bounds_access(c, r, s, {what, l->address[lane], bytes, lane});
  }
}

Access access_kind(MemKind kind) {
  return kind == MemKind::load ? Access::load : kind == MemKind::store ? Access::store : Access::atomic;
}

// Private memory is not followed, as its contents are undefined when a dispatch begins.
void record_access(Footprint* out, const Step& s, const Lanes& l) {
  const MemKind kind = s.inst->op->mem.kind;
  if (l.interleaved) {
    if (s.decides && kind != MemKind::store) out->add_unknown();
    return;
  }
  const auto add = [&](Footprint::Use use) {
    if (l.contiguous)
      out->add(use, l.address[0], uint64_t{s.lane_bytes} * kLanes);
    else
      out->add_lanes(use, l.address, l.exec | l.partial, s.lane_bytes);
  };
  if (kind != MemKind::store) add(s.decides ? Footprint::decides : Footprint::reads);
  if (kind != MemKind::load) add(Footprint::writes);
}

// Tells the log which words the lanes use; accesses that other groups are to see are treated as atomic.
void log_access(Context& c, const Resident& r, const Step& s, const Lanes& l) {
  if (l.interleaved) return;
  const Inst& in = *s.inst;
  const MemKind kind = in.op->mem.kind;
  const bool seen = kind == MemKind::atomic || in.glc || in.sc0 || in.sc1;
  const auto use = seen ? AccessLog::Use::atomic : AccessLog::use_of(kind);
  for_lanes(l.exec | l.partial, [&](uint32_t lane) {
    const uint64_t address = l.contiguous ? l.address[0] + uint64_t{lane} * s.lane_bytes : l.address[lane];
    c.accesses->use_device_memory(c, r, s, use, address, l.partial >> lane & 1 ? 4 * l.inside[lane] : s.lane_bytes);
  });
}

// The place of a kind of access in EngineCounts::not_requested.
size_t kind_index(MemKind kind) { return kind == MemKind::load ? 0 : kind == MemKind::store ? 1 : 2; }

// Bytes that are not requested, since the lane's buffer ends before them.
void count_beyond_buffer(Context& c, const Step& s, const Lanes& l) {
  uint64_t bytes = static_cast<uint64_t>(std::popcount(l.dropped)) * s.lane_bytes;
  for_lanes(l.partial, [&](uint32_t lane) { bytes += s.lane_bytes - 4 * l.inside[lane]; });
  c.counts.not_requested[kind_index(s.inst->op->mem.kind)] += bytes;
}

void count_access(Context& c, Resident& r, const Step& s, const Lanes& l) {
  if (c.accesses) log_access(c, r, s, l);
  if (c.footprint) record_access(c.footprint, s, l);
  ++r.outstanding_vm;
  const bool returns = s.inst->dst.kind != OperandKind::none;
  if (returns && s.inst->op->mem.kind == MemKind::atomic) r.atomic_outstanding = true;
  const uint64_t lanes = l.exec | l.partial;
  if (lanes == 0) return c.model->empty_access(r);
  const WaveAccess a{access_kind(s.inst->op->mem.kind), s.lane_bytes, lanes, l.address, l.contiguous, returns,
                     s.inst->slc || s.inst->nt};
  if (l.interleaved) return c.model->swizzled_access(r, a, l.dword_stride);
  c.model->access(r, a);
}

// Copies the strided dwords of one lane; sub-dword and misaligned parts byte by byte.
void copy_interleaved(uint8_t* flat, const Lanes& l, uint32_t lane, uint32_t bytes, bool to_memory) {
  const uint64_t lane_start = l.address[lane] & ~3ull;
  uint32_t in_dword = l.address[lane] & 3;
  for (uint32_t i = 0; i < bytes; ++i, ++in_dword) {
    auto* p = reinterpret_cast<uint8_t*>(lane_start + uint64_t{in_dword / 4} * l.dword_stride + in_dword % 4);
    if (to_memory)
      *p = flat[i];
    else
      flat[i] = *p;
  }
}

// Pointer to dword k of a lane, if lanes are interleaved and this one is aligned; else null.
template <uint32_t kBytes>
uint8_t* whole_dword(const Lanes& l, uint32_t lane, uint32_t k) {
  if (kBytes % 4 || l.address[lane] % 4) return nullptr;
  return reinterpret_cast<uint8_t*>(l.address[lane] + uint64_t{k} * l.dword_stride);
}

template <uint32_t kBytes>
void load_interleaved(const MemDesc& m, const Lanes& l, uint32_t lane, uint32_t* row) {
  if (whole_dword<kBytes>(l, lane, 0)) {
    for (uint32_t k = 0; k < kBytes / 4; ++k) row[k * kLanes + lane] = load32(whole_dword<kBytes>(l, lane, k));
    return;
  }
  uint8_t flat[16];
  copy_interleaved(flat, l, lane, kBytes, false);
  load_lane(m, kBytes, row, lane, flat);
}

template <uint32_t kBytes>
void store_interleaved(const MemDesc& m, const Lanes& l, uint32_t lane, const uint32_t* row) {
  if (whole_dword<kBytes>(l, lane, 0)) {
    for (uint32_t k = 0; k < kBytes / 4; ++k) std::memcpy(whole_dword<kBytes>(l, lane, k), &row[k * kLanes + lane], 4);
    return;
  }
  uint8_t flat[16];
  store_lane(m, kBytes, row, lane, flat);
  copy_interleaved(flat, l, lane, kBytes, true);
}

void load_lanes(const Step& s, const Lanes& l, uint32_t* row) {
  const MemDesc& m = s.inst->op->mem;
  if (l.contiguous && load_block(s.lane_bytes, row, reinterpret_cast<const uint8_t*>(l.address[0]))) return;
  with_width(s.lane_bytes, [&](auto bytes) {
    if (!l.interleaved) {
      for_lanes(l.exec, [&](uint32_t lane) {
        load_lane(m, bytes, row, lane, reinterpret_cast<const uint8_t*>(l.address[lane]));
      });
      return;
    }
    for_lanes(l.exec, [&](uint32_t lane) { load_interleaved<bytes>(m, l, lane, row); });
  });
  static constexpr uint8_t kZeros[16] = {};
  for (uint64_t rest = l.dropped; rest; rest &= rest - 1) {
    load_lane(m, s.lane_bytes, row, static_cast<uint32_t>(std::countr_zero(rest)), kZeros);
  }
}

// The bytes of a lane that are in its buffer; reports them if no memory is there.
uint32_t check_bytes_inside(Context& c, Resident& r, const Step& s, const Lanes& l, int lane) {
  if (l.dropped >> lane & 1) return 0;
  if (!(l.partial >> lane & 1)) return s.lane_bytes;
  const uint32_t bytes = 4 * l.inside[lane];
  if (!c.memory.find(l.address[lane], bytes)) {
    const char* what = s.inst->op->mem.kind == MemKind::load ? "read" : "write";
    out_of_bounds_access(c, r, s, {what, l.address[lane], bytes, lane});
  }
  return bytes;
}

// Buffer lanes that extend past the end of their buffer: dwords inside are transferred, the others read as 0.
void move_partial(Context& c, Resident& r, const Step& s, const Operands& o, const Lanes& l) {
  const bool load = s.inst->op->mem.kind == MemKind::load;
  uint32_t* row = operand_row(r.wave, load ? s.inst->dst : *o.data);
  for (uint64_t rest = l.partial; rest; rest &= rest - 1) {
    const int lane = std::countr_zero(rest);
    const uint32_t dwords = check_bytes_inside(c, r, s, l, lane) / 4;
    auto* p = reinterpret_cast<uint8_t*>(l.address[lane]);
    for (uint32_t k = 0; k < s.lane_bytes / 4u; ++k) {
      uint32_t& word = row[k * kLanes + static_cast<uint32_t>(lane)];
      const bool inside = k < dwords;
      if (load) word = inside ? load32(p + 4 * k) : 0;
      if (!load && inside) std::memcpy(p + 4 * k, &word, 4);
    }
  }
}

void store_lanes(const Step& s, const Lanes& l, const uint32_t* row) {
  const MemDesc& m = s.inst->op->mem;
  if (l.contiguous && store_block(s.lane_bytes, row, reinterpret_cast<uint8_t*>(l.address[0]))) return;
  with_width(s.lane_bytes, [&](auto bytes) {
    if (!l.interleaved) {
      for_lanes(l.exec,
                [&](uint32_t lane) { store_lane(m, bytes, row, lane, reinterpret_cast<uint8_t*>(l.address[lane])); });
      return;
    }
    for_lanes(l.exec, [&](uint32_t lane) { store_interleaved<bytes>(m, l, lane, row); });
  });
}

void atomic_lanes(Wave& w, const Step& s, const Operands& o, const Lanes& l) {
  const uint32_t bytes = s.inst->op->mem.elem_bytes;
  const uint32_t* data = operand_row(w, *o.data);
  const uint32_t* compare = o.data->dwords > bytes / 4 ? operand_row(w, *o.data, bytes / 4) : nullptr;
  uint32_t* result = operand_row(w, s.inst->dst);
  for (uint64_t rest = l.exec; rest; rest &= rest - 1) {
    const auto lane = static_cast<uint32_t>(std::countr_zero(rest));
    uint8_t flat[8];
    if (l.interleaved) copy_interleaved(flat, l, lane, bytes, false);
    void* p = l.interleaved ? flat : reinterpret_cast<void*>(l.address[lane]);
    const uint64_t old = s.atomic(p, lane_value(data, lane, bytes), compare ? lane_value(compare, lane, bytes) : 0);
    if (l.interleaved) copy_interleaved(flat, l, lane, bytes, true);
    if (result) set_lane_value(result, lane, bytes, old);
  }
  if (result) for_lanes(l.dropped, [&](uint32_t lane) { set_lane_value(result, lane, bytes, 0); });
}

// Loads into the LDS: lane i's element is stored at M0 + offset + i times its size, at least 4, and 16 for three dwords
// (CDNA4 ISA, section 9.1.9); what is outside the buffer is stored as zero.
void load_to_lds(Context& c, Resident& r, const Step& s, const Lanes& l) {
  const uint64_t base = lds_base(c.arch, r.wave) + static_cast<uint64_t>(s.inst->imm);
  for (uint64_t rest = l.exec | l.dropped | l.partial; rest; rest &= rest - 1) {
    const auto lane = static_cast<uint32_t>(std::countr_zero(rest));
    uint32_t value[4] = {};
    const uint32_t inside = check_bytes_inside(c, r, s, l, static_cast<int>(lane));
    const void* p = reinterpret_cast<const void*>(l.address[lane]);
    if (inside != 0 && s.lane_bytes < 4) {
      value[0] = narrow_value(s.inst->op->mem, p, 0);
    } else if (inside != 0) {
      std::memcpy(value, p, inside);
    }
    const uint32_t bytes = std::max<uint32_t>(s.lane_bytes, 4);
    const uint64_t offset = base + uint64_t{lane} * (bytes == 12 ? 16 : bytes);
    if (c.accesses) c.accesses->use_lds(c, r, s, AccessLog::Use::write, offset, bytes);
    std::memcpy(lds_pointer(c, r, s, lane, offset, bytes), value, bytes);
  }
}

void move_data(Context& c, Resident& r, const Step& s, const Operands& o, const Lanes& l) {
  const MemDesc& m = s.inst->op->mem;
  if (loads_to_lds(*s.inst)) return load_to_lds(c, r, s, l);
  if (m.kind == MemKind::atomic) return atomic_lanes(r.wave, s, o, l);
  if (m.kind == MemKind::load) return load_lanes(s, l, operand_row(r.wave, s.inst->dst));
  store_lanes(s, l, operand_row(r.wave, *o.data));
}

// The lanes of a flat instruction whose address is in the LDS: `offset` of each in that of its work-group. Recorded: a
// flat store that goes to the LDS counts as an instruction of both.
void count_flat_lds(Context& c, Resident& r, const Step& s, uint64_t exec, const uint32_t* offset) {
  const MemDesc& m = s.inst->op->mem;
  const uint64_t bytes = static_cast<uint64_t>(std::popcount(exec)) * s.lane_bytes;
  const bool atomic = m.kind == MemKind::atomic;
  ++c.counts.flat_lds;
  c.counts.flat_lds_bytes += bytes;
  c.counts.not_requested[kind_index(m.kind)] += bytes;
  if (c.model->counts_lds()) count_lds_cycles(c, s, {offset, 0, exec, s.lane_bytes, atomic});
  if (atomic && operand_row(r.wave, s.inst->dst)) ++c.counts.lds_atomic_return;
  r.lds_outstanding = true;
  r.lds_answer = Answer::at(r.now + c.latency.lds, Level::none);
  if (!c.accesses) return;
  const auto use = AccessLog::use_of(m.kind);
  for_lanes(exec, [&](uint32_t lane) { c.accesses->use_lds(c, r, s, use, offset[lane], s.lane_bytes); });
}

// A generic address may be global, private or LDS, separately for each lane.
void execute_flat(Context& c, Resident& r, const Step& s) {
  const Inst& in = *s.inst;
  const Operands o = operands_of(in);
  const uint32_t *low = operand_row(r.wave, *o.vaddr), *high = operand_row(r.wave, *o.vaddr, 1);
  Lanes global, shared, priv;
  uint32_t in_lds[kLanes] = {};
  uint64_t exec = r.wave.exec();
  for (uint32_t i = 0; i < kLanes; ++i) {
    const uint64_t address = (static_cast<uint64_t>(high[i]) << 32 | low[i]) + static_cast<uint64_t>(in.imm);
    global.address[i] = address;
    if (!(exec >> i & 1)) continue;
    Lanes* kind = &global;
    if (address >> 32 == kSharedBase >> 32) {
      kind = &shared;
      in_lds[i] = static_cast<uint32_t>(address);
      shared.address[i] = reinterpret_cast<uint64_t>(lds_pointer(c, r, s, i, address & 0xffffffffu, s.lane_bytes));
    } else if (address >> 32 == kPrivateBase >> 32) {
      kind = &priv;
      const uint64_t offset = address & 0xffffffffu;
      if (offset + s.lane_bytes > c.scratch_lane_bytes) throw_scratch_overflow(c, r, s, offset, static_cast<int>(i));
      priv.address[i] = private_address(r, i, offset);
    }
    kind->exec |= 1ull << i;
  }
  priv.interleaved = true;
  ++r.outstanding_lgkm;
  if (shared.exec) {
    count_flat_lds(c, r, s, shared.exec, in_lds);
    move_data(c, r, s, o, shared);
    if (c.accesses) c.accesses->confirm_writes();
  }
  if (priv.exec) {
    count_access(c, r, s, priv);
    move_data(c, r, s, o, priv);
  }
  if (global.exec) {
    check_bounds(c, r, s, &global);
    count_access(c, r, s, global);
    move_data(c, r, s, o, global);
    if (c.accesses) c.accesses->confirm_writes();
  }
}

}  // namespace

void execute_vector_memory(Context& c, Resident& r, const Step& s) {
  const Inst& in = *s.inst;
  const MemDesc& m = in.op->mem;
  if (m.kind == MemKind::cache) {
    // Invalidation of the vL1D is the only cache operation that affects the cost of later accesses.
    if (m.op != MemOp::buffer_wbl2) c.model->invalidate_l1(r);
    if (c.accesses) c.accesses->fence(r);
    return;
  }
  if (r.wave.exec() == 0) return;
  if (c.accesses) c.accesses->issue(r);
  if (m.space == MemSpace::flat) return execute_flat(c, r, s);
  if (m.space == MemSpace::image) return execute_image(c, r, s);
  const Operands o = operands_of(in);
  Lanes l;
  l.exec = r.wave.exec();
  if (m.space == MemSpace::global) {
    l.contiguous = moves_block(s) && contiguous_base(r.wave, in, o, s.lane_bytes, &l.address[0]) &&
                   c.memory.find(l.address[0], uint64_t{s.lane_bytes} * kLanes);
    if (!l.contiguous) global_addresses(r.wave, in, o, &l);
  } else if (m.space == MemSpace::scratch) {
    scratch_addresses(c, r, s, o, &l);
  } else {
    buffer_addresses(c, r, s, o, &l);
    if (l.dropped | l.partial) count_beyond_buffer(c, s, l);
  }
  if (!l.interleaved && !l.contiguous) check_bounds(c, r, s, &l);
  count_access(c, r, s, l);
  if (s.idle_data) return;
  move_data(c, r, s, o, l);
  if (l.partial && !loads_to_lds(in)) move_partial(c, r, s, o, l);
  if (c.accesses) c.accesses->confirm_writes();
}

}  // namespace hipsynth
