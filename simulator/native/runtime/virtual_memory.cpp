// Virtual memory management: reserved addresses, physical memory by handle, and mappings between the two. Pages are
// moved to the mapped address and back, so contents survive; a handle can be mapped at one address at a time.
#include <map>

#include "runtime.h"

struct ihipMemGenericAllocationHandle {
  void* pages;  // location while unmapped
  size_t bytes;
  uint64_t mapped_at;  // 0: not mapped
  int references;      // held by the program
};
using hipMemGenericAllocationHandle_t = ihipMemGenericAllocationHandle*;

using namespace hipsynth::runtime;
using hipsynth::Memory;

namespace {

constexpr size_t kGranularity = 2 << 20;
constexpr int kPinned = 1, kDeviceLocation = 1;
constexpr unsigned long long kReadWrite = 3;

std::set<hipMemGenericAllocationHandle_t>& handles() {
  static std::set<hipMemGenericAllocationHandle_t> table;
  return table;
}

hipMemGenericAllocationHandle_t mapped_at(const void* p) {
  const auto at = reinterpret_cast<uint64_t>(p);
  for (hipMemGenericAllocationHandle_t h : handles()) {
    if (h->mapped_at != 0 && at >= h->mapped_at && at < h->mapped_at + h->bytes) return h;
  }
  return nullptr;
}

// True if mappings cover the whole range; calls `body` for each.
template <typename Body>
bool each_mapping(const void* p, size_t bytes, Body body) {
  const char* at = static_cast<const char*>(p);
  for (const char* end = at + bytes; at < end;) {
    hipMemGenericAllocationHandle_t h = mapped_at(at);
    if (h == nullptr) return false;
    at = reinterpret_cast<const char*>(h->mapped_at + h->bytes);
    body(h);
  }
  return true;
}

// Frees a handle that neither the program nor a mapping refers to.
void collect(Runtime& rt, hipMemGenericAllocationHandle_t h) {
  if (h->references > 0 || h->mapped_at != 0) return;
  rt.memory().release(h->pages);
  handles().erase(h);
  delete h;
}

bool whole(size_t bytes) { return bytes != 0 && bytes % kGranularity == 0; }

}  // namespace

void hipsynth::runtime::forget_mappings() {
  for (hipMemGenericAllocationHandle_t h : handles()) delete h;
  handles().clear();
}

HIPSYNTH_EXPORT hipError_t hipMemGetAllocationGranularity(size_t* out, const hipMemAllocationProp* prop, unsigned) {
  return call([&](Runtime&) -> hipError_t {
    if (out == nullptr || prop == nullptr) return hipErrorInvalidValue;
    *out = kGranularity;
    return hipSuccess;
  });
}
HIPSYNTH_EXPORT hipError_t hipMemAddressReserve(void** out, size_t bytes, size_t align, void*,
                                                unsigned long long flags) {
  return call([&](Runtime& rt) -> hipError_t {
    if (out == nullptr || flags != 0 || !whole(bytes) || (align & (align - 1)) != 0) return hipErrorInvalidValue;
    *out = reinterpret_cast<void*>(rt.memory().reserve(bytes, std::max(align, kGranularity)));
    return hipSuccess;
  });
}
HIPSYNTH_EXPORT hipError_t hipMemAddressFree(void* p, size_t bytes) {
  return call([&](Runtime& rt) {
    return rt.memory().unreserve(reinterpret_cast<uint64_t>(p), bytes) ? hipSuccess : hipErrorInvalidValue;
  });
}
HIPSYNTH_EXPORT hipError_t hipMemCreate(hipMemGenericAllocationHandle_t* out, size_t bytes,
                                        const hipMemAllocationProp* prop, unsigned long long flags) {
  return call([&](Runtime& rt) -> hipError_t {
    if (out == nullptr || prop == nullptr || flags != 0 || !whole(bytes)) return hipErrorInvalidValue;
    if (prop->type != kPinned || prop->location.type != kDeviceLocation) return hipErrorInvalidValue;
    if (prop->location.id != 0) return hipErrorInvalidDevice;
    void* pages = rt.memory().allocate(bytes, Memory::Kind::device, kGranularity);
    *out = *handles().insert(new ihipMemGenericAllocationHandle{pages, bytes, 0, 1}).first;
    return hipSuccess;
  });
}
HIPSYNTH_EXPORT hipError_t hipMemRelease(hipMemGenericAllocationHandle_t h) {
  return call([&](Runtime& rt) -> hipError_t {
    if (!handles().contains(h) || h->references == 0) return hipErrorInvalidValue;
    --h->references;
    collect(rt, h);
    return hipSuccess;
  });
}
HIPSYNTH_EXPORT hipError_t hipMemMap(void* p, size_t bytes, size_t offset, hipMemGenericAllocationHandle_t h,
                                     unsigned long long flags) {
  return call([&](Runtime& rt) -> hipError_t {
    const auto at = reinterpret_cast<uint64_t>(p);
    if (!handles().contains(h) || flags != 0 || offset != 0 || at % kGranularity != 0) return hipErrorInvalidValue;
    if (bytes != h->bytes) return hipErrorInvalidValue;
    if (h->mapped_at != 0) return not_supported("hipMemMap of one handle at two addresses");
    if (!rt.memory().map(at, h->pages)) return hipErrorInvalidValue;
    h->mapped_at = at;
    return hipSuccess;
  });
}
HIPSYNTH_EXPORT hipError_t hipMemUnmap(void* p, size_t bytes) {
  return call([&](Runtime& rt) -> hipError_t {
    rt.complete_all();
    std::vector<hipMemGenericAllocationHandle_t> found;
    size_t sum = 0;
    const bool covered = each_mapping(p, bytes, [&](hipMemGenericAllocationHandle_t h) {
      found.push_back(h);
      sum += h->bytes;
    });
    if (!covered || sum != bytes) return hipErrorInvalidValue;  // only whole mappings can be unmapped
    for (hipMemGenericAllocationHandle_t h : found) {
      if (!rt.memory().unmap(h->mapped_at, h->pages)) return hipErrorInvalidValue;
      h->mapped_at = 0;
      collect(rt, h);
    }
    return hipSuccess;
  });
}
// There is one device, and it may always read and write mapped memory.
HIPSYNTH_EXPORT hipError_t hipMemSetAccess(void* p, size_t bytes, const hipMemAccessDesc* list, size_t count) {
  return call([&](Runtime&) -> hipError_t {
    if (p == nullptr || bytes == 0 || list == nullptr || count == 0) return hipErrorInvalidValue;
    for (size_t i = 0; i < count; ++i) {
      if (list[i].location.type == kDeviceLocation && list[i].location.id != 0) return hipErrorInvalidDevice;
    }
    return each_mapping(p, bytes, [](auto*) {}) ? hipSuccess : hipErrorInvalidValue;
  });
}
HIPSYNTH_EXPORT hipError_t hipMemGetAccess(unsigned long long* flags, const hipMemLocation* location, void* p) {
  return call([&](Runtime&) -> hipError_t {
    if (flags == nullptr || location == nullptr || mapped_at(p) == nullptr) return hipErrorInvalidValue;
    *flags = kReadWrite;
    return hipSuccess;
  });
}
HIPSYNTH_EXPORT hipError_t hipMemRetainAllocationHandle(hipMemGenericAllocationHandle_t* out, void* p) {
  return call([&](Runtime&) -> hipError_t {
    hipMemGenericAllocationHandle_t h = mapped_at(p);
    if (out == nullptr || h == nullptr) return hipErrorInvalidValue;
    ++h->references;
    *out = h;
    return hipSuccess;
  });
}
HIPSYNTH_EXPORT hipError_t hipMemGetAllocationPropertiesFromHandle(hipMemAllocationProp* out,
                                                                   hipMemGenericAllocationHandle_t h) {
  return call([&](Runtime&) -> hipError_t {
    if (out == nullptr || !handles().contains(h)) return hipErrorInvalidValue;
    *out = hipMemAllocationProp{};
    out->type = kPinned;
    out->location = {kDeviceLocation, 0};
    return hipSuccess;
  });
}
