// Backward slice of a kernel: the instructions that decide its counters. Addresses, branches and EXEC do; values that
// only move from memory through arithmetic to memory do not. A dispatch whose results are not needed runs the slice
// alone, and its counts equal those of the whole program.
#pragma once

#include <vector>

#include "core/program.h"

namespace hipsynth {

// The program's steps with the kernel's idle instructions hopped over and its idle memory data left alone. Steps
// outside the kernel, and kernels with calls or indexed registers, are unchanged.
std::vector<Step> backward_slice(const Program& program, const KernelInfo& kernel);

// The backward slice of one kernel, computed when it is first needed.
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
