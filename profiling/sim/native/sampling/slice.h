// Which instructions of a kernel decide its counters. Addresses, branches and EXEC do; the values that only travel from
// memory through arithmetic to memory do not. A dispatch whose results nobody needs runs the deciding ones alone, and
// counts exactly what the whole program counts.
#pragma once

#include <vector>

#include "core/program.h"

namespace hipsynth {

// The program's steps with the kernel's idle instructions hopped over and its idle memory data left alone. Steps
// outside the kernel, and kernels with calls or indexed registers, are unchanged.
std::vector<Step> deciding_steps(const Program& program, const KernelInfo& kernel);

}  // namespace hipsynth
