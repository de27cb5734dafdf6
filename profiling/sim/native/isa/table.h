// Glue between the generated rows and the handler sets of the two instruction set levels.
#pragma once

#include "core/inst.h"

// The forms of one ALU opcode as compiled for one level.
struct Handlers {
  hipsynth::AluHandler handler, general, saturating;
  const void* shape;
  bool selects;
};

namespace hipsynth {

// One generated row; handlers stand at kHandlers<chunk>[index] of each level, chunk -1: none.
struct RowData {
  const char* name;
  Unit unit;
  Rate rate;
  Count count;
  uint8_t archs;
  uint16_t cycles90a, cycles942;
  uint32_t mops;
  const char* mfma_type;
  MemDesc mem;
  const char* signature;
  const char* refused;
  uint8_t flops;
  int chunk, index;
};

std::vector<OpInfo> make_table(bool v4);  // generated
std::vector<OpInfo> assemble_table(const RowData* rows, size_t n, const Handlers* const* chunks);

}  // namespace hipsynth
