// Maps the event counts of a dispatch to hardware counter names.
#include <algorithm>
#include <map>
#include <string>

#include "core/counter_set.h"
#include "memory/hierarchy.h"

namespace hipsynth {

uint64_t Hierarchy::fabric_read_bytes() const {
  const MemoryCounts& n = n_;
  return n.fabric_reads_128b * 128 + (n.fabric_reads - n.fabric_reads_128b - n.fabric_reads_32b) * 64 +
         n.fabric_reads_32b * 32;
}

uint64_t Hierarchy::fabric_write_bytes() const {
  return n_.fabric_writes_64b * 64 + (n_.fabric_writes - n_.fabric_writes_64b) * 32;
}

uint64_t Hierarchy::longest_atomic_chain() const {
  uint64_t longest = 0;
  for (const auto& [address, length] : atomic_chain_) longest = std::max(longest, length);
  return longest;
}

// What the L2 holds modified.
uint64_t Hierarchy::modified_bytes() const {
  uint64_t sum = 0;
  for (const LargeCache& c : l2_) sum += c.dirty_sectors() * kSectorBytes;
  return sum;
}

void Hierarchy::counters(std::map<std::string, double>* out) const {
  CounterSet c;
  const MemoryCounts& n = n_;
  const auto set = [&](Counter name, uint64_t v) { c[name] = static_cast<double>(v); };
  set(Counter::TCP_TOTAL_CACHE_ACCESSES, n.l1_lookups);
  set(Counter::TCP_TOTAL_ACCESSES, n.l1_accesses);
  set(Counter::TCP_TOTAL_READ, n.l1_reads);
  set(Counter::TCP_TOTAL_WRITE, n.l1_writes);
  set(Counter::TCP_TOTAL_ATOMIC_WITH_RET, n.l1_atomics_ret);
  set(Counter::TCP_TOTAL_ATOMIC_WITHOUT_RET, n.l1_atomics_noret);
  set(Counter::TCP_TCC_READ_REQ, n.l1_read_req);
  set(Counter::TCP_TCC_WRITE_REQ, n.l1_write_req);
  set(Counter::TCP_TCC_ATOMIC_WITH_RET_REQ, n.l1_atomic_ret_req);
  set(Counter::TCP_TCC_ATOMIC_WITHOUT_RET_REQ, n.l1_atomic_noret_req);
  set(Counter::TCC_READ, n.l2_reads);
  set(Counter::TCC_WRITE, n.l2_writes);
  set(Counter::TCC_ATOMIC, n.l2_atomics);
  set(Counter::TCC_REQ, n.l2_reads + n.l2_writes + n.l2_atomics);
  set(Counter::TCC_HIT, n.l2_hits);
  set(Counter::TCC_MISS, n.l2_misses);
  set(Counter::TCC_NORMAL_EVICT, n.l2_evicts);
  set(Counter::TCC_NORMAL_WRITEBACK, n.l2_writebacks);
  set(Counter::TCC_ALL_TC_OP_WB_WRITEBACK, n.l2_flush_writebacks);
  set(Counter::TCC_WRITEBACK, n.l2_writebacks + n.l2_flush_writebacks);
  set(Counter::SQC_DCACHE_REQ, n.scalar_requests);
  set(Counter::SQC_DCACHE_HITS, n.scalar_hits);
  set(Counter::SQC_DCACHE_MISSES, n.scalar_misses);
  const FabricCounters& fabric = kFabricCounters[static_cast<size_t>(arch_)];
  set(fabric.rdreq, n.fabric_reads);
  set(fabric.rdreq_32b, n.fabric_reads_32b);
  set(fabric.wrreq, n.fabric_writes);
  set(fabric.wrreq_64b, n.fabric_writes_64b);
  if (traits(arch_).counts_128b_reads) set(Counter::TCC_BUBBLE, n.fabric_reads_128b);
  c[Counter::FETCH_SIZE] = static_cast<double>(fabric_read_bytes()) / 1024;  // KiB, as the profiler's derived counters
  c[Counter::WRITE_SIZE] = static_cast<double>(fabric_write_bytes()) / 1024;
  c.store(out);
}

}  // namespace hipsynth
