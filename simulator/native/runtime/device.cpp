// Device selection, synchronisation, limits, peers and contexts. There is exactly one device.
#include <cstdio>
#include <cstring>

#include "core/launch.h"
#include "runtime.h"

using namespace hipsynth::runtime;

struct ihipCtx_t {};

namespace {

constexpr char kPciBusId[] = "0000:01:00.0";
constexpr int kVersion = 70100000;  // HIP 7.1.0 as hipRuntimeGetVersion encodes it
constexpr unsigned kScheduleMask = 0x7, kFlagsMask = 0x1f;

unsigned device_flags = 0;
size_t heap_limit = 8 << 20;

hipError_t only_device(int device) {
  return call([&](Runtime&) { return device == 0 ? hipSuccess : hipErrorInvalidDevice; });
}

template <typename T>
hipError_t answer(T* out, T value) {
  return call([&](Runtime&) -> hipError_t {
    if (out == nullptr) return hipErrorInvalidValue;
    *out = value;
    return hipSuccess;
  });
}

size_t* limit_slot(Runtime& rt, int limit) {
  if (limit == 0) return &rt.stack_limit;
  return limit == 2 ? &heap_limit : nullptr;
}

hipCtx_t the_context() {
  static ihipCtx_t context;
  return &context;
}

}  // namespace

HIPSYNTH_EXPORT hipError_t hipInit(unsigned flags) {
  return call([&](Runtime&) { return flags == 0 ? hipSuccess : hipErrorInvalidValue; });
}
HIPSYNTH_EXPORT hipError_t hipGetDeviceCount(int* count) {
  if (count != nullptr) *count = 0;
  return answer(count, 1);
}
HIPSYNTH_EXPORT hipError_t hipGetDevice(int* device) { return answer(device, 0); }
HIPSYNTH_EXPORT hipError_t hipSetDevice(int device) { return only_device(device); }
HIPSYNTH_EXPORT hipError_t hipSetValidDevices(int* devices, int count) {
  return call([&](Runtime&) -> hipError_t {
    for (int i = 0; i < count; ++i) {
      if (devices == nullptr || devices[i] != 0) return hipErrorInvalidDevice;
    }
    return hipSuccess;
  });
}
HIPSYNTH_EXPORT hipError_t hipChooseDeviceR0600(int* device, const hipDeviceProp_tR0600*) { return answer(device, 0); }
HIPSYNTH_EXPORT hipError_t hipDeviceGet(int* device, int ordinal) {
  return ordinal == 0 ? answer(device, 0) : only_device(ordinal);
}
HIPSYNTH_EXPORT hipError_t hipGetDeviceFlags(unsigned* flags) { return answer(flags, device_flags); }
HIPSYNTH_EXPORT hipError_t hipSetDeviceFlags(unsigned flags) {
  return call([&](Runtime&) -> hipError_t {
    unsigned schedule = flags & kScheduleMask;
    if ((flags & ~kFlagsMask) != 0 || (schedule & (schedule - 1)) != 0) return hipErrorInvalidValue;
    device_flags = flags;
    return hipSuccess;
  });
}

// Every operation has finished when its call returns, so only the simulated clock has to advance.
HIPSYNTH_EXPORT hipError_t hipDeviceSynchronize() {
  return call([](Runtime& rt) {
    hipError_t error = check_wait_for_device(rt);
    if (error != hipSuccess) return error;
    error = rt.complete_all();
    rt.timeline.wait(rt.timeline.last());
    return error;
  });
}
HIPSYNTH_EXPORT hipError_t hipDeviceReset() {
  return call([](Runtime& rt) {
    rt.reset();
    return hipSuccess;
  });
}

HIPSYNTH_EXPORT hipError_t hipDriverGetVersion(int* version) { return answer(version, kVersion); }
HIPSYNTH_EXPORT hipError_t hipRuntimeGetVersion(int* version) { return answer(version, kVersion); }

HIPSYNTH_EXPORT hipError_t hipDeviceGetPCIBusId(char* text, int size, int device) {
  return call([&](Runtime&) -> hipError_t {
    if (text == nullptr || size < static_cast<int>(sizeof kPciBusId)) return hipErrorInvalidValue;
    if (device != 0) return hipErrorInvalidDevice;
    std::memcpy(text, kPciBusId, sizeof kPciBusId);
    return hipSuccess;
  });
}
HIPSYNTH_EXPORT hipError_t hipDeviceGetByPCIBusId(int* device, const char* text) {
  return call([&](Runtime&) -> hipError_t {
    if (device == nullptr || text == nullptr) return hipErrorInvalidValue;
    if (std::strcmp(text, kPciBusId) != 0) return hipErrorInvalidDevice;
    *device = 0;
    return hipSuccess;
  });
}

HIPSYNTH_EXPORT hipError_t hipDeviceGetLimit(size_t* value, int limit) {
  return call([&](Runtime& rt) -> hipError_t {
    if (value == nullptr) return hipErrorInvalidValue;
    const size_t* slot = limit_slot(rt, limit);
    if (slot == nullptr) return hipErrorUnsupportedLimit;
    *value = *slot;
    return hipSuccess;
  });
}
// The limit of the stack is for kernels whose calls the compiler cannot follow. That of the heap has no effect.
HIPSYNTH_EXPORT hipError_t hipDeviceSetLimit(int limit, size_t value) {
  return call([&](Runtime& rt) -> hipError_t {
    size_t* slot = limit_slot(rt, limit);
    if (slot == nullptr) return hipErrorUnsupportedLimit;
    if (slot == &rt.stack_limit && value > hipsynth::kMaxScratch) return hipErrorInvalidValue;
    *slot = value;
    return hipSuccess;
  });
}

// Cache and LDS bank preferences are hints that have no effect on AMD devices.
HIPSYNTH_EXPORT hipError_t hipDeviceGetCacheConfig(int* config) { return answer(config, 0); }
HIPSYNTH_EXPORT hipError_t hipDeviceSetCacheConfig(int) { return hipSuccess; }
HIPSYNTH_EXPORT hipError_t hipDeviceGetSharedMemConfig(int* config) { return answer(config, 1); }
HIPSYNTH_EXPORT hipError_t hipDeviceSetSharedMemConfig(int) { return hipSuccess; }
HIPSYNTH_EXPORT hipError_t hipProfilerStart() { return hipSuccess; }
HIPSYNTH_EXPORT hipError_t hipProfilerStop() { return hipSuccess; }

HIPSYNTH_EXPORT hipError_t hipDeviceCanAccessPeer(int* can, int device, int peer) {
  if (device != 0 || peer != 0) return finish(hipErrorInvalidDevice);
  return answer(can, 0);
}
HIPSYNTH_EXPORT hipError_t hipDeviceEnablePeerAccess(int, unsigned) { return finish(hipErrorInvalidDevice); }
HIPSYNTH_EXPORT hipError_t hipDeviceDisablePeerAccess(int) { return finish(hipErrorPeerAccessNotEnabled); }
HIPSYNTH_EXPORT hipError_t hipDeviceGetP2PAttribute(int*, int, int, int) { return finish(hipErrorInvalidDevice); }

HIPSYNTH_EXPORT hipError_t hipCtxCreate(hipCtx_t* out, unsigned, int device) {
  return device == 0 ? answer(out, the_context()) : only_device(device);
}
HIPSYNTH_EXPORT hipError_t hipCtxDestroy(hipCtx_t context) {
  return finish(context == the_context() ? hipSuccess : hipErrorInvalidContext);
}
HIPSYNTH_EXPORT hipError_t hipCtxGetCurrent(hipCtx_t* out) { return answer(out, the_context()); }
HIPSYNTH_EXPORT hipError_t hipCtxSetCurrent(hipCtx_t) { return hipSuccess; }
HIPSYNTH_EXPORT hipError_t hipCtxPushCurrent(hipCtx_t) { return hipSuccess; }
HIPSYNTH_EXPORT hipError_t hipCtxPopCurrent(hipCtx_t* out) { return answer(out, the_context()); }
HIPSYNTH_EXPORT hipError_t hipCtxGetDevice(int* device) { return answer(device, 0); }
HIPSYNTH_EXPORT hipError_t hipCtxSynchronize() { return hipDeviceSynchronize(); }
HIPSYNTH_EXPORT hipError_t hipDevicePrimaryCtxRetain(hipCtx_t* out, int device) {
  return device == 0 ? answer(out, the_context()) : only_device(device);
}
HIPSYNTH_EXPORT hipError_t hipDevicePrimaryCtxRelease(int device) { return only_device(device); }
HIPSYNTH_EXPORT hipError_t hipDevicePrimaryCtxReset(int device) { return only_device(device); }
HIPSYNTH_EXPORT hipError_t hipDevicePrimaryCtxSetFlags(int device, unsigned) { return only_device(device); }
HIPSYNTH_EXPORT hipError_t hipDevicePrimaryCtxGetState(int device, unsigned* flags, int* active) {
  return call([&](Runtime&) {
    if (flags != nullptr) *flags = device_flags;
    if (active != nullptr) *active = 1;
    return device == 0 ? hipSuccess : hipErrorInvalidDevice;
  });
}
