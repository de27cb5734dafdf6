// Device memory: a reserved range at a fixed address, so that pointers (and with them cache sets and printed
// addresses) are the same on every run. Code, kernel arguments and scratch live in ranges of their own and
// therefore never move a user's allocation.
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <string>

#include "core/machine.h"

namespace hipsynth {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kGuard = 4096;
constexpr uint64_t kArenaBase = 0x200000000000ull;  // far from the heap, the stacks and shared objects of x86-64 Linux
constexpr uint64_t kSlotBytes = 1ull << 40;         // address space of one device
constexpr int kSlots = 64;
constexpr uint64_t kInternalBytes = 1ull << 38;  // code, kernel arguments, scratch: the front part of a slot

std::mutex slot_mutex;
uint64_t slots_taken = 0;

uint64_t round_up(uint64_t v, uint64_t to) { return (v + to - 1) / to * to; }

int take_slot() {
  const std::lock_guard<std::mutex> lock(slot_mutex);
  for (int i = 0; i < kSlots; ++i) {
    if (!(slots_taken >> i & 1)) {
      slots_taken |= 1ull << i;
      return i;
    }
  }
  throw SimError("out_of_memory", "more than 64 simulated devices exist at once");
}

void give_slot(int i) {
  const std::lock_guard<std::mutex> lock(slot_mutex);
  slots_taken &= ~(1ull << i);
}

}  // namespace

struct Memory::Impl {
  uint64_t limit = 0, used = 0;
  int slot = -1;
  uint64_t base = 0;
  std::map<uint64_t, Allocation> allocations;  // by start address
  mutable const Allocation* last = nullptr;
};

Memory::Memory(uint64_t limit_bytes) : impl_(std::make_unique<Impl>()) {
  impl_->limit = limit_bytes;
  impl_->slot = take_slot();
  impl_->base = kArenaBase + kSlotBytes * static_cast<uint64_t>(impl_->slot);
  void* got = mmap(reinterpret_cast<void*>(impl_->base), kSlotBytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (got != reinterpret_cast<void*>(impl_->base)) {
    if (got != MAP_FAILED) munmap(got, kSlotBytes);
    give_slot(impl_->slot);
    throw SimError("out_of_memory",
                   "cannot reserve 1 TiB of address space for device memory (is `ulimit -v` set, or overcommit off?)");
  }
}

Memory::~Memory() {
  munmap(reinterpret_cast<void*>(impl_->base), kSlotBytes);
  give_slot(impl_->slot);
}

void* Memory::allocate(uint64_t bytes, Kind kind) {
  Impl& m = *impl_;
  const bool internal = kind == Kind::code || kind == Kind::kernarg;
  if (!internal && (bytes > m.limit || m.used + bytes > m.limit)) {
    throw SimError("out_of_memory", "device memory: " + std::to_string(bytes) + " bytes asked for, " +
                                        std::to_string(m.limit - m.used) + " of " + std::to_string(m.limit) + " free");
  }
  // First fit between neighbours, so that a loop of malloc and free does not walk through the address space.
  uint64_t at = internal ? m.base : m.base + kInternalBytes;
  const uint64_t end = internal ? m.base + kInternalBytes : m.base + kSlotBytes;
  const uint64_t need = round_up(std::max<uint64_t>(bytes, 1), kPage);
  for (auto it = m.allocations.lower_bound(at); it != m.allocations.end() && it->first < end; ++it) {
    if (at + need + kGuard <= it->first) break;
    at = round_up(it->first + std::max<uint64_t>(it->second.bytes, 1), kPage) + kGuard;
  }
  if (at + need > end) throw SimError("out_of_memory", "device address space exhausted");
  m.allocations[at] = Allocation{at, bytes, kind};
  if (!internal) m.used += bytes;
  return reinterpret_cast<void*>(at);
}

bool Memory::release(void* p) {
  Impl& m = *impl_;
  const auto it = m.allocations.find(reinterpret_cast<uint64_t>(p));
  if (it == m.allocations.end() || it->first < m.base || it->first >= m.base + kSlotBytes) return false;
  const Allocation a = it->second;
  m.last = nullptr;
  m.allocations.erase(it);
  if (a.kind != Kind::code && a.kind != Kind::kernarg) m.used -= a.bytes;
  // Give the pages back, and make the next owner see zeros: contents never depend on history.
  madvise(p, round_up(std::max<uint64_t>(a.bytes, 1), kPage), MADV_DONTNEED);
  return true;
}

void Memory::add_external(void* p, uint64_t bytes) {
  const auto start = reinterpret_cast<uint64_t>(p);
  impl_->allocations[start] = Allocation{start, bytes, Kind::host};
}

void Memory::remove_external(void* p) {
  impl_->last = nullptr;
  impl_->allocations.erase(reinterpret_cast<uint64_t>(p));
}

const Memory::Allocation* Memory::find(uint64_t p, uint64_t bytes) const {
  const Impl& m = *impl_;
  if (m.last && p >= m.last->start && p + bytes <= m.last->start + m.last->bytes && p + bytes >= p) return m.last;
  auto it = m.allocations.upper_bound(p);
  if (it == m.allocations.begin()) return nullptr;
  --it;
  if (p + bytes > it->second.start + it->second.bytes || p + bytes < p) return nullptr;
  m.last = &it->second;
  return m.last;
}

const Memory::Allocation* Memory::nearest(uint64_t p) const {
  const Impl& m = *impl_;
  const Allocation* best = nullptr;
  uint64_t best_distance = ~0ull;
  for (const auto& [start, a] : m.allocations) {
    if (a.kind == Kind::code || a.kind == Kind::kernarg) continue;
    const uint64_t last = start + a.bytes;
    const uint64_t distance = p < start ? start - p : (p >= last ? p - last : 0);
    if (distance < best_distance) {
      best_distance = distance;
      best = &a;
    }
  }
  return best;
}

uint64_t Memory::used() const { return impl_->used; }
uint64_t Memory::limit() const { return impl_->limit; }

}  // namespace hipsynth
