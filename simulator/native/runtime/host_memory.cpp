#include "host_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>

namespace hipsynth::runtime {
namespace {

constexpr int kPopulateRead = 22, kPopulateWrite = 23;  // MADV_POPULATE_*, asm-generic/mman-common.h

uintptr_t page_bytes() {
  static const auto bytes = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

// False if an access of that kind would fault; otherwise it only brings the pages in, as the access itself would.
bool populates(uintptr_t first, size_t bytes, int advice) {
  return madvise(reinterpret_cast<void*>(first), bytes, advice) == 0;
}

bool kernel_populates() {
  static const char here = 0;
  static const bool works =
      populates(reinterpret_cast<uintptr_t>(&here) / page_bytes() * page_bytes(), page_bytes(), kPopulateRead);
  return works;
}

bool accessible(const void* p, size_t bytes, int advice) {
  const auto start = reinterpret_cast<uintptr_t>(p);
  if (start + bytes < start) return false;
  if (bytes == 0) return true;
  const uintptr_t first = start / page_bytes() * page_bytes();
  if (kernel_populates()) return populates(first, start + bytes - first, advice);
  // On Linux, MS_ASYNC has no effect except ENOMEM if a page of the range is not mapped.
  return msync(reinterpret_cast<void*>(first), start + bytes - first, MS_ASYNC) == 0;
}

}  // namespace

bool host_readable(const void* p, size_t bytes) { return accessible(p, bytes, kPopulateRead); }
bool host_writable(const void* p, size_t bytes) { return accessible(p, bytes, kPopulateWrite); }

}  // namespace hipsynth::runtime
