// What one dispatch did, in the typed parts that a kernel record has (synth/core/kernel_record.py).
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

// What a kernel takes of a SIMD's registers, of the LDS per work-group and of scratch memory per work-item.
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

// The resource that allows a CU no more waves. Of dispatches that differ, the first in this order is recorded.
enum class Limiter : uint8_t { lds, sgprs, vgprs, wave_slots, work_groups };
inline constexpr std::array kLimiterNames = {"LDS", "SGPRs", "VGPRs", "wave slots", "work-groups"};

// What fits on a CU at once; `fraction` of the device's wave slots, `peak_waves` of the simulation.
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

// What the timing model tells apart: units, and what comes before and after them.
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
using Bounds = std::array<double, kBoundNames.size()>;  // ns that each unit alone would need

// How the duration comes about: the bounds, the largest of them, and the life of an average wave, alone on the device.
struct Limits {
  Bounds bounds{};
  Bound bottleneck = Bound::launch;
  double wave_cycles = 0;
};

// Behind the L2.
struct Traffic {
  double hbm_read_bytes = 0, hbm_write_bytes = 0, infinity_hits = 0;
  static constexpr Field<Traffic> kFields[] = {
      {"hbm_read_bytes", &Traffic::hbm_read_bytes},
      {"hbm_write_bytes", &Traffic::hbm_write_bytes},
      {"infinity_hits", &Traffic::infinity_hits},
  };
};
static_assert(names_all<Traffic>());

// exact: every work-group ran; replayed: every one did what a few recorded ones did; sampled: counts are scaled up from
// a part of the grid. Of several dispatches the last in this order is recorded. Only an exact one computes results.
enum class Strategy : uint8_t { exact, replayed, sampled };
inline constexpr std::array kStrategyNames = {"exact", "replayed", "sampled"};

struct Sampling {
  Strategy strategy = Strategy::exact;
  uint64_t groups_simulated = 0;        // work-groups that ran or were replayed
  uint64_t groups_recorded = 0;         // those whose trace stands for all
  std::map<std::string, double> error;  // sampled: expected relative error (two standard deviations) by counter
};

struct Dispatch {
  Dim3 grid, block;
  std::map<std::string, double> counters;  // hardware names, summed over instances, no _sum suffix
  double duration_ns = 0;
  // Without DeviceOptions::counters none of these is filled, without the memory model there is no traffic.
  std::optional<Registers> registers;
  std::optional<Residency> occupancy;
  Limiter limited_by = Limiter::lds;
  std::optional<Limits> limits;
  std::optional<Work> work;
  std::optional<Traffic> traffic;
  Sampling sampling;
  uint64_t out_of_bounds = 0;                // accesses outside every allocation that hardware would let pass
  std::string first_out_of_bounds;           // message about the first of them
  std::string printf_output, printf_errors;  // what the kernel wrote to stdout and stderr
};

}  // namespace hipsynth
