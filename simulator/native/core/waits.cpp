#include "core/waits.h"

namespace hipsynth {

// gfx9: vmcnt in bits 0..3 and 14..15, lgkmcnt in 8..11.
WaitLimits wait_limits(int64_t imm) {
  return {static_cast<uint32_t>((imm & 0xf) | (imm >> 10 & 0x30)), static_cast<uint32_t>(imm >> 8 & 0xf)};
}

// Latencies below the vL1D also apply to scalar loads.
Latencies latencies_of(const Spec& spec) {
  const auto cycles = [](double value) { return static_cast<uint32_t>(value); };
  const uint32_t scalar = cycles(spec.issue.smem_latency_cycles), l2 = cycles(spec.l2.latency_cycles);
  const uint32_t infinity = cycles(spec.fabric.infinity_cache_latency_cycles), hbm = cycles(spec.hbm.latency_cycles);
  return {{cycles(spec.l2.store_latency_cycles), cycles(spec.vl1d.latency_cycles), l2, infinity, hbm},
          {scalar, scalar, l2, infinity, hbm},
          cycles(spec.issue.lds_latency_cycles)};
}

void count_wait(Context& c, Resident* r, WaitLimits limits, uint32_t now) {
  int32_t longest = 0;
  uint64_t* count = nullptr;
  uint32_t latency = 1;
  const auto look = [&](Answer answer, uint64_t* counts, const uint32_t* latencies) {
    const int32_t wait = answer.after(now);
    if (wait <= longest) return;
    const auto level = static_cast<size_t>(answer.level());
    longest = wait;
    count = &counts[level];
    latency = latencies[level];
  };
  if (r->outstanding_vm > limits.vm && r->issued_vm > limits.vm) {
    look(r->answer_of(limits.vm), c.counts.vm_waits, c.latency.vector);
  }
  if (r->outstanding_lgkm > limits.lgkm) {
    if (r->smem_level != Level::none) look(r->scalar_answer, c.counts.smem_waits, c.latency.scalar);
    if (r->lds_outstanding) look(r->lds_answer, &c.counts.lds_waits, &c.latency.lds);
  }
  if (!count || latency == 0) return;
  *count += (static_cast<uint64_t>(longest) * EngineCounts::kWaitUnits + latency / 2) / latency;
  r->clock += static_cast<uint32_t>(longest);
}

}  // namespace hipsynth
