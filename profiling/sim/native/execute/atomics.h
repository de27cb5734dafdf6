// Read-modify-write operations of memory and LDS atomics, by the names in the opcode table.
#pragma once

#include <cstdint>
#include <string_view>

namespace hipsynth {

// Applies the operation at `p` (the element's size is in the name) and returns the old value.
// `data` is the operand; compare-and-swap also takes `compare`.
using AtomicFn = uint64_t (*)(void* p, uint64_t data, uint64_t compare);

AtomicFn find_atomic(std::string_view op);  // null for an unknown name

}  // namespace hipsynth
