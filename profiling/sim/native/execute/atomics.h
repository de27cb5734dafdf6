// Read-modify-write operations of memory and LDS atomics, by their operation in the opcode table.
#pragma once

#include <cstdint>

#include "opcode_enums.h"

namespace hipsynth {

// Applies the operation at `p` (the element's size is in the name) and returns the old value.
// `data` is the operand; compare-and-swap also takes `compare`.
using AtomicFn = uint64_t (*)(void* p, uint64_t data, uint64_t compare);

// Null for what is no atomic. `flushes`: add_f32 takes and gives zeros for denormals.
AtomicFn find_atomic(MemOp op, bool flushes);

}  // namespace hipsynth
