// Read-modify-write operations of memory and LDS atomics, selected by their operation in the opcode table.
#pragma once

#include <cstdint>

#include "opcode_enums.h"

namespace hipsynth {

// Applies the operation to the element at `p` (the operation implies its size) and returns the old value. `data` is the
// operand; compare-and-swap also uses `compare`.
using AtomicFn = uint64_t (*)(void* p, uint64_t data, uint64_t compare);

// Null if `op` is not an atomic. `flushes`: add_f32 treats denormal inputs and results as zeros. `exact_sums`:
// additions to a float or double in memory carry what rounding loses, so that memory holds the rounded sum in whatever
// order.
AtomicFn find_atomic(MemOp op, bool flushes, bool exact_sums = false);
// Call before a dispatch: exact sums do not go on with what earlier dispatches lost at the same addresses.
void begin_exact_sums();
// The atomic that treats denormal floats as zeros in an add_f32; others as they are.
AtomicFn find_flushing(AtomicFn fn);

// Whether memory holds the same after several of these operations in any order.
bool commutes(MemOp op);

}  // namespace hipsynth
