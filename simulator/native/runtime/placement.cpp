// Memory placement: advice, prefetches and access rights. There is one device and managed memory is always accessible,
// so these calls only change what later queries return.
#include <cstring>

#include "runtime.h"

using namespace hipsynth::runtime;
using hipsynth::Memory;

namespace {

// hipMemoryAdvise and hipMemRangeAttribute; attribute n is set by advice 2n - 1 and unset by 2n.
enum Attribute { kReadMostly = 1, kPreferred = 2, kAccessedBy = 3, kLastPrefetch = 4, kCoherency = 100 };
constexpr int kSetCoarse = 100, kUnsetCoarse = 101, kNowhere = -2, kHost = -1;
constexpr int kLocationDevice = 1, kReadWrite = 3;

int device_of(const hipMemLocation& location) { return location.type == kLocationDevice ? location.id : kHost; }
bool device_exists(int device) { return device == 0 || device == kHost; }

const Memory::Allocation* range(Runtime& rt, const void* p, size_t bytes) {
  return bytes == 0 ? nullptr : rt.memory().find(reinterpret_cast<uint64_t>(p), bytes);
}

hipError_t prefetch(const void* p, size_t bytes, int device) {
  return call([&](Runtime& rt) -> hipError_t {
    const Memory::Allocation* a = range(rt, p, bytes);
    if (a == nullptr) return hipErrorInvalidValue;
    if (!device_exists(device)) return hipErrorInvalidDevice;
    rt.placement[a->start][kLastPrefetch] = device;
    return hipSuccess;
  });
}

hipError_t advise(const void* p, size_t bytes, int advice, int device) {
  return call([&](Runtime& rt) -> hipError_t {
    const Memory::Allocation* a = range(rt, p, bytes);
    const bool coarse = advice == kSetCoarse || advice == kUnsetCoarse;
    if (a == nullptr || (!coarse && (advice < 1 || advice > 6))) return hipErrorInvalidValue;
    std::map<int, int>& known = rt.placement[a->start];
    if (coarse) {
      known[kCoherency] = advice == kSetCoarse;
    } else if (advice % 2 == 0) {
      known.erase(advice / 2);
    } else {
      known[(advice + 1) / 2] = advice == 1 ? 1 : device;
    }
    return hipSuccess;
  });
}

hipError_t attribute(Runtime& rt, void* out, size_t size, int which, const void* p, size_t bytes) {
  const Memory::Allocation* a = range(rt, p, bytes);
  const bool known = (which >= kReadMostly && which <= kLastPrefetch) || which == kCoherency;
  if (a == nullptr || out == nullptr || !known || size < sizeof(int) || size % sizeof(int) != 0) {
    return hipErrorInvalidValue;
  }
  const auto advised = rt.placement.find(a->start);
  int value = which == kReadMostly || which == kCoherency ? 0 : kNowhere;
  if (advised != rt.placement.end() && advised->second.contains(which)) value = advised->second.at(which);
  for (size_t i = 0; i < size / sizeof(int); ++i) {  // only kAccessedBy returns several values, a list of devices
    std::memcpy(static_cast<char*>(out) + i * sizeof(int), i == 0 ? &value : &kNowhere, sizeof(int));
  }
  return hipSuccess;
}

}  // namespace

HIPSYNTH_EXPORT hipError_t hipMemPrefetchAsync(const void* p, size_t bytes, int device, hipStream_t) {
  return prefetch(p, bytes, device);
}
HIPSYNTH_EXPORT hipError_t hipMemPrefetchAsync_v2(const void* p, size_t bytes, hipMemLocation to, unsigned,
                                                  hipStream_t) {
  return prefetch(p, bytes, device_of(to));
}
HIPSYNTH_EXPORT hipError_t hipMemAdvise(const void* p, size_t bytes, int advice, int device) {
  return advise(p, bytes, advice, device);
}
HIPSYNTH_EXPORT hipError_t hipMemAdvise_v2(const void* p, size_t bytes, int advice, hipMemLocation where) {
  return advise(p, bytes, advice, device_of(where));
}
HIPSYNTH_EXPORT hipError_t hipMemRangeGetAttribute(void* out, size_t size, int which, const void* p, size_t bytes) {
  return call([&](Runtime& rt) { return attribute(rt, out, size, which, p, bytes); });
}
HIPSYNTH_EXPORT hipError_t hipMemRangeGetAttributes(void** out, size_t* sizes, int* which, size_t count, const void* p,
                                                    size_t bytes) {
  return call([&](Runtime& rt) -> hipError_t {
    if (out == nullptr || sizes == nullptr || which == nullptr || count == 0) return hipErrorInvalidValue;
    for (size_t i = 0; i < count; ++i) {
      const hipError_t error = attribute(rt, out[i], sizes[i], which[i], p, bytes);
      if (error != hipSuccess) return error;
    }
    return hipSuccess;
  });
}

HIPSYNTH_EXPORT hipError_t hipMemPoolSetAccess(hipMemPool_t pool, const hipMemAccessDesc* wanted, size_t count) {
  return call([&](Runtime&) -> hipError_t {
    if (!known(pool) || (wanted == nullptr && count > 0)) return hipErrorInvalidValue;
    for (size_t i = 0; i < count; ++i) {  // the device that owns a pool always has access
      if (wanted[i].location.type != kLocationDevice || wanted[i].location.id != 0) return hipErrorInvalidDevice;
      if (wanted[i].flags != kReadWrite) return hipErrorInvalidDevice;
    }
    return hipSuccess;
  });
}
HIPSYNTH_EXPORT hipError_t hipMemPoolGetAccess(int* flags, hipMemPool_t pool, hipMemLocation* where) {
  return call([&](Runtime&) -> hipError_t {
    if (flags == nullptr || where == nullptr || !known(pool)) return hipErrorInvalidValue;
    if (where->type != kLocationDevice || where->id != 0) return hipErrorInvalidDevice;
    *flags = kReadWrite;
    return hipSuccess;
  });
}
