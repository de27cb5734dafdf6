// Stream-ordered allocation. Operations execute immediately, so frees are immediate, too, and a pool holds no memory
// but what the program uses: it only counts.
#include <cstring>

#include "graph_memory.h"

using namespace hipsynth::runtime;
using hipsynth::Memory;

struct ihipMemPoolHandle_t {
  uint64_t reuse[3] = {1, 1, 1};  // whether memory that events, chance or added dependencies free is used again
  uint64_t threshold = 0;         // bytes to keep
  uint64_t used = 0, most_used = 0, most_reserved = 0;
};

namespace {

// hipMemPoolAttr
enum Attribute : int {
  kFirstReuse = 1,
  kLastReuse = 3,
  kThreshold = 4,
  kReserved = 5,
  kMostReserved = 6,
  kUsed = 7,
  kMostUsed = 8,
};

struct Taken {
  hipMemPool_t pool;
  size_t bytes;
};

hipMemPool_t default_pool() {
  static ihipMemPoolHandle_t pool;
  return &pool;
}

std::set<hipMemPool_t>& pools() {
  static std::set<hipMemPool_t> table = {default_pool()};
  return table;
}

// The pool for allocations that name none.
hipMemPool_t& current_pool() {
  static hipMemPool_t pool = default_pool();
  return pool;
}

// The live allocations from pools, by address.
std::map<const void*, Taken>& taken() {
  static std::map<const void*, Taken> table;
  return table;
}

void take(hipMemPool_t pool, const void* p, size_t bytes) {
  taken()[p] = {pool, bytes};
  pool->used += bytes;
  pool->most_used = std::max(pool->most_used, pool->used);
  pool->most_reserved = std::max(pool->most_reserved, pool->used);
}

// `pool`: null for the current one. In a capture the memory is the graph's, for all its launches, as that of
// hipGraphAddMemAllocNode.
hipError_t allocate_in_stream(void** out, size_t bytes, hipMemPool_t pool, hipStream_t handle) {
  return call([&](Runtime& rt) -> hipError_t {
    const ihipStream_t* s = rt.stream(handle);
    if (out == nullptr || s == nullptr || (pool != nullptr && !known(pool))) return hipErrorInvalidValue;
    if (s->capture != 0 && bytes != 0) {
      const std::shared_ptr<GraphMemory> memory = GraphMemory::allocate(bytes);
      const hipError_t error = rt.submit(handle, GraphMemory::begin_use(memory), NodeType::mem_alloc);
      if (error == hipSuccess) *out = memory->address();
      return error;
    }
    const hipError_t error = allocate(rt, out, bytes, Memory::Kind::device);
    if (error == hipSuccess && *out != nullptr) take(pool != nullptr ? pool : current_pool(), *out, bytes);
    return error;
  });
}

uint64_t* attribute_of(hipMemPool_t pool, int attribute) {
  if (attribute >= kFirstReuse && attribute <= kLastReuse) return &pool->reuse[attribute - kFirstReuse];
  if (attribute == kThreshold) return &pool->threshold;
  if (attribute == kMostReserved) return &pool->most_reserved;
  if (attribute == kMostUsed) return &pool->most_used;
  return attribute == kReserved || attribute == kUsed ? &pool->used : nullptr;
}

// The reuse flags are ints, the others 64-bit sizes.
size_t attribute_bytes(int attribute) { return attribute <= kLastReuse ? sizeof(int) : sizeof(uint64_t); }

}  // namespace

namespace hipsynth::runtime {

bool known(hipMemPool_t pool) { return pools().contains(pool); }

void leave_pool(const void* p) {
  const auto entry = taken().find(p);
  if (entry == taken().end()) return;
  entry->second.pool->used -= entry->second.bytes;
  taken().erase(entry);
}

void empty_pools() {
  taken().clear();
  for (hipMemPool_t pool : pools()) pool->used = 0;
}

}  // namespace hipsynth::runtime

HIPSYNTH_EXPORT hipError_t hipMallocAsync(void** p, size_t bytes, hipStream_t stream) {
  return allocate_in_stream(p, bytes, nullptr, stream);
}
HIPSYNTH_EXPORT hipError_t hipMallocFromPoolAsync(void** p, size_t bytes, hipMemPool_t pool, hipStream_t stream) {
  return pool == nullptr ? finish(hipErrorInvalidValue) : allocate_in_stream(p, bytes, pool, stream);
}
// In a capture nothing is freed, because the graph's next launch needs the memory at the same address.
HIPSYNTH_EXPORT hipError_t hipFreeAsync(void* p, hipStream_t handle) {
  return call([&](Runtime& rt) -> hipError_t {
    const ihipStream_t* s = rt.stream(handle);
    if (s == nullptr || s->capture == 0) return rt.submit(handle, [p] { return release(p, false); });
    if (p == nullptr) return hipSuccess;
    if (rt.memory().find(reinterpret_cast<uint64_t>(p), 1) == nullptr) return hipErrorInvalidValue;
    return rt.submit(handle, GraphMemory::end_use(GraphMemory::find(p)), NodeType::mem_free);
  });
}

HIPSYNTH_EXPORT hipError_t hipDeviceGetDefaultMemPool(hipMemPool_t* pool, int device) {
  return call([&](Runtime&) -> hipError_t {
    if (pool == nullptr || device != 0) return hipErrorInvalidValue;
    *pool = default_pool();
    return hipSuccess;
  });
}
HIPSYNTH_EXPORT hipError_t hipDeviceGetMemPool(hipMemPool_t* pool, int device) {
  return call([&](Runtime&) -> hipError_t {
    if (pool == nullptr || device != 0) return hipErrorInvalidValue;
    *pool = current_pool();
    return hipSuccess;
  });
}
HIPSYNTH_EXPORT hipError_t hipDeviceSetMemPool(int device, hipMemPool_t pool) {
  return call([&](Runtime&) -> hipError_t {
    if (device != 0 || !known(pool)) return hipErrorInvalidValue;
    current_pool() = pool;
    return hipSuccess;
  });
}
HIPSYNTH_EXPORT hipError_t hipMemPoolCreate(hipMemPool_t* pool, const void*) {
  return call([&](Runtime&) -> hipError_t {
    if (pool == nullptr) return hipErrorInvalidValue;
    *pool = *pools().insert(new ihipMemPoolHandle_t).first;
    return hipSuccess;
  });
}
// Memory from the pool stays allocated until it is freed.
HIPSYNTH_EXPORT hipError_t hipMemPoolDestroy(hipMemPool_t pool) {
  return call([&](Runtime&) -> hipError_t {
    if (pool == default_pool() || pools().erase(pool) == 0) return hipErrorInvalidValue;
    if (current_pool() == pool) current_pool() = default_pool();
    std::erase_if(taken(), [&](const auto& entry) { return entry.second.pool == pool; });
    delete pool;
    return hipSuccess;
  });
}
HIPSYNTH_EXPORT hipError_t hipMemPoolTrimTo(hipMemPool_t pool, size_t) {
  return call([&](Runtime&) { return known(pool) ? hipSuccess : hipErrorInvalidValue; });
}

// What a pool holds cannot be set, and the most that it has held only to 0, from which it counts anew.
HIPSYNTH_EXPORT hipError_t hipMemPoolSetAttribute(hipMemPool_t pool, int attribute, void* value) {
  return call([&](Runtime&) -> hipError_t {
    if (!known(pool) || value == nullptr) return hipErrorInvalidValue;
    uint64_t* slot = attribute_of(pool, attribute);
    if (slot == nullptr || slot == &pool->used) return hipErrorInvalidValue;
    uint64_t wanted = 0;
    std::memcpy(&wanted, value, attribute_bytes(attribute));
    const bool most = attribute == kMostReserved || attribute == kMostUsed;
    if (most && wanted != 0) return hipErrorInvalidValue;
    *slot = most ? pool->used : wanted;
    return hipSuccess;
  });
}
HIPSYNTH_EXPORT hipError_t hipMemPoolGetAttribute(hipMemPool_t pool, int attribute, void* value) {
  return call([&](Runtime&) -> hipError_t {
    if (!known(pool) || value == nullptr) return hipErrorInvalidValue;
    const uint64_t* slot = attribute_of(pool, attribute);
    if (slot == nullptr) return hipErrorInvalidValue;
    std::memcpy(value, slot, attribute_bytes(attribute));
    return hipSuccess;
  });
}
