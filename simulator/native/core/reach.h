// Static reachability: the instructions that a kernel can execute through control flow, calls and function pointers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/program.h"

namespace hipsynth {

struct Reach {
  std::vector<std::string> refused;  // why reachable instructions cannot execute, each reason once; empty: all can
  uint32_t vgprs = 0, agprs = 0;     // registers that reachable instructions name
  uint32_t certain_vgprs = 0, certain_agprs = 0;  // likewise, where no function pointer or unknown address leads
  uint32_t sgprs = 0;                             // likewise, without the special registers
  bool indexed = false;                           // some instructions use M0 as a register index
  bool images = false;  // image instructions, whose number of coordinate registers depends on the image
  // Most registers that any instruction of the code object names, if a jump through a register may lead anywhere; else
  // 0.
  uint32_t any_vgprs = 0, any_agprs = 0;
};

// Direct jumps and calls are resolved exactly, and so are addresses formed with s_getpc_b64. A jump through a register
// may lead to every function whose address is stored in data. If an address cannot be resolved, it may lead to every
// function of the code object.
Reach reach(const Program& program, uint32_t entry);

}  // namespace hipsynth
