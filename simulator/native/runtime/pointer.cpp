// Pointer attributes, stream memory operations (write and wait for a value), and functions by name.
#include <dlfcn.h>

#include <cstring>

#include "runtime.h"

using namespace hipsynth::runtime;
using hipsynth::Memory;

namespace {

// hipPointer_attribute
enum Attribute : int {
  kMemoryType = 2,
  kDevicePointer = 3,
  kHostPointer = 4,
  kSyncMemops = 6,
  kBufferId = 7,
  kIsManaged = 8,
  kDeviceOrdinal = 9,
  kRangeStart = 11,
  kRangeSize = 12,
  kMapped = 13,
};

template <typename T>
hipError_t put(void* out, T value) {
  std::memcpy(out, &value, sizeof value);
  return hipSuccess;
}

hipError_t attribute(Runtime& rt, void* out, int which, void* p) {
  const Memory::Allocation* a = rt.memory().find(reinterpret_cast<uint64_t>(p), 1);
  if (out == nullptr || p == nullptr || a == nullptr) return hipErrorInvalidValue;
  const bool host = a->kind == Memory::Kind::host, managed = a->kind == Memory::Kind::managed;
  switch (which) {
    case kMemoryType:
      return put(out, host ? hipMemoryTypeHost : managed ? hipMemoryTypeManaged : hipMemoryTypeDevice);
    case kDevicePointer:
      return put(out, p);
    case kHostPointer:
      return host || managed ? put(out, p) : hipErrorInvalidValue;
    case kSyncMemops:
      return put(out, 0u);
    case kBufferId:
      return put(out, a->id);
    case kIsManaged:
      return put(out, managed);
    case kDeviceOrdinal:
      return put(out, 0);
    case kRangeStart:
      return put(out, a->start);
    case kRangeSize:
      return put(out, a->bytes);
    case kMapped:
      return put(out, true);
    default:
      return hipErrorInvalidValue;
  }
}

template <typename T>
hipError_t write_value(hipStream_t stream, void* p, T value) {
  return call([&](Runtime& rt) -> hipError_t {
    if (rt.memory().find(reinterpret_cast<uint64_t>(p), sizeof value) == nullptr) return hipErrorInvalidValue;
    return rt.submit(stream, [&rt, p, value] {
      rt.trial.before_operation();
      put(p, value);
      rt.trial.written_by_command(p);
      rt.trial.after_operation();
      return hipSuccess;
    });
  });
}

// A handle of this library, which may have been loaded without its symbols becoming global.
void* own_library() {
  static void* handle = [] {
    Dl_info info{};
    if (dladdr(reinterpret_cast<void*>(&own_library), &info) == 0) return static_cast<void*>(RTLD_DEFAULT);
    return dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  }();
  return handle;
}

// Whether the value at `p` meets the condition; `how`: >=, ==, and, nor.
template <typename T>
bool passes(const void* p, T wanted, unsigned how, T mask) {
  T found;
  std::memcpy(&found, p, sizeof found);
  found &= mask;
  const bool results[] = {static_cast<std::make_signed_t<T>>(found - wanted) >= 0, found == wanted,
                          (found & wanted) != 0, static_cast<T>(~(found | wanted)) != 0};
  return results[how];
}

// If the condition does not hold once everything submitted before the wait has been executed, it never will.
template <typename T>
hipError_t wait_value(hipStream_t stream, void* p, T value, unsigned how, T mask) {
  return call([&](Runtime& rt) -> hipError_t {
    if (rt.memory().find(reinterpret_cast<uint64_t>(p), sizeof value) == nullptr || how > 3)
      return hipErrorInvalidValue;
    return rt.submit(stream, [&rt, p, value, how, mask]() -> hipError_t {
      if (!passes(p, value, how, mask)) rt.complete_others();
      if (passes(p, value, how, mask)) return hipSuccess;
      throw hipsynth::SimError(hipsynth::Reason::deadlock,
                               "a stream waits for a memory value that no earlier operation writes");
    });
  });
}

}  // namespace

HIPSYNTH_EXPORT hipError_t hipPointerGetAttribute(void* out, int which, void* p) {
  return call([&](Runtime& rt) { return attribute(rt, out, which, p); });
}
HIPSYNTH_EXPORT hipError_t hipDrvPointerGetAttributes(unsigned count, int* which, void** out, void* p) {
  return call([&](Runtime& rt) -> hipError_t {
    if (which == nullptr || out == nullptr) return hipErrorInvalidValue;
    for (unsigned i = 0; i < count; ++i) attribute(rt, out[i], which[i], p);  // unknown attributes are left unchanged
    return hipSuccess;
  });
}
HIPSYNTH_EXPORT hipError_t hipPointerSetAttribute(const void* value, int which, void* p) {
  return call([&](Runtime& rt) -> hipError_t {
    const bool known = rt.memory().find(reinterpret_cast<uint64_t>(p), 1) != nullptr;
    return value != nullptr && known && which == kSyncMemops ? hipSuccess : hipErrorInvalidValue;
  });
}

HIPSYNTH_EXPORT hipError_t hipStreamWriteValue32(hipStream_t s, void* p, uint32_t value, unsigned) {
  return write_value(s, p, value);
}
HIPSYNTH_EXPORT hipError_t hipStreamWriteValue64(hipStream_t s, void* p, uint64_t value, unsigned) {
  return write_value(s, p, value);
}
HIPSYNTH_EXPORT hipError_t hipStreamWaitValue32(hipStream_t s, void* p, uint32_t value, unsigned how, uint32_t mask) {
  return wait_value(s, p, value, how, mask);
}
HIPSYNTH_EXPORT hipError_t hipStreamWaitValue64(hipStream_t s, void* p, uint64_t value, unsigned how, uint64_t mask) {
  return wait_value(s, p, value, how, mask);
}

HIPSYNTH_EXPORT hipError_t hipGetProcAddress(const char* name, void** out, int, uint64_t, int* status) {
  if (name == nullptr || out == nullptr) return finish(hipErrorInvalidValue);
  // Names that HIP's headers map to functions with a suffix; see hip_runtime_api.h.
  const bool suffixed = std::strcmp(name, "hipGetDeviceProperties") == 0 || std::strcmp(name, "hipChooseDevice") == 0;
  const std::string symbol = std::string(name) + (suffixed ? "R0600" : "");
  *out = std::strncmp(name, "hip", 3) == 0 ? dlsym(own_library(), symbol.c_str()) : nullptr;
  if (status != nullptr) *status = *out == nullptr ? 1 : 0;  // hipDriverProcAddressQueryResult
  return finish(*out == nullptr ? hipErrorInvalidValue : hipSuccess);
}

HIPSYNTH_EXPORT hipError_t hipModuleOccupancyMaxPotentialBlockSize(int* grid, int* block, hipFunction_t f, size_t lds,
                                                                   int limit);
HIPSYNTH_EXPORT hipError_t hipModuleOccupancyMaxPotentialBlockSizeWithFlags(int* grid, int* block, hipFunction_t f,
                                                                            size_t lds, int limit, unsigned) {
  return hipModuleOccupancyMaxPotentialBlockSize(grid, block, f, lds, limit);
}
HIPSYNTH_EXPORT int hipGetStreamDeviceId(hipStream_t) { return 0; }
HIPSYNTH_EXPORT hipError_t hipCtxGetFlags(unsigned* flags) {
  if (flags == nullptr) return finish(hipErrorInvalidValue);
  *flags = 0;
  return hipSuccess;
}
HIPSYNTH_EXPORT hipError_t hipCtxGetApiVersion(hipCtx_t, unsigned* version) {
  if (version == nullptr) return finish(hipErrorInvalidValue);
  *version = 4;
  return hipSuccess;
}
