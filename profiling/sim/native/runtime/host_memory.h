// What may be said about the program's own memory without touching it.
#pragma once

#include <cstddef>

namespace hipsynth::runtime {

// Whether all of [p, p + bytes) can be read, or written. Kernels before Linux 5.14 only say whether it is mapped.
bool host_readable(const void* p, size_t bytes);
bool host_writable(const void* p, size_t bytes);

}  // namespace hipsynth::runtime
