// Event counts of one dispatch as plain numbers: the only input of the timing model besides the device table.
#pragma once

#include <iterator>
#include <map>
#include <string>

namespace hipsynth {

// A numeric member of T and its name.
template <class T>
struct Field {
  const char* name;
  double T::* member;
};

// Whether every member of T is a number with a name.
template <class T>
constexpr bool names_all() {
  return sizeof(T) == std::size(T::kFields) * sizeof(double);
}

// Totals over the dispatch unless noted otherwise.
struct Work {
  // Launch and occupancy.
  double groups = 0, waves_per_group = 0, groups_per_cu = 0, waves = 0;
  // As many as would take the same time in all if each took as long as the long ones; 0: all.
  double working_groups = 0, working_waves = 0;
  // Wave instructions by the unit that executes them.
  double valu_full = 0, valu_packed = 0, valu_trans = 0, valu_f64 = 0, valu_int64_mul = 0, mfma_cycles = 0;
  double salu = 0, smem = 0, vmem = 0, lds = 0, flow = 0, jumps = 0;
  double lds_cycles = 0;
  // Dependent round trips that waves waited for, by the deepest level reached.
  double store_waits = 0, l1_waits = 0, l2_waits = 0, infinity_waits = 0, hbm_waits = 0;
  double scalar_hit_waits = 0, scalar_l2_waits = 0, scalar_infinity_waits = 0, scalar_hbm_waits = 0;
  double lds_waits = 0, barriers = 0, store_tails = 0;
  double barrier_cycles = 0;  // that waves wait at barriers for the others
  // Requests and bytes.
  double l1_cycles_busiest_cu = 0, l2_requests_busiest_channel = 0;
  double l2_turns_busiest_channel = 0;  // switches between reading and writing
  double atomics_busiest_line = 0;
  double fabric_read_bytes = 0, fabric_write_bytes = 0, hbm_read_bytes = 0, hbm_write_bytes = 0;
  double flushed_bytes = 0;  // part of the written bytes that leaves the L2 after the last wave
  double left_bytes = 0;     // leave the L2 after that, and count for no dispatch

  static constexpr Field<Work> kFields[] = {
      {"groups", &Work::groups},
      {"waves_per_group", &Work::waves_per_group},
      {"groups_per_cu", &Work::groups_per_cu},
      {"waves", &Work::waves},
      {"working_groups", &Work::working_groups},
      {"working_waves", &Work::working_waves},
      {"valu_full", &Work::valu_full},
      {"valu_packed", &Work::valu_packed},
      {"valu_trans", &Work::valu_trans},
      {"valu_f64", &Work::valu_f64},
      {"valu_int64_mul", &Work::valu_int64_mul},
      {"mfma_cycles", &Work::mfma_cycles},
      {"salu", &Work::salu},
      {"smem", &Work::smem},
      {"vmem", &Work::vmem},
      {"lds", &Work::lds},
      {"flow", &Work::flow},
      {"jumps", &Work::jumps},
      {"lds_cycles", &Work::lds_cycles},
      {"store_waits", &Work::store_waits},
      {"l1_waits", &Work::l1_waits},
      {"l2_waits", &Work::l2_waits},
      {"infinity_waits", &Work::infinity_waits},
      {"hbm_waits", &Work::hbm_waits},
      {"scalar_hit_waits", &Work::scalar_hit_waits},
      {"scalar_l2_waits", &Work::scalar_l2_waits},
      {"scalar_infinity_waits", &Work::scalar_infinity_waits},
      {"scalar_hbm_waits", &Work::scalar_hbm_waits},
      {"lds_waits", &Work::lds_waits},
      {"barriers", &Work::barriers},
      {"store_tails", &Work::store_tails},
      {"barrier_cycles", &Work::barrier_cycles},
      {"l1_cycles_busiest_cu", &Work::l1_cycles_busiest_cu},
      {"l2_requests_busiest_channel", &Work::l2_requests_busiest_channel},
      {"l2_turns_busiest_channel", &Work::l2_turns_busiest_channel},
      {"atomics_busiest_line", &Work::atomics_busiest_line},
      {"fabric_read_bytes", &Work::fabric_read_bytes},
      {"fabric_write_bytes", &Work::fabric_write_bytes},
      {"hbm_read_bytes", &Work::hbm_read_bytes},
      {"hbm_write_bytes", &Work::hbm_write_bytes},
      {"flushed_bytes", &Work::flushed_bytes},
      {"left_bytes", &Work::left_bytes},
  };
};
static_assert(names_all<Work>());

// By member name, for callers outside the core. Rejects unknown names; missing ones are zero.
Work from_numbers(const std::map<std::string, double>& numbers);  // throws SimError bad_work

}  // namespace hipsynth
