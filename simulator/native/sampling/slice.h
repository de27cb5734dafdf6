// Backward slice of a kernel: the instructions that affect its counters. These compute addresses, branches and EXEC;
// values that only move from memory through arithmetic to memory are not needed. If the results of a dispatch are not
// needed, only the slice runs, with the same counts as the whole program.
#pragma once

#include <vector>

#include "core/program.h"

namespace hipsynth {

// The program's steps, with jumps over the kernel's idle instructions and with idle memory data marked. Steps outside
// the kernel, and kernels with calls or indexed registers, are unchanged.
std::vector<Step> backward_slice(const Program& program, const KernelInfo& kernel);

// Whether a step of a slice has an effect outside its work-group: it writes memory, or sends a message.
bool has_outside_effect(const Step& step);
// Whether the kernel's slice leaves memory as it is, so that the kernel may run afterwards for its results.
bool is_pure(const std::vector<Step>& slice, const KernelInfo& kernel);

// What is known about all dispatches of a kernel.
struct KernelTraits {
  // Equal dispatches do the same if their decisive loads read the same. False with clocks, services of the host, grid
  // barriers, images, and control flow that cannot be determined statically.
  bool repeatable = false;
  // Results depend on the order in which waves execute atomics: sums of floats, and atomics that return a value.
  bool ordered = false;
  // A loop reads past the caches what may end it, or tries an exchange again: work-groups wait for others, in a sample
  // otherwise than in the grid.
  bool waits = false;
};

// If the kernel is repeatable, clears Step::decides of loads whose values affect neither addresses nor control flow,
// provided that no load which does reads device memory that the dispatch itself writes. The LDS and private memory are
// followed.
KernelTraits mark_decisive_loads(Program* program, const KernelInfo& kernel);

// Whether addresses or control flow of a kernel may depend on the contents of memory other than its arguments, after
// mark_decisive_loads(). Scalar loads count, too, by which compilers read what is the same for a wave.
bool is_decided_by_data(const Program& program, const KernelInfo& kernel);

// The backward slice of one kernel, computed on first use.
class KernelSlice {
 public:
  KernelSlice(const Program& program, const KernelInfo& kernel) : program_(program), kernel_(kernel) {}
  const std::vector<Step>& steps() {
    if (steps_.empty()) steps_ = backward_slice(program_, kernel_);
    return steps_;
  }

 private:
  const Program& program_;
  const KernelInfo& kernel_;
  std::vector<Step> steps_;
};

}  // namespace hipsynth
