// Results of one dispatch, in the typed parts that a kernel record has (core/kernel_record.py).
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "timing/work.h"

namespace hipsynth {

struct Dim3 {
  uint32_t x = 1, y = 1, z = 1;
};

// Resources of a kernel: registers of a SIMD, LDS per work-group, scratch memory per work-item.
struct Registers {
  double vgprs = 0, agprs = 0, sgprs = 0, lds_bytes = 0, scratch_bytes = 0;
  static constexpr Field<Registers> kFields[] = {
      {"vgprs", &Registers::vgprs},
      {"agprs", &Registers::agprs},
      {"sgprs", &Registers::sgprs},
      {"lds_bytes", &Registers::lds_bytes},
      {"scratch_bytes", &Registers::scratch_bytes},
  };
};
static_assert(names_all<Registers>());

// The resource that limits the waves per CU. If dispatches of a kernel differ, the first in this order is recorded.
enum class Limiter : uint8_t { lds, sgprs, vgprs, wave_slots, work_groups };
inline constexpr std::array kLimiterNames = {"LDS", "SGPRs", "VGPRs", "wave slots", "work-groups"};

// Occupancy of a CU. `fraction`: resident waves as a share of the device's wave slots; `peak_waves`: the most that were
// resident during the simulation.
struct Residency {
  double groups_per_cu = 0, waves_per_cu = 0, fraction = 0, peak_waves = 0;
  static constexpr Field<Residency> kFields[] = {
      {"groups_per_cu", &Residency::groups_per_cu},
      {"waves_per_cu", &Residency::waves_per_cu},
      {"fraction", &Residency::fraction},
      {"peak_waves", &Residency::peak_waves},
  };
};
static_assert(names_all<Residency>());

// Components of the timing model: hardware units, and the phases before and after them.
enum class Bound : uint8_t {
  launch,
  latency,
  dispatch,
  vl1d,
  l2,
  atomics,
  infinity,
  hbm,
  valu,
  mfma,
  salu,
  lds,
  write_back,
  ramp
};
inline constexpr std::array kBoundNames = {"launch", "latency", "dispatch", "vl1d", "l2",  "atomics",    "infinity",
                                           "hbm",    "valu",    "mfma",     "salu", "lds", "write_back", "ramp"};
using Bounds = std::array<double, kBoundNames.size()>;  // ns that each unit would need if it were the only limit

// What bounds the duration: the time of each unit, the largest of these, and the cycles of an average wave that runs
// alone on the device.
struct Limits {
  Bounds bounds{};
  Bound bottleneck = Bound::launch;
  double wave_cycles = 0;
};

// Memory traffic behind the L2.
struct Traffic {
  double hbm_read_bytes = 0, hbm_write_bytes = 0, infinity_hits = 0;
  static constexpr Field<Traffic> kFields[] = {
      {"hbm_read_bytes", &Traffic::hbm_read_bytes},
      {"hbm_write_bytes", &Traffic::hbm_write_bytes},
      {"infinity_hits", &Traffic::infinity_hits},
  };
};
static_assert(names_all<Traffic>());

// exact: every work-group ran. replayed: all work-groups repeated the trace of a few recorded ones. sampled: counts are
// extrapolated from part of the grid. If dispatches of a kernel differ, the last in this order is recorded. Only exact
// execution computes the kernel's results.
enum class Strategy : uint8_t { exact, replayed, sampled };
inline constexpr std::array kStrategyNames = {"exact", "replayed", "sampled"};

struct Sampling {
  Strategy strategy = Strategy::exact;
  uint64_t groups_simulated = 0;        // work-groups that ran or were replayed
  uint64_t groups_recorded = 0;         // work-groups that were recorded for the replay
  std::map<std::string, double> error;  // sampled: expected relative error (two standard deviations) by counter
  uint64_t reused = 0;                  // dispatches whose counters and duration are those of an earlier one
  bool unreplayed = false;              // sampled, since replaying its equal work-groups would have taken too long
};

// What became of a launch under DeviceOptions::budget_s, or Device::sample_coarsely. Prices are those of
// dispatch/budget.h.
struct Treatment {
  bool counted = true;  // it has counters: its own, or (Sampling::reused) those of an earlier launch of its shape
  bool coarse = false;  // sampled in fewer parts than the options ask for
  bool results = true;  // memory holds what it computes
  double counting_ns = 0, running_ns = 0;  // spent with and without the memory model
};

struct Dispatch {
  Dim3 grid, block;
  std::map<std::string, double> counters;  // hardware names, summed over instances, no _sum suffix
  double duration_ns = 0;
  // Unset without DeviceOptions::counters; without the memory model `traffic` is unset too.
  std::optional<Registers> registers;
  std::optional<Residency> occupancy;
  Limiter limited_by = Limiter::lds;
  std::optional<Limits> limits;
  std::optional<Work> work;
  std::optional<Traffic> traffic;
  Sampling sampling;
  uint64_t out_of_bounds = 0;                // accesses outside every allocation that hardware would not fault
  uint64_t out_of_bounds_at = 0;             // address of the instruction of the first
  std::string first_race;                    // two accesses that nothing puts in order, with DeviceOptions::races
  std::string first_unfenced;                // likewise: two that only atomics put in order, without a fence
  std::string first_out_of_bounds;           // message about the first of them
  std::string printf_output, printf_errors;  // text that the kernel printed to stdout and stderr
  Treatment treatment;
};

}  // namespace hipsynth
