// The path of a vector or scalar memory instruction: coalescer, vL1D per CU, L2 per XCD, Infinity Cache, HBM. It moves
// no data; it counts what the hardware's counters count and reports the deepest level that an access reached.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/machine.h"
#include "memory/access.h"
#include "memory/cache.h"
#include "memory/channels.h"
#include "memory/coalescer.h"
#include "memory/divisor.h"
#include "memory/load_shapes.h"
#include "memory/wide_cache.h"

namespace hipsynth {

enum class Level : uint8_t { none, l1, l2, infinity, hbm };

// Event counts of one dispatch; counters() gives them hardware names.
struct MemoryCounts {
  uint64_t l1_lookups = 0, l1_accesses = 0, l1_reads = 0, l1_writes = 0, l1_atomics_ret = 0, l1_atomics_noret = 0;
  uint64_t l1_read_req = 0, l1_write_req = 0, l1_atomic_ret_req = 0, l1_atomic_noret_req = 0, l1_invalidates = 0;
  uint64_t l1_cycles_max = 0, l1_cycles_sum = 0;
  uint64_t l2_reads = 0, l2_writes = 0, l2_atomics = 0, l2_hits = 0, l2_misses = 0;
  uint64_t l2_halves = 0;  // part of l2_reads: second line halves requested separately from the first
  uint64_t l2_evicts = 0, l2_writebacks = 0, l2_flush_writebacks = 0;
  uint64_t l2_dirtied = 0;  // sectors that became dirty or passed through; each is written back once
  uint64_t fabric_reads = 0, fabric_reads_32b = 0, fabric_reads_128b = 0, fabric_writes = 0, fabric_writes_64b = 0;
  uint64_t infinity_hits = 0, infinity_fills = 0, hbm_read_bytes = 0, hbm_write_bytes = 0;
  uint64_t flushed_bytes = 0;  // written to the fabric after the last wave
  uint64_t left_bytes = 0;     // still modified then: written before the dispatch ends, but not counted
  uint64_t scalar_requests = 0, scalar_hits = 0, scalar_misses = 0;
  uint64_t l2_channel_max = 0;            // requests of the busiest channel of any L2
  uint64_t same_address_atomics_max = 0;  // longest chain of requests serialised on one L2 line
};

// Recently requested lines of one L2 and their arrival times, in cycles: an access to such a line counts as a hit, but
// still waits for it. A newer line replaces an older one.
class Arrivals {
 public:
  struct Arrival {
    uint64_t line_and_one;  // 0: none
    uint64_t level : 3, cycle : 61;
  };
  void add(uint64_t line, uint64_t cycle, Level level) {
    at_[line % kPlaces] = {line + 1, static_cast<uint64_t>(level), cycle};
  }
  // Null if the line has arrived.
  const Arrival* find(uint64_t line, uint64_t now) const {
    const Arrival& a = at_[line % kPlaces];
    return a.line_and_one == line + 1 && a.cycle > now ? &a : nullptr;
  }
  void prefetch(uint64_t line) const { __builtin_prefetch(&at_[line % kPlaces], 1); }

 private:
  static constexpr size_t kPlaces = 4096;
  PageArray<Arrival> at_ = PageArray<Arrival>(kPlaces);
};

inline constexpr uint8_t kSectorBytes = 32;  // granularity of fabric writes

class Hierarchy {
 public:
  // `keep_l2`: a dispatch finds in the L2 what earlier ones left there; else it finds it empty.
  // `moved`: Memory::moved() of the device. Sets and channels do not depend on which devices exist beside it.
  Hierarchy(Arch arch, const Spec& spec, bool keep_l2 = false, uint64_t moved = 0);
  void begin_dispatch();
  void end_dispatch();
  Level access(uint32_t cu, const WaveAccess& access);
  // A load in two steps: repeated loads of the same shape need only the second. `first_address`: that of the first
  // active lane.
  void shape(const WaveAccess& access, LoadShape* shape) const;
  Level load(uint32_t cu, const LoadShape& shape, uint64_t first_address);
  Level scalar(uint32_t cu, uint64_t address, uint32_t bytes);
  // For the last access: cycles until its answer on an otherwise idle device, and the level that it comes from, which
  // is deeper than the returned one if the line was already in flight.
  struct Awaited {
    uint32_t cycles = 0;
    Level level = Level::none;
  };
  const Awaited& awaited() const { return awaited_; }
  void set_cycle(uint64_t cycle) {  // of this dispatch; never decreases
    cycle_ = before_dispatch_ + cycle;
  }
  void invalidate_l1(uint32_t cu);
  const MemoryCounts& counts() const { return n_; }

  // What a dispatch inherits from earlier ones, besides the lines of the Infinity Cache. vL1D and L2 start empty.
  struct Inherited {
    bool first = true;        // it is the device's first dispatch
    uint32_t half_phase = 0;  // of the pairs of line halves that stay apart
    bool operator==(const Inherited&) const = default;
  };
  Inherited inherited() const { return {first_dispatch_, unmerged_period_ ? unmerged_phase_ % unmerged_period_ : 0}; }
  void inherit(const Inherited& from) {
    first_dispatch_ = from.first;
    unmerged_phase_ = from.half_phase;
  }
  // Whether Inherited is everything: there is no Infinity Cache, or it holds no line that the L2s have modified.
  bool inherits_clean_l2() const { return !infinity_.present() || write_back_at_end_; }
  bool has_infinity() const { return infinity_.present(); }
  const LargeCache& infinity() const { return infinity_; }
  void set_infinity(const LargeCache& lines) { infinity_ = lines; }
  void empty_l2();
  // Ages the Infinity Cache by the lines that work-groups which do not run would have brought in.
  void age_infinity(uint64_t lines);
  uint64_t infinity_replaced() const { return replaced_; }  // lines that this dispatch brought into the Infinity Cache
  // Whether the device's first dispatch is like any other.
  bool first_as_later() const { return write_back_at_end_; }
  // The counts of the last dispatch had it not been the device's first one.
  const MemoryCounts& counts_if_later() const { return counts_if_later_; }
  // Sets the counts of a dispatch of which only a part was simulated.
  void set_counts(const MemoryCounts& counts) { n_ = counts; }
  void join_halves(double apart);  // counts this share of the second line halves as separate requests
  uint64_t modified_bytes() const;
  uint64_t longest_atomic_chain() const;
  MemoryCounts dirty() const;  // write counts that writing back all dirty lines would add
  Channels& channels() { return channels_; }
  uint64_t l1_cycles(uint32_t cu) const { return l1_cycles_[cu]; }
  uint32_t l1_line_bytes() const { return l1_line_; }
  uint64_t fabric_read_bytes() const;
  uint64_t fabric_write_bytes() const;
  void counters(std::map<std::string, double>* out) const;

 private:
  Level load_lanes(uint32_t cu, const WaveAccess& a);
  Level store(uint32_t cu, const WaveAccess& a);
  Level atomic(uint32_t cu, const WaveAccess& a);
  // A line of the L2: its physical line number, and its set and tag.
  struct L2Line {
    uint64_t physical;
    LargeCache::Place place;
  };
  L2Line line_of(uint64_t number) const;
  // Consecutive write requests to one line of the L2.
  struct Written {
    uint64_t line;
    uint8_t sectors;
    uint32_t requests;
    L2Line at;
  };
  void stream_lines(uint32_t xcd, const Written* lines, uint32_t n);
  void stream(uint32_t xcd, const Written& next, Written* passing);
  void pass_through(Written* passing);
  // The L2 requests of one load.
  struct Wanted;
  void store_block(uint32_t xcd, const WaveAccess& a);
  void store_segments(uint32_t xcd, const WaveAccess& a, const uint64_t* segments, uint32_t n);
  void load_line(uint32_t cu, uint32_t xcd, uint64_t line, Wanted* wanted);
  void await(Level level, uint64_t cycles);
  L2Line announce(uint32_t xcd, uint64_t line);
  void announce_write_back(uint32_t xcd, const L2Line& line);
  Level l2_access(uint32_t xcd, L2Line line, uint8_t dirty, bool fetch, uint32_t requests = 1);
  void write_back(LargeCache::Place in_infinity, uint8_t sectors);
  void flush_l2(LargeCache* l2);
  void remove_written();
  Level fabric_read(uint64_t line);
  bool infinity_access(LargeCache::Place at, uint8_t dirty);
  uint64_t physical(uint64_t line) const;

  Arch arch_;
  uint32_t cus_, cus_per_xcd_, l1_line_, l2_line_, fill_cycles_, unmerged_period_, fabric_read_bytes_per_request_;
  Divisor segments_per_l1_line_, segments_per_l2_line_, l1_lines_per_l2_line_, page_lines_;
  Divisor scalar_line_, cus_per_scalar_;
  bool merges_stores_, write_back_at_end_, keep_l2_, first_dispatch_ = true;
  uint64_t moved_lines_;
  std::vector<Cache> l1_, scalar_;
  std::vector<WideCache> wide_l1_;  // used instead of l1_ if sets have many ways
  std::vector<LargeCache> l2_;
  LargeCache infinity_;
  std::unordered_map<uint64_t, bool> early_;  // see age_infinity(); whether the line was new there
  std::vector<uint64_t> written_;             // lines that the L2s wrote back, if they keep others
  std::vector<Arrivals> arrivals_;            // per L2
  uint32_t latency_[5];                       // by Level
  uint64_t cycle_ = 0, before_dispatch_ = 0;
  Awaited awaited_;
  LoadShapes shapes_;
  std::vector<uint64_t> l1_cycles_;  // per CU, of this dispatch
  Channels channels_;
  std::unordered_map<uint64_t, uint64_t> atomic_chain_;  // requests per L2 line
  uint32_t unmerged_phase_ = 0;
  uint64_t replaced_ = 0;
  MemoryCounts n_, counts_if_later_;
};

}  // namespace hipsynth
