// Device memory: an address range reserved at a fixed address, so that pointers (and with them cache sets and printed
// addresses) are the same in every run. Code, kernel arguments and scratch have separate ranges, so they never shift
// user allocations.
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <mutex>
#include <string>

#include "core/machine.h"

namespace hipsynth {
namespace {

constexpr uint64_t kPage = Memory::kPageBytes;
constexpr uint64_t kGuard = 4096;
constexpr uint64_t kBlock = 2ull << 20;             // ROCr's allocator takes small allocations from blocks of this size
constexpr uint64_t kLarge = 8ull << 20;             // allocations of at least this size use the host's huge pages,
constexpr uint64_t kSparse = 64ull << 20;           // but from this size on not if the grid is sampled
constexpr uint64_t kArenaBase = 0x200000000000ull;  // far from the heap, the stacks and shared objects of x86-64 Linux
constexpr uint64_t kSlotBytes = 1ull << 40;         // address space per device
constexpr int kSlots = 64;
constexpr uint64_t kVirtualBytes = 1ull << 38;  // virtual memory management: the end of a slot
constexpr size_t kFreedKept = 4096;             // released allocations kept for messages

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
  throw SimError(Reason::out_of_memory, "more than 64 simulated devices exist at once");
}

void give_slot(int i) {
  const std::lock_guard<std::mutex> lock(slot_mutex);
  slots_taken &= ~(1ull << i);
}

uint64_t next_version() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

// Allocations that a thread has found lately: kernels access a few arrays in turn.
struct Recent {
  uint64_t version = 0;
  std::array<const Memory::Allocation*, 4> found{};
  uint32_t next = 0;
};

}  // namespace

struct Memory::Impl {
  uint64_t limit = 0, used = 0;
  bool sampled = false;
  int slot = -1;
  uint64_t base = 0;
  std::map<uint64_t, Allocation> allocations;  // by start address
  std::map<uint64_t, Allocation> freed;        // by start address
  std::map<uint64_t, uint64_t> reserved;       // virtual memory management: start -> bytes
  std::map<uint64_t, Allocation> mapped_from;  // mapped address -> original allocation of the pages
  uint64_t version = next_version();           // of `allocations`, unique in the process
  uint64_t last_id = 0;                        // of an allocation
  mutable uint64_t layout = 0;                 // 0: not computed since the last change

  // Call before `allocations` changes.
  void changes() {
    version = next_version();
    layout = 0;
  }

  uint64_t virtual_start() const { return base + kSlotBytes - kVirtualBytes; }
  void remember(const Allocation& a) {
    if (freed.size() >= kFreedKept) freed.erase(freed.begin());
    freed[a.start] = a;
  }
};

namespace {

// Whether memory of this kind counts against the device's capacity.
bool counted(Memory::Kind kind) {
  return kind == Memory::Kind::device || kind == Memory::Kind::managed || kind == Memory::Kind::heap;
}

bool internal(Memory::Kind kind) { return kind == Memory::Kind::code || kind == Memory::Kind::kernarg; }

uint64_t pages_of(const Memory::Allocation& a) { return round_up(std::max<uint64_t>(a.bytes, 1), kPage); }

// Maps fresh zero pages where pages were moved away.
bool map_zeros(uint64_t start, uint64_t bytes) {
  return mmap(reinterpret_cast<void*>(start), bytes, PROT_READ | PROT_WRITE,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) != MAP_FAILED;
}

// Puts large arrays in huge pages, because strided kernels touch more small pages than the host's TLB holds. Not for
// very large arrays if the grid is sampled: a sample touches a few bytes here and there, and clearing 2 MiB for each
// would take longer than the simulation. These are hints, so failure is ignored.
void advise_pages(uint64_t start, uint64_t bytes, bool sampled) {
  if (bytes < kLarge) return;
  madvise(reinterpret_cast<void*>(start), bytes, sampled && bytes >= kSparse ? MADV_NOHUGEPAGE : MADV_HUGEPAGE);
}

bool remap(uint64_t from, uint64_t to, uint64_t bytes) {
  return mremap(reinterpret_cast<void*>(from), bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED,
                reinterpret_cast<void*>(to)) != MAP_FAILED;
}

// False: the pages are where they were.
bool move_pages(uint64_t from, uint64_t to, uint64_t bytes) {
  if (!remap(from, to, bytes)) return false;
  if (map_zeros(from, bytes)) return true;
  remap(to, from, bytes);
  return false;
}

}  // namespace

Memory::Memory(uint64_t limit_bytes, bool sampled) : impl_(std::make_unique<Impl>()) {
  impl_->limit = limit_bytes;
  impl_->sampled = sampled;
  impl_->slot = take_slot();
  impl_->base = kArenaBase + kSlotBytes * static_cast<uint64_t>(impl_->slot);
  void* got = mmap(reinterpret_cast<void*>(impl_->base), kSlotBytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (got != reinterpret_cast<void*>(impl_->base)) {
    if (got != MAP_FAILED) munmap(got, kSlotBytes);
    give_slot(impl_->slot);
    throw SimError(Reason::out_of_memory,
                   "cannot reserve 1 TiB of address space for device memory (is `ulimit -v` set, or overcommit off?)");
  }
}

Memory::~Memory() {
  munmap(reinterpret_cast<void*>(impl_->base), kSlotBytes);
  give_slot(impl_->slot);
}

void* Memory::allocate(uint64_t bytes, Kind kind, uint64_t align) {
  Impl& m = *impl_;
  if (counted(kind) && (bytes > m.limit || m.used + bytes > m.limit)) {
    throw SimError(Reason::out_of_memory, "device memory: " + std::to_string(bytes) + " bytes asked for, " +
                                              std::to_string(m.limit - m.used) + " of " + std::to_string(m.limit) +
                                              " free");
  }
  if (bytes > kSlotBytes) throw SimError(Reason::out_of_memory, "device address space exhausted");
  // First fit, so that a loop of malloc and free does not walk through the address space.
  uint64_t at = internal(kind) ? m.base : round_up(m.base + kInternalBytes, align);
  const uint64_t end = internal(kind) ? m.base + kInternalBytes : m.virtual_start();
  const uint64_t need = round_up(std::max<uint64_t>(bytes, 1), kPage);
  for (auto it = m.allocations.lower_bound(at); it != m.allocations.end() && it->first < end; ++it) {
    if (at + need + kGuard <= it->first) break;
    at = round_up(it->first + pages_of(it->second) + kGuard, align);
  }
  if (at + need > end) throw SimError(Reason::out_of_memory, "device address space exhausted");
  m.changes();
  m.allocations[at] = Allocation{at, bytes, kind, ++m.last_id};
  if (counted(kind)) m.used += bytes;
  advise_pages(at, need, m.sampled);
  return reinterpret_cast<void*>(at);
}

void* Memory::allocate_at(uint64_t offset, uint64_t bytes) {
  Impl& m = *impl_;
  const uint64_t at = m.base + offset, end = at + round_up(std::max<uint64_t>(bytes, 1), kPage);
  const auto next = m.allocations.lower_bound(at);
  const bool inside = offset % kPage == 0 && offset >= kInternalBytes && offset < kSlotBytes && end > at;
  const bool before =
      next == m.allocations.begin() || std::prev(next)->second.start + pages_of(std::prev(next)->second) <= at;
  const bool after = next == m.allocations.end() || end <= next->first;
  if (!inside || end > m.base + kSlotBytes || !before || !after || bytes > m.limit - m.used) {
    throw SimError(Reason::out_of_memory, "no room for " + std::to_string(bytes) + " bytes at that address");
  }
  m.changes();
  m.allocations[at] = Allocation{at, bytes, Kind::device, ++m.last_id};
  m.used += bytes;
  advise_pages(at, end - at, m.sampled);
  return reinterpret_cast<void*>(at);
}

std::vector<Memory::Allocation> Memory::user_allocations() const {
  std::vector<Allocation> found;
  for (const auto& [start, a] : impl_->allocations) {
    if (!internal(a.kind) && a.kind != Kind::heap) found.push_back(a);
  }
  return found;
}

void Memory::fill(void* start, uint64_t bytes, const uint8_t* data, uint64_t data_bytes, uint64_t period) {
  auto* to = static_cast<uint8_t*>(start);
  if (bytes >= kLarge) {
    const uint64_t first = round_up(reinterpret_cast<uint64_t>(to), kPage);
    madvise(reinterpret_cast<void*>(first), bytes - kPage, MADV_HUGEPAGE);
  }
  for (uint64_t at = 0; at < bytes; at += period) {
    const uint64_t part = std::min(period, bytes - at), held = std::min(data_bytes, part);
    std::memcpy(to + at, data, held);
    clear(to + at + held, part - held);
  }
}

bool Memory::release(void* p) {
  Impl& m = *impl_;
  const auto it = m.allocations.find(reinterpret_cast<uint64_t>(p));
  if (it == m.allocations.end() || it->first < m.base || it->first >= m.base + kSlotBytes) return false;
  if (m.mapped_from.contains(it->first)) return false;
  const Allocation a = it->second;
  m.changes();
  m.allocations.erase(it);
  if (counted(a.kind)) m.used -= a.bytes;
  if (!internal(a.kind)) m.remember(a);
  // Release the pages so that the next allocation reads zeros: contents never depend on history.
  madvise(p, pages_of(a), MADV_DONTNEED);
  return true;
}

void Memory::release_user(const std::function<bool(const Allocation&)>& keep) {
  Impl& m = *impl_;
  m.changes();
  // A mapping is another address of pages that are counted where they were allocated.
  for (const auto& [at, _] : m.mapped_from) {
    const Allocation& mapping = m.allocations.at(at);
    madvise(reinterpret_cast<void*>(at), pages_of(mapping), MADV_DONTNEED);
    m.remember(mapping);
    m.allocations.erase(at);
  }
  m.mapped_from.clear();
  std::vector<Allocation> gone;
  for (const auto& [start, a] : m.allocations) {
    if (!internal(a.kind) && !keep(a)) gone.push_back(a);
  }
  for (const Allocation& a : gone) {
    if (!release(reinterpret_cast<void*>(a.start))) m.allocations.erase(a.start);  // registered host memory
  }
  m.reserved.clear();
}

void Memory::clear(void* p, uint64_t bytes) {
  const auto start = reinterpret_cast<uint64_t>(p);
  const uint64_t first = round_up(start, kPage), last = (start + bytes) / kPage * kPage;
  const bool ours = start >= impl_->base && start < impl_->base + kSlotBytes;
  if (!ours || first >= last) {
    std::memset(p, 0, bytes);
    return;
  }
  std::memset(p, 0, first - start);
  madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
  std::memset(reinterpret_cast<void*>(last), 0, start + bytes - last);
}

uint64_t Memory::reserve(uint64_t bytes, uint64_t align) {
  Impl& m = *impl_;
  uint64_t at = round_up(m.virtual_start(), align);
  const uint64_t end = m.base + kSlotBytes;
  for (const auto& [start, size] : m.reserved) {
    if (at + bytes + kGuard <= start) break;
    at = round_up(start + size + kGuard, align);
  }
  if (bytes > end || at + bytes > end) throw SimError(Reason::out_of_memory, "device address space exhausted");
  m.reserved[at] = bytes;
  return at;
}

bool Memory::unreserve(uint64_t start, uint64_t bytes) {
  Impl& m = *impl_;
  const auto range = m.reserved.find(start);
  if (range == m.reserved.end() || range->second != bytes) return false;
  const auto mapped = m.mapped_from.lower_bound(start);
  if (mapped != m.mapped_from.end() && mapped->first < start + bytes) return false;
  m.reserved.erase(range);
  return true;
}

bool Memory::map(uint64_t at, void* pages) {
  Impl& m = *impl_;
  const auto source = m.allocations.find(reinterpret_cast<uint64_t>(pages));
  auto range = m.reserved.upper_bound(at);
  if (source == m.allocations.end() || range == m.reserved.begin()) return false;
  --range;
  const Allocation a = source->second;
  if (at + a.bytes > range->first + range->second || find(at, 1)) return false;
  const auto next = m.allocations.lower_bound(at);
  if (next != m.allocations.end() && next->first < at + a.bytes) return false;
  if (!move_pages(a.start, at, a.bytes)) return false;
  m.changes();
  m.mapped_from[at] = a;
  m.allocations[at] = Allocation{at, a.bytes, a.kind, ++m.last_id};
  return true;
}

bool Memory::unmap(uint64_t at, void* pages) {
  Impl& m = *impl_;
  const auto mapped = m.mapped_from.find(at);
  if (mapped == m.mapped_from.end() || mapped->second.start != reinterpret_cast<uint64_t>(pages)) return false;
  if (!move_pages(at, mapped->second.start, mapped->second.bytes)) return false;
  m.changes();
  m.remember(m.allocations.at(at));
  m.allocations.erase(at);
  m.mapped_from.erase(mapped);
  return true;
}

void Memory::add_external(void* p, uint64_t bytes) {
  const auto start = reinterpret_cast<uint64_t>(p);
  impl_->changes();
  impl_->allocations[start] = Allocation{start, bytes, Kind::host, ++impl_->last_id};
}

void Memory::remove_external(void* p) {
  impl_->changes();
  impl_->allocations.erase(reinterpret_cast<uint64_t>(p));
}

const Memory::Allocation* Memory::find(uint64_t p, uint64_t bytes) const {
  const Impl& m = *impl_;
  thread_local Recent recent;
  if (recent.version != m.version) recent = {m.version};
  for (const Allocation* a : recent.found) {
    if (a && p >= a->start && p + bytes <= a->start + a->bytes && p + bytes >= p) return a;
  }
  auto it = m.allocations.upper_bound(p);
  if (it == m.allocations.begin()) return nullptr;
  --it;
  if (p + bytes > it->second.start + it->second.bytes || p + bytes < p) return nullptr;
  return recent.found[recent.next++ % recent.found.size()] = &it->second;
}

bool Memory::overlaps(uint64_t p, uint64_t bytes) const {
  const auto next = impl_->allocations.lower_bound(p + bytes);
  if (next == impl_->allocations.begin()) return false;
  const Allocation& last = std::prev(next)->second;
  return last.start + last.bytes > p;
}

bool Memory::owns(uint64_t p) const { return p >= impl_->base && p < impl_->base + kSlotBytes; }

bool Memory::mapped(uint64_t p, uint64_t bytes) const {
  const Impl& m = *impl_;
  if (p < m.base + kInternalBytes || p + bytes > m.base + kSlotBytes || p + bytes < p) return false;
  for (uint64_t page = p / kPage * kPage; page < p + bytes; page += kPage) {
    auto next = m.allocations.upper_bound(page);
    if (next != m.allocations.begin()) {
      const Allocation& before = std::prev(next)->second;
      if (page < before.start + pages_of(before)) continue;
    }
    const uint64_t block = page / kBlock * kBlock;
    for (next = m.allocations.lower_bound(block); next != m.allocations.end() && next->first < block + kBlock; ++next) {
      if (next->second.bytes < kBlock) break;
    }
    if (next == m.allocations.end() || next->first >= block + kBlock) return false;
  }
  return true;
}

const Memory::Allocation* Memory::nearest(uint64_t p) const {
  const Impl& m = *impl_;
  const Allocation* best = nullptr;
  uint64_t best_distance = ~0ull;
  for (const auto& [start, a] : m.allocations) {
    if (internal(a.kind)) continue;
    const uint64_t last = start + a.bytes;
    const uint64_t distance = p < start ? start - p : (p >= last ? p - last : 0);
    if (distance < best_distance) {
      best_distance = distance;
      best = &a;
    }
  }
  return best;
}

const Memory::Allocation* Memory::preceding(uint64_t p) const {
  auto it = impl_->allocations.upper_bound(p);
  while (it != impl_->allocations.begin())
    if (!internal((--it)->second.kind)) return &it->second;
  return nullptr;
}

const Memory::Allocation* Memory::freed(uint64_t p) const {
  auto it = impl_->freed.upper_bound(p);
  if (it == impl_->freed.begin()) return nullptr;
  --it;
  return p < it->second.start + it->second.bytes ? &it->second : nullptr;
}

uint64_t Memory::moved() const { return impl_->base ^ kArenaBase; }
uint64_t Memory::start() const { return impl_->base; }

uint64_t Memory::layout() const {
  uint64_t& sum = impl_->layout;
  if (sum != 0) return sum;
  for (const auto& [start, a] : impl_->allocations) {
    for (const uint64_t part : {a.start, a.bytes, static_cast<uint64_t>(a.kind)})
      sum = (sum ^ part ^ sum >> 29) * 0x9e3779b97f4a7c15ull;
  }
  sum |= 1;
  return sum;
}

uint64_t Memory::used() const { return impl_->used; }
uint64_t Memory::limit() const { return impl_->limit; }

}  // namespace hipsynth
