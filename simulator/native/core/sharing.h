// Which lines of device memory each work-group of a launch reads and writes: what a mapping of work-groups to chiplets
// needs to know. One functional run of the kernel's slice, apart from the launch itself; nothing else pays for it.
#pragma once

#include <array>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "core/launch.h"
#include "core/state.h"
#include "core/wave_pool.h"
#include "execute/memory_model.h"
#include "sampling/slice.h"

namespace hipsynth {

struct SharingOptions {
  uint64_t most_touches = 0;   // that are kept of a launch; 0: nothing is observed
  uint64_t most_work = ~0ull;  // wave instructions of a launch
};

// One work-group's use of one line: its 32 words that the group reads, writes and updates by atomics, as bit masks.
struct Touch {
  uint32_t group, line;  // line: in units of kSharingLine from the start of device memory
  uint32_t reads, writes, atomics;
};
inline constexpr uint32_t kSharingLine = 128;

enum class Observed : uint8_t {
  all,        // every work-group
  ordered,    // not run: results depend on the order of atomics
  following,  // not run: control flow or services that only the launch itself can follow
  too_long    // given up: more work than allowed
};
inline constexpr std::array kObservedNames = {"all", "ordered", "following", "too_long"};

// Collects touches. If there are more than allowed, only lines whose hash is divisible by one_in() are kept: a sample
// of lines keeps every work-group and all sharing, and a cache of that share of the capacity behaves alike (Waldspurger
// and others, "Efficient MRC Construction with SHARDS", FAST 2015).
class Sharing final : public MemoryModel {
 public:
  Sharing(const SharingOptions& options, uint64_t memory_start, const Dim3& grid)
      : most_(options.most_touches), start_(memory_start), grid_(grid) {}

  void access(Resident& r, const WaveAccess& a) override;
  void scalar_load(Resident& r, uint64_t address, uint32_t bytes) override;
  void scalar_write(Resident& r, uint64_t address, uint32_t bytes) override;

  // The run writes memory: what lines held before is kept until put_back().
  void keep_contents() { keeps_contents_ = true; }
  void put_back();

  void finish() { end_group(); }
  const std::vector<Touch>& touches() const { return kept_; }
  uint32_t one_in() const { return one_in_; }

 private:
  void begin_group(const WorkGroup& group);
  void add_touches(Access kind, uint64_t first, uint64_t bytes);
  void end_group();
  void save_line(uint64_t line);
  bool samples_line(uint32_t line) const;
  void halve_sample();

  uint64_t most_, start_;
  Dim3 grid_;
  uint32_t group_ = ~0u, one_in_ = 1;
  bool keeps_contents_ = false;
  std::unordered_map<uint64_t, std::array<uint8_t, kSharingLine>> contents_;  // of written lines, by number
  size_t merged_ = 0;                                                         // of open_, when it was last merged
  std::vector<Touch> open_;  // of the current work-group; may name a line repeatedly
  std::vector<Touch> kept_;  // of earlier ones, by work-group and line
};

// Runs the slice for its touches.
Observed observe(const Context& context, const KernelTraits& traits, KernelSlice& slice, const Launch& launch,
                 const LaunchPlan& plan, WavePool& waves, const SharingOptions& options, Sharing* out);

}  // namespace hipsynth
