// Limits the work of a whole run (DeviceOptions::budget_s): how a launch is counted, and whether it runs at all.
//
// Work is not measured but computed: counts of events times fixed prices, so that a program is treated the same on
// every machine, whatever its load.
#pragma once

#include <cstdint>

#include "core/counters.h"
#include "core/machine.h"

namespace hipsynth {

// Host processor time of work, in ns. Fitted to the seven kernels of benchmarks/budget_prices.py, which prints
// processor time by price, on an AMD EPYC shared with other work (load 5 to 12 on two cores).
struct Prices {
  // A wave instruction.
  double scalar, vector;
  double slow_vector;  // double precision, transcendental, products of 64-bit integers
  double matrix_cycle, memory, lds;
  double any;       // of a kernel that never ran
  double modelled;  // with the memory model: a unit of simulation_work() that is no instruction
  double launch;
  double compared;  // a byte of memory that is compared with what an earlier launch left
};
inline constexpr Prices kPrices{.scalar = 5,
                                .vector = 12,
                                .slow_vector = 45,
                                .matrix_cycle = 20,
                                .memory = 150,
                                .lds = 250,
                                .any = 25,
                                .modelled = 15,
                                .launch = 40'000,
                                .compared = 0.15};

// The average price of an instruction in this mix.
double price_of(const IssueCounts& issue);

// What is known of the launches of one kernel and shape.
struct ShapeHistory {
  double instruction_ns = kPrices.any;
  uint64_t counted = 0;    // launches with counters of their own
  bool exact = false;      // the last of them ran every work-group
  double counting_ns = 0;  // of the last of them
  double running_ns = 0;   // of a launch without the memory model; 0: unknown
  bool too_long = false;   // counting it exceeded its share
  Dispatch last;           // of `counted`
};

// How the next launch of a shape is counted.
enum class Counting : uint8_t {
  none,   // not at all: it gets the counters of an earlier one, if there is one
  first,  // it is the first of its shape: small grids exactly, large ones sampled
  again,  // exactly
};

// The most that a first launch may cost, and how finely it is sampled.
struct Fineness {
  uint32_t units = 0;  // sampling units, see DeviceOptions
  uint64_t sample_above = 0;
  bool coarse = false;  // less than the options ask for
};

class Budget {
 public:
  explicit Budget(double seconds) : total_ns_(seconds * 1e9), left_ns_(total_ns_) {}
  bool limited() const { return total_ns_ > 0; }
  double left_ns() const { return left_ns_; }
  void spend(double ns) { left_ns_ = ns < left_ns_ ? left_ns_ - ns : 0; }
  void spend_on_repeats(double ns) { repeats_ns_ += ns; }

  Counting counting(const ShapeHistory& shape) const;
  // `counted_alone`: a sampled launch can still run for its results afterwards; others are sampled only if they are
  // longer.
  Fineness fineness(const DeviceOptions& asked, bool counted_alone) const;
  // The most that counting one launch may cost.
  double counting_limit_ns() const;
  // Whether a launch of this shape may run without the memory model; one of unknown cost may try.
  bool may_run(const ShapeHistory& shape) const { return left_ns_ > 0 && shape.running_ns <= left_ns_; }

  // Some results were not computed, so that what the program does from now on may differ from a full run.
  bool results_lost = false;

 private:
  double total_ns_, left_ns_, repeats_ns_ = 0;
};

}  // namespace hipsynth
