// Tests whether host memory is accessible without touching it.
#pragma once

#include <cstddef>

namespace hipsynth::runtime {

// Whether all of [p, p + bytes) is readable or writable. Linux before 5.14 only reports whether it is mapped.
bool host_readable(const void* p, size_t bytes);
bool host_writable(const void* p, size_t bytes);

}  // namespace hipsynth::runtime
