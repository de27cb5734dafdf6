// Checked copies and fills, shared by the memory, symbol and graph calls.
#pragma once

#include "runtime.h"

namespace hipsynth::runtime {

// Rows of a pitched block: `width` bytes each, `height` rows per slice, `depth` slices.
struct Block {
  size_t width = 0, height = 1, depth = 1;
};
struct Place {
  const void* base = nullptr;
  size_t pitch = 0;        // bytes between rows
  size_t slice_pitch = 0;  // bytes between slices
};

// Makes a copy or a fill in the legacy stream, for which the host waits, and which a capture may forbid.
template <typename Work>
hipError_t synchronous(Work work) {
  return call([&](Runtime& rt) {
    const hipError_t allowed = check_synchronous(rt);
    if (allowed != hipSuccess) return allowed;
    const hipError_t error = work();
    return error == hipSuccess ? rt.complete_stream(*rt.stream(nullptr)) : error;
  });
}

// Submits a copy; hipErrorInvalidValue if a device range exceeds its allocation or `kind` names host memory as device.
hipError_t copy_block(Runtime& rt, Place dst, Place src, Block block, hipMemcpyKind kind, hipStream_t stream);
hipError_t copy(Runtime& rt, void* dst, const void* src, size_t bytes, hipMemcpyKind kind, hipStream_t stream);

// Submits a fill with a repeated value of `element` = 1, 2 or 4 bytes; `block.width` is in bytes.
hipError_t fill_block(Runtime& rt, Place dst, uint32_t value, unsigned element, Block block, hipStream_t stream);

}  // namespace hipsynth::runtime
