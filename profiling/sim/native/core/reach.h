// What a kernel can execute: the instructions that control flow, calls and function pointers lead to.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/program.h"

namespace hipsynth {

struct Reach {
  std::vector<std::string> refused;  // why reachable instructions cannot run, each reason once; empty: all can
  uint32_t vgprs = 0, agprs = 0;     // registers that reachable instructions name
  uint32_t sgprs = 0;                // likewise; those that have names apart
  bool indexed = false;              // some use M0 as a register index
  bool images = false;               // some name as many registers as an image has coordinates
  // What all instructions of the code object name, where a jump through a register may lead to any; else 0.
  uint32_t any_vgprs = 0, any_agprs = 0;
};

// Direct jumps and calls are followed exactly, and so are addresses formed with s_getpc_b64. A jump through a register
// may also lead to every function whose address stands in data, and after an address that cannot be followed, to every
// function of the code object.
Reach reach(const Program& program, uint32_t entry);

}  // namespace hipsynth
