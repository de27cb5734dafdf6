#include "execute/memory_model.h"

#include <algorithm>

namespace hipsynth {
namespace {

// The vL1D takes a wave's instructions one after the other, each for some cycles. Returns when it begins the last of
// them for this one: latencies are those of a load that takes one cycle.
uint32_t through_vl1d(Resident& r, uint32_t cycles) {
  const auto behind = static_cast<int32_t>(r.vl1d_free - r.now);
  r.vl1d_free = r.now + static_cast<uint32_t>(std::max(behind, 0)) + std::max(cycles, 1u);
  return r.vl1d_free - 1;
}

}  // namespace

void CountedMemory::record_access(Resident& r, Access kind, Level level) {
  const uint64_t back = access_timing_.record_access(r.group->cu, level);
  const uint32_t turn = through_vl1d(r, static_cast<uint32_t>(access_timing_.vl1d_cycles()));
  if (kind == Access::store) {  // no wave waits for a store alone, but its answer returns in order with the others
    r.issue_vm(0, Answer::at(turn + latency_.vector[0], Level::none));
  } else {
    const Hierarchy::Awaited& awaited = hierarchy_.awaited();
    r.issue_vm(back, Answer::at(turn + awaited.cycles, awaited.level));
    r.vm_level = std::max(r.vm_level, level);
  }
}

void CountedMemory::swizzled_access(Resident& r, const WaveAccess& a, uint64_t stride) {
  if (a.bytes <= 4) return access(r, a);
  uint64_t shifted[kLanes];
  WaveAccess dword = a;
  dword.address = shifted;
  dword.bytes = 4;
  set_time(r);
  Level deepest = Level::l1;
  for (uint32_t k = 0; k < a.bytes / 4; ++k) {
    for (int i = 0; i < kLanes; ++i) shifted[i] = a.address[i] + uint64_t{k} * stride;
    deepest = std::max(deepest, hierarchy_.access(r.group->cu, dword));
  }
  record_access(r, a.kind, deepest);
}

void CountedMemory::image_access(Resident& r, Access kind, std::span<const WaveAccess> texels) {
  set_time(r);
  Level deepest = Level::l1;
  for (const WaveAccess& a : texels) deepest = std::max(deepest, hierarchy_.access(r.group->cu, a));
  if (kind == Access::store) return r.issue_vm(0, Answer::at(r.now + latency_.vector[0], Level::none));
  r.vm_level = std::max(r.vm_level, deepest);
  const uint32_t latency = latency_.vector[static_cast<size_t>(deepest)];
  r.issue_vm(access_timing_.typical_return_round(), Answer::at(r.now + latency, deepest));
}

void CountedMemory::scalar_load(Resident& r, uint64_t address, uint32_t bytes) {
  set_time(r);
  const Level level = hierarchy_.scalar(r.group->cu, address, bytes);
  r.answer_scalar(Answer::at(r.now + latency_.scalar[static_cast<size_t>(level)], level));
}

}  // namespace hipsynth
