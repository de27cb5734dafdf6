// Effects of memory instructions on the modelled machine, besides moving data.
#pragma once

#include <cstdint>
#include <span>

#include "core/state.h"
#include "core/waits.h"
#include "memory/access_timing.h"

namespace hipsynth {

// Host time of a vL1D look-up or a scalar request, in units of simulation_work() (sampling/sampler.h).
inline constexpr uint64_t kLookUpWork = 4;

// The base class is the model of a functional run: it counts nothing, the vector memory unit is always free, and every
// answer arrives in the next round. A Context always has exactly one model.
class MemoryModel {
 public:
  MemoryModel() = default;
  virtual ~MemoryModel() = default;
  MemoryModel(const MemoryModel&) = delete;
  MemoryModel& operator=(const MemoryModel&) = delete;

  virtual void begin_dispatch() {}
  virtual void end_dispatch() {}

  // Called for a vector memory instruction when its data moves; `access` has at least one active lane.
  virtual void access(Resident&, const WaveAccess&) {}
  // The same for a swizzled buffer: consecutive dwords of a lane are `stride` bytes apart.
  virtual void swizzled_access(Resident&, const WaveAccess&, uint64_t /*stride*/) {}
  // Called for an image instruction, with one access per texel of its filter.
  virtual void image_access(Resident&, Access, std::span<const WaveAccess>) {}
  // Called for a vector memory instruction with all lanes outside their buffer.
  virtual void empty_access(Resident&) {}
  virtual void scalar_load(Resident&, uint64_t /*address*/, uint32_t /*bytes*/) {}
  virtual void scalar_write(Resident&, uint64_t /*address*/, uint32_t /*bytes*/) {}
  virtual void invalidate_l1(const Resident&) {}

  // Rounds are the engine's time slices.
  virtual void set_round(uint64_t round) { round_ = round; }
  // The first round in which the vector memory unit of a CU accepts an instruction.
  virtual uint64_t next_issue_round(uint32_t /*cu*/) { return 0; }
  // Counts the cycles that the wave would wait here if it ran alone on the device; see hipsynth::count_wait.
  virtual void count_wait(Context&, Resident*, WaitLimits, uint32_t /*now*/) {}
  // The round in which all but the last `pending` vector memory instructions are back; the round in which scalar data
  // is back.
  virtual uint64_t vector_back(const Resident&, uint32_t /*pending*/) const { return round_ + 1; }
  virtual uint64_t scalar_return_round(Level) const { return round_ + 1; }

  // The host's work for the look-ups of the dispatch so far, in units of simulation_work().
  virtual uint64_t look_up_work() const { return 0; }

  bool counts_lds() const { return counts_lds_; }

 protected:
  explicit MemoryModel(bool counts_lds) : counts_lds_(counts_lds) {}

 private:
  uint64_t round_ = 0;
  bool counts_lds_ = false;
};

// Accesses go through the caches and are counted; AccessTiming determines when their data is back.
class CountedMemory final : public MemoryModel {
 public:
  CountedMemory(const Spec& spec, Hierarchy& hierarchy)
      : MemoryModel(true), hierarchy_(hierarchy), access_timing_(spec, hierarchy), latency_(latencies_of(spec)) {}

  void begin_dispatch() override { hierarchy_.begin_dispatch(); }
  void end_dispatch() override { hierarchy_.end_dispatch(); }
  void access(Resident& r, const WaveAccess& a) override {
    set_time(r);
    record_access(r, a.kind, hierarchy_.access(r.group->cu, a));
  }
  void swizzled_access(Resident& r, const WaveAccess& a, uint64_t stride) override;
  void image_access(Resident& r, Access kind, std::span<const WaveAccess> texels) override;
  void empty_access(Resident& r) override { r.issue_vm(0, Answer::at(r.now, Level::none)); }
  void scalar_load(Resident& r, uint64_t address, uint32_t bytes) override;
  void scalar_write(Resident& r, uint64_t address, uint32_t bytes) override {
    set_time(r);
    hierarchy_.scalar(r.group->cu, address, bytes);
  }
  void invalidate_l1(const Resident& r) override { hierarchy_.invalidate_l1(r.group->cu); }
  void set_round(uint64_t round) override { access_timing_.set_round(round); }
  uint64_t next_issue_round(uint32_t cu) override { return access_timing_.next_issue_round(cu); }
  void count_wait(Context& c, Resident* r, WaitLimits limits, uint32_t now) override {
    hipsynth::count_wait(c, r, limits, now);
  }
  uint64_t vector_back(const Resident& r, uint32_t pending) const override { return r.back_of(pending); }
  uint64_t scalar_return_round(Level level) const override { return access_timing_.scalar_return_round(level); }
  uint64_t look_up_work() const override {
    return kLookUpWork * (hierarchy_.counts().l1_lookups + hierarchy_.counts().scalar_requests);
  }

  // A vector load that is already coalesced.
  void load(Resident& r, const LoadShape& shape, uint64_t first_address) {
    set_time(r);
    record_access(r, Access::load, hierarchy_.load(r.group->cu, shape, first_address));
  }
  // The round in which the data of a typical vector load would be back.
  uint64_t typical_back() const { return access_timing_.typical_return_round(); }
  Hierarchy& hierarchy() { return hierarchy_; }

 private:
  void set_time(const Resident& r) { hierarchy_.channels().set_time(r.began * access_timing_.round_cycles() + r.now); }
  // Updates what is outstanding, and when its answer arrives, after an access that went as deep as `level`.
  void record_access(Resident& r, Access kind, Level level);

  Hierarchy& hierarchy_;
  AccessTiming access_timing_;
  Latencies latency_;
};

}  // namespace hipsynth
