// Allocation: device, managed, pinned host, registration of host memory, pointer queries. For pools see pools.cpp.
#include "graph_memory.h"
#include "host_memory.h"

using namespace hipsynth::runtime;
using hipsynth::Memory;

namespace {

constexpr size_t kPitchAlignment = 256;  // bytes; hipDeviceProp_t::texturePitchAlignment of the runtime
// Portable, mapped, write-combined, uncached.
constexpr unsigned kHostAllocFlags = 0x10000007;
// Portable, mapped, memory of a device, read-only or coarse-grained, uncached.
constexpr unsigned kHostRegisterFlags = 0x8000000f;

size_t padded_pitch(size_t width) {
  return saturating_product(width / kPitchAlignment + (width % kPitchAlignment != 0), kPitchAlignment);
}

uint64_t address(const void* p) { return reinterpret_cast<uint64_t>(p); }

hipError_t allocate_device(void** out, size_t bytes) {
  return call([&](Runtime& rt) {
    const hipError_t allowed = check_unsafe(rt);
    return allowed == hipSuccess ? allocate(rt, out, bytes, Memory::Kind::device) : allowed;
  });
}

hipError_t allocate_pinned(void** out, size_t bytes, unsigned flags) {
  return call([&](Runtime& rt) {
    hipError_t error = check_unsafe(rt);
    if (error == hipSuccess) error = allocate(rt, out, bytes, Memory::Kind::host);
    if (error == hipSuccess && *out != nullptr) rt.pinned[*out] = {flags, false};
    return error;
  });
}

hipError_t release_pinned(void* p) {
  return call([&](Runtime& rt) {
    const hipError_t allowed = check_unsafe(rt);
    return allowed == hipSuccess ? release(p, true) : allowed;
  });
}

// What is pinned of the allocation that holds an address; null if nothing is.
const Pinned* find_pinned(Runtime& rt, const void* p) {
  const Memory::Allocation* a = rt.memory().find(address(p), 1);
  const auto entry = a == nullptr ? rt.pinned.end() : rt.pinned.find(reinterpret_cast<const void*>(a->start));
  return entry == rt.pinned.end() ? nullptr : &entry->second;
}

// Whether the host or the device family of free functions may release this kind of memory.
bool releasable(Memory::Kind kind, bool host) {
  return host ? kind == Memory::Kind::host : kind == Memory::Kind::device || kind == Memory::Kind::managed;
}

hipMemoryType memory_type(Memory::Kind kind) {
  if (kind == Memory::Kind::managed) return hipMemoryTypeManaged;
  return kind == Memory::Kind::host ? hipMemoryTypeHost : hipMemoryTypeDevice;
}

}  // namespace

namespace hipsynth::runtime {

hipError_t allocate(Runtime& rt, void** out, size_t bytes, Memory::Kind kind) {
  if (out == nullptr) return hipErrorInvalidValue;
  *out = nullptr;
  if (bytes == 0) return hipSuccess;
  const bool elsewhere = rt.trial.scatters() && kind == Memory::Kind::device;
  *out = elsewhere ? rt.memory().allocate_at(rt.trial.place(bytes), bytes) : rt.memory().allocate(bytes, kind);
  rt.trial.allocated(*out, bytes, kind == Memory::Kind::device);
  return hipSuccess;
}

void allocate_at(Runtime& rt, void* p, size_t bytes) {
  rt.memory().allocate_at(address(p) - rt.memory().start(), bytes);
  rt.trial.allocated(p, bytes, true);
}

bool release_at_once(Runtime& rt, void* p) {
  rt.placement.erase(address(p));
  rt.trial.released(p);
  leave_pool(p);
  GraphMemory::forget(p);
  return rt.memory().release(p);
}

hipError_t release(void* p, bool host) {
  return call([&](Runtime& rt) -> hipError_t {
    if (p == nullptr) return hipSuccess;
    rt.complete_all();
    const auto pinned = rt.pinned.find(p);
    if (pinned != rt.pinned.end() && pinned->second.registered) return hipErrorInvalidValue;
    const Memory::Allocation* a = rt.memory().find(address(p), 1);
    if (a == nullptr || a->start != address(p) || !releasable(a->kind, host)) return hipErrorInvalidValue;
    rt.pinned.erase(p);
    return release_at_once(rt, p) ? hipSuccess : hipErrorInvalidValue;
  });
}

}  // namespace hipsynth::runtime

HIPSYNTH_EXPORT hipError_t hipMalloc(void** p, size_t bytes) { return allocate_device(p, bytes); }

HIPSYNTH_EXPORT hipError_t hipExtMallocWithFlags(void** p, size_t bytes, unsigned) { return allocate_device(p, bytes); }

HIPSYNTH_EXPORT hipError_t hipMallocManaged(void** p, size_t bytes, unsigned) {
  return call([&](Runtime& rt) -> hipError_t {
    if (hipError_t error = check_unsafe(rt); error != hipSuccess) return error;
    return bytes == 0 ? hipErrorInvalidValue : allocate(rt, p, bytes, Memory::Kind::managed);
  });
}

HIPSYNTH_EXPORT hipError_t hipFree(void* p) {
  return call([&](Runtime& rt) -> hipError_t {
    if (hipError_t error = check_unsafe(rt); error != hipSuccess) return error;
    // AMD's hipFree also releases pinned host memory.
    return release(p, rt.pinned.contains(p));
  });
}

HIPSYNTH_EXPORT hipError_t hipHostMalloc(void** p, size_t bytes, unsigned flags) {
  return allocate_pinned(p, bytes, flags);
}
HIPSYNTH_EXPORT hipError_t hipHostAlloc(void** p, size_t bytes, unsigned flags) {
  if ((flags & ~kHostAllocFlags) != 0) return finish(hipErrorInvalidValue);
  return allocate_pinned(p, bytes, flags);
}
HIPSYNTH_EXPORT hipError_t hipMallocHost(void** p, size_t bytes) { return allocate_pinned(p, bytes, 0); }
HIPSYNTH_EXPORT hipError_t hipMemAllocHost(void** p, size_t bytes) { return allocate_pinned(p, bytes, 0); }
HIPSYNTH_EXPORT hipError_t hipHostFree(void* p) { return release_pinned(p); }
HIPSYNTH_EXPORT hipError_t hipFreeHost(void* p) { return release_pinned(p); }

HIPSYNTH_EXPORT hipError_t hipHostRegister(void* p, size_t bytes, unsigned flags) {
  return call([&](Runtime& rt) -> hipError_t {
    if (hipError_t error = check_unsafe(rt); error != hipSuccess) return error;
    if (p == nullptr || bytes == 0 || (flags & ~kHostRegisterFlags) != 0) return hipErrorInvalidValue;
    if (rt.pinned.contains(p)) return hipErrorHostMemoryAlreadyRegistered;
    if (rt.memory().owns(address(p)) || !host_readable(p, bytes)) return hipErrorInvalidValue;
    if (rt.memory().overlaps(address(p), bytes)) return hipErrorHostMemoryAlreadyRegistered;
    rt.memory().add_external(p, bytes);
    rt.pinned[p] = {flags, true};
    return hipSuccess;
  });
}

HIPSYNTH_EXPORT hipError_t hipHostUnregister(void* p) {
  return call([&](Runtime& rt) -> hipError_t {
    if (hipError_t error = check_unsafe(rt); error != hipSuccess) return error;
    if (p == nullptr) return hipErrorInvalidValue;
    rt.complete_all();
    const auto entry = rt.pinned.find(p);
    if (entry == rt.pinned.end() || !entry->second.registered) return hipErrorHostMemoryNotRegistered;
    rt.pinned.erase(entry);
    rt.memory().remove_external(p);
    return hipSuccess;
  });
}

// Host memory has the same address on the device.
HIPSYNTH_EXPORT hipError_t hipHostGetDevicePointer(void** out, void* p, unsigned flags) {
  return call([&](Runtime& rt) -> hipError_t {
    if (out == nullptr || p == nullptr || flags != 0 || rt.memory().find(address(p), 1) == nullptr)
      return hipErrorInvalidValue;
    *out = p;
    return hipSuccess;
  });
}

HIPSYNTH_EXPORT hipError_t hipHostGetFlags(unsigned* flags, void* p) {
  return call([&](Runtime& rt) -> hipError_t {
    const Pinned* pinned = find_pinned(rt, p);
    if (flags == nullptr || pinned == nullptr) return hipErrorInvalidValue;
    *flags = pinned->flags;
    return hipSuccess;
  });
}

HIPSYNTH_EXPORT hipError_t hipMallocPitch(void** p, size_t* pitch, size_t width, size_t height) {
  return call([&](Runtime& rt) -> hipError_t {
    if (hipError_t error = check_unsafe(rt); error != hipSuccess) return error;
    if (pitch == nullptr) return hipErrorInvalidValue;
    *pitch = padded_pitch(width);
    return allocate(rt, p, saturating_product(*pitch, height), Memory::Kind::device);
  });
}

HIPSYNTH_EXPORT hipError_t hipMemAllocPitch(void** p, size_t* pitch, size_t width, size_t height, unsigned element) {
  const bool has_width = element == 4 || element == 8 || element == 16;
  if (!has_width || width == 0 || height == 0) return finish(hipErrorInvalidValue);
  return hipMallocPitch(p, pitch, width, height);
}

HIPSYNTH_EXPORT hipError_t hipMalloc3D(hipPitchedPtr* out, hipExtent extent) {
  return call([&](Runtime& rt) -> hipError_t {
    if (hipError_t error = check_unsafe(rt); error != hipSuccess) return error;
    if (out == nullptr) return hipErrorInvalidValue;
    const size_t bytes =
        saturating_product(saturating_product(padded_pitch(extent.width), extent.height), extent.depth);
    hipError_t error = allocate(rt, &out->ptr, bytes, Memory::Kind::device);
    out->pitch = padded_pitch(extent.width);
    out->xsize = extent.width;
    out->ysize = extent.height;
    return error;
  });
}

HIPSYNTH_EXPORT hipError_t hipMemGetInfo(size_t* free, size_t* total) {
  return call([&](Runtime& rt) -> hipError_t {
    if (free == nullptr || total == nullptr) return hipErrorInvalidValue;
    *total = rt.memory().limit();
    *free = rt.memory().limit() - rt.memory().used();
    return hipSuccess;
  });
}

HIPSYNTH_EXPORT hipError_t hipMemPtrGetInfo(void* p, size_t* size) {
  return call([&](Runtime& rt) -> hipError_t {
    const Memory::Allocation* a = rt.memory().find(address(p), 1);
    if (size == nullptr || (p != nullptr && a == nullptr)) return hipErrorInvalidValue;
    *size = p != nullptr ? a->bytes : 0;
    return hipSuccess;
  });
}

HIPSYNTH_EXPORT hipError_t hipMemGetAddressRange(void** base, size_t* size, void* p) {
  return call([&](Runtime& rt) -> hipError_t {
    const Memory::Allocation* a = rt.memory().find(address(p), 1);
    if (a == nullptr) return hipErrorNotFound;
    if (base != nullptr) *base = reinterpret_cast<void*>(a->start);
    if (size != nullptr) *size = a->bytes;
    return hipSuccess;
  });
}

HIPSYNTH_EXPORT hipError_t hipPointerGetAttributes(hipPointerAttribute_t* out, const void* p) {
  return call([&](Runtime& rt) -> hipError_t {
    if (out == nullptr) return hipErrorInvalidValue;
    *out = hipPointerAttribute_t{hipMemoryTypeUnregistered, -2, nullptr, nullptr, 0, 0};
    const Memory::Allocation* a = rt.memory().find(address(p), 1);
    if (a == nullptr) return hipSuccess;
    const Pinned* pinned = find_pinned(rt, p);
    out->type = pinned != nullptr ? hipMemoryTypeHost : memory_type(a->kind);
    out->allocationFlags = pinned != nullptr ? pinned->flags : 0;
    out->device = 0;
    out->devicePointer = const_cast<void*>(p);
    out->hostPointer = out->type == hipMemoryTypeDevice ? nullptr : const_cast<void*>(p);
    out->isManaged = out->type == hipMemoryTypeManaged;
    return hipSuccess;
  });
}

HIPSYNTH_EXPORT hipError_t hipStreamAttachMemAsync(hipStream_t, void* p, size_t, unsigned) {
  return call([&](Runtime& rt) { return rt.memory().find(address(p), 1) ? hipSuccess : hipErrorInvalidValue; });
}
