// The counts of a dispatch under the names of the hardware's counters.
#include <map>
#include <string>

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

void Hierarchy::counters(std::map<std::string, double>* out) const {
  auto& c = *out;
  const MemoryCounts& n = n_;
  const auto set = [&](const char* name, uint64_t v) { c[name] = static_cast<double>(v); };
  set("TCP_TOTAL_CACHE_ACCESSES", n.l1_lookups);
  set("TCP_TOTAL_ACCESSES", n.l1_accesses);
  set("TCP_TOTAL_READ", n.l1_reads);
  set("TCP_TOTAL_WRITE", n.l1_writes);
  set("TCP_TOTAL_ATOMIC_WITH_RET", n.l1_atomics_ret);
  set("TCP_TOTAL_ATOMIC_WITHOUT_RET", n.l1_atomics_noret);
  set("TCP_TCC_READ_REQ", n.l1_read_req);
  set("TCP_TCC_WRITE_REQ", n.l1_write_req);
  set("TCP_TCC_ATOMIC_WITH_RET_REQ", n.l1_atomic_ret_req);
  set("TCP_TCC_ATOMIC_WITHOUT_RET_REQ", n.l1_atomic_noret_req);
  set("TCC_READ", n.l2_reads);
  set("TCC_WRITE", n.l2_writes);
  set("TCC_ATOMIC", n.l2_atomics);
  set("TCC_REQ", n.l2_reads + n.l2_writes + n.l2_atomics);
  set("TCC_HIT", n.l2_hits);
  set("TCC_MISS", n.l2_misses);
  set("TCC_NORMAL_EVICT", n.l2_evicts);
  set("TCC_NORMAL_WRITEBACK", n.l2_writebacks);
  set("TCC_ALL_TC_OP_WB_WRITEBACK", n.l2_flush_writebacks);
  set("TCC_WRITEBACK", n.l2_writebacks + n.l2_flush_writebacks);
  set("SQC_DCACHE_REQ", n.scalar_requests);
  set("SQC_DCACHE_HITS", n.scalar_hits);
  set("SQC_DCACHE_MISSES", n.scalar_misses);
  const std::string ea = std::string(traits(arch_).fabric_counters) + "_";
  set((ea + "RDREQ").c_str(), n.fabric_reads);
  set((ea + "RDREQ_32B").c_str(), n.fabric_reads_32b);
  set((ea + "WRREQ").c_str(), n.fabric_writes);
  set((ea + "WRREQ_64B").c_str(), n.fabric_writes_64b);
  if (traits(arch_).counts_128b_reads) set("TCC_BUBBLE", n.fabric_reads_128b);
  c["FETCH_SIZE"] = static_cast<double>(fabric_read_bytes()) / 1024;  // KiB, as the profiler's derived counters
  c["WRITE_SIZE"] = static_cast<double>(fabric_write_bytes()) / 1024;
}

}  // namespace hipsynth
