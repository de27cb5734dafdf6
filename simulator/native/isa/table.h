// Connects the generated rows with the handler sets of the two host instruction set levels.
#pragma once

#include "core/inst.h"

// The handlers of one ALU opcode as compiled for one level.
struct Handlers {
  hipsynth::AluHandler handler, general, saturating;
  const void* shape;
  bool selects;
};

namespace hipsynth {

// One generated row; its handlers are kHandlers<chunk>[index] of each level, chunk -1: none.
struct RowData {
  OpInfo op;
  int chunk, index;
};

std::vector<OpInfo> make_table(bool v4);  // generated
std::vector<OpInfo> assemble_table(const RowData* rows, size_t n, const Handlers* const* chunks);

}  // namespace hipsynth
