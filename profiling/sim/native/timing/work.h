// What one dispatch did, as plain numbers: the whole input of the timing model besides the architecture table.
#pragma once

#include <map>
#include <string>

namespace hipsynth {

// Totals over the dispatch unless a name says otherwise.
struct Work {
  // Launch and occupancy.
  double groups = 0, waves_per_group = 0, groups_per_cu = 0, waves = 0;
  // Wave instructions by the unit that executes them.
  double valu_full = 0, valu_trans = 0, valu_f64 = 0, valu_int64_mul = 0, mfma_cycles = 0;
  double salu = 0, smem = 0, vmem = 0, lds = 0, flow = 0;
  double lds_cycles = 0;
  // Round trips that waves waited for, one after the other, by the deepest level reached.
  double store_waits = 0, l1_waits = 0, l2_waits = 0, infinity_waits = 0, hbm_waits = 0;
  double scalar_hit_waits = 0, scalar_l2_waits = 0, scalar_infinity_waits = 0, scalar_hbm_waits = 0;
  double lds_waits = 0, barriers = 0, store_tails = 0;
  // Requests and bytes.
  double l1_cycles_busiest_cu = 0, l2_requests_busiest_channel = 0;
  double l2_turns_busiest_channel = 0;  // between reading and writing
  double l2_transfers = 0;              // of 64 bytes, between vL1D and L2, both ways
  double atomics_busiest_line = 0;
  double fabric_read_bytes = 0, fabric_write_bytes = 0, hbm_read_bytes = 0, hbm_write_bytes = 0;
  double flushed_bytes = 0;  // of the written bytes, those that leave the L2 after the last wave
};

// By member name, for callers outside the core. `from_numbers` refuses unknown names and leaves missing ones zero.
std::map<std::string, double> to_numbers(const Work& work);
Work from_numbers(const std::map<std::string, double>& numbers);  // throws SimError bad_work

}  // namespace hipsynth
