// Device properties and attributes, both derived from the device table.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "core/spec.h"
#include "runtime.h"

using namespace hipsynth::runtime;

namespace {

constexpr size_t kGridLimitX = 2147483647, kGridLimitYZ = 65536;
constexpr int kBlockLimit = 1024, kWaveSize = 64;
constexpr int kMaxVgprs = 512;  // unified file, per work-item

int whole(double value) { return static_cast<int>(value); }

int bus_bits(const Runtime& rt) { return static_cast<int>(traits(rt.config.arch).memory_bus_bits); }

// Number of 4-byte registers in one CU's vector register file.
int registers_per_cu(const Runtime& rt) {
  return whole(rt.spec().topology.vgprs_per_simd * rt.spec().topology.simds_per_cu) * kWaveSize;
}

void fill_limits(const Runtime& rt, hipDeviceProp_tR0600& p) {
  p.maxThreadsPerBlock = kBlockLimit;
  std::fill(std::begin(p.maxThreadsDim), std::end(p.maxThreadsDim), kBlockLimit);
  p.maxGridSize[0] = kGridLimitX;
  p.maxGridSize[1] = p.maxGridSize[2] = kGridLimitYZ;
  p.maxThreadsPerMultiProcessor =
      whole(rt.spec().topology.waves_per_simd * rt.spec().topology.simds_per_cu) * kWaveSize;
  p.maxBlocksPerMultiProcessor = whole(rt.spec().topology.workgroups_per_cu);
  p.regsPerBlock = p.regsPerMultiprocessor = registers_per_cu(rt);
  p.memPitch = kGridLimitX;
  if (traits(rt.config.arch).images) {  // assumed: no recording of a device says
    p.maxTexture1D = p.maxTexture2D[0] = p.maxTexture2D[1] = p.maxTexture3D[0] = p.maxTexture3D[1] = 16384;
    p.maxTexture3D[2] = 8192;
    p.maxTexture1DLinear = 1 << 27;
  }
  p.textureAlignment = p.texturePitchAlignment = p.surfaceAlignment = 256;
}

void fill_memory(const Runtime& rt, hipDeviceProp_tR0600& p) {
  auto lds = static_cast<size_t>(rt.spec().lds.bytes_per_cu);
  p.totalGlobalMem = rt.config.options.memory_bytes;
  p.totalConstMem = std::min<size_t>(p.totalGlobalMem, kGridLimitX);
  p.sharedMemPerBlock = p.sharedMemPerBlockOptin = p.sharedMemPerMultiprocessor = lds;
  p.maxSharedMemoryPerMultiProcessor = lds;
  p.l2CacheSize = whole(rt.spec().l2.bytes);
  p.memoryBusWidth = bus_bits(rt);
  p.memoryClockRate = whole(rt.spec().clock.memory_mhz * 1000);
}

void fill_features(hipDeviceProp_tR0600& p) {
  p.canMapHostMemory = p.concurrentKernels = p.unifiedAddressing = p.managedMemory = p.ECCEnabled = 1;
  p.cooperativeLaunch = p.hostRegisterSupported = p.memoryPoolsSupported = p.isLargeBar = p.deviceOverlap = 1;
  p.canUseHostPointerForRegisteredMem = p.concurrentManagedAccess = p.streamPrioritiesSupported = 1;
  p.asyncEngineCount = 1;
  // Bits in the order of hipDeviceArch_t: all except funnel shifts, extended barriers, surface functions and dynamic
  // parallelism.
  p.arch = 0x97ffu;
}

hipDeviceProp_tR0600 properties(const Runtime& rt) {
  hipDeviceProp_tR0600 p{};
  std::snprintf(p.name, sizeof p.name, "%s", rt.config.title.c_str());
  std::snprintf(p.gcnArchName, sizeof p.gcnArchName, "%s:sramecc+:xnack-", rt.config.arch_name.c_str());
  std::memcpy(p.uuid.bytes, "hipsynth-device0", sizeof p.uuid.bytes);
  p.major = 9;
  p.minor = static_cast<int>(traits(rt.config.arch).isa_minor);
  p.warpSize = kWaveSize;
  p.multiProcessorCount = whole(rt.spec().topology.cus);
  p.clockRate = whole(rt.spec().clock.core_mhz * 1000);
  p.clockInstructionRate = whole(rt.spec().clock.realtime_mhz * 1000);  // in kHz
  p.pciBusID = 1;
  fill_limits(rt, p);
  fill_memory(rt, p);
  fill_features(p);
  return p;
}

struct Attribute {
  int id;  // hipDeviceAttribute_t
  int (*value)(const hipDeviceProp_tR0600&, const Runtime&);
};

#define FROM(id, expression) \
  {id, [](const hipDeviceProp_tR0600& p, const Runtime& rt) { return (void)p, (void)rt, static_cast<int>(expression); }}

constexpr size_t kIntMax = 2147483647;

// Attribute numbers of HIP 6 and 7; attributes that are zero on this device are in kZeroAttributes.
const Attribute kAttributes[] = {
    FROM(0, p.ECCEnabled),
    FROM(2, p.asyncEngineCount),
    FROM(3, p.canMapHostMemory),
    FROM(4, p.canUseHostPointerForRegisteredMem),
    FROM(5, p.clockRate),
    FROM(8, p.concurrentKernels),
    FROM(9, p.concurrentManagedAccess),
    FROM(10, p.cooperativeLaunch),
    FROM(12, p.deviceOverlap),
    FROM(19, p.l2CacheSize),
    FROM(23, p.major),
    FROM(24, p.managedMemory),
    FROM(25, p.maxBlocksPerMultiProcessor),
    FROM(26, p.maxThreadsDim[0]),
    FROM(27, p.maxThreadsDim[1]),
    FROM(28, p.maxThreadsDim[2]),
    FROM(29, p.maxGridSize[0]),
    FROM(30, p.maxGridSize[1]),
    FROM(31, p.maxGridSize[2]),
    FROM(39, p.maxTexture1D),
    FROM(41, p.maxTexture1DLinear),
    FROM(43, p.maxTexture2D[0]),
    FROM(44, p.maxTexture2D[1]),
    FROM(49, p.maxTexture3D[0]),
    FROM(50, p.maxTexture3D[1]),
    FROM(51, p.maxTexture3D[2]),
    FROM(55, p.maxThreadsDim[0]),
    FROM(56, p.maxThreadsPerBlock),
    FROM(57, p.maxThreadsPerMultiProcessor),
    FROM(58, std::min(p.memPitch, kIntMax)),
    FROM(59, p.memoryBusWidth),
    FROM(60, p.memoryClockRate),
    FROM(61, p.minor),
    FROM(63, p.multiProcessorCount),
    FROM(67, p.pciBusID),
    FROM(68, p.pciDeviceID),
    FROM(69, p.pciDomainID),
    FROM(71, p.regsPerBlock),
    FROM(72, p.regsPerMultiprocessor),
    FROM(73, p.reservedSharedMemPerBlock),
    FROM(74, p.sharedMemPerBlock),
    FROM(75, p.sharedMemPerBlockOptin),
    FROM(76, p.sharedMemPerMultiprocessor),
    FROM(78, p.streamPrioritiesSupported),
    FROM(79, p.surfaceAlignment),
    FROM(81, p.textureAlignment),
    FROM(82, p.texturePitchAlignment),
    FROM(83, std::min(p.totalConstMem, kIntMax)),
    FROM(84, std::min(p.totalGlobalMem, kIntMax)),
    FROM(85, p.unifiedAddressing),
    FROM(87, p.warpSize),
    FROM(88, p.memoryPoolsSupported),
    FROM(89, 1),  // virtual memory management
    FROM(90, p.hostRegisterSupported),
    FROM(10000, p.clockInstructionRate),
    FROM(10002, p.maxSharedMemoryPerMultiProcessor),
    FROM(10011, p.isLargeBar),
    FROM(10014, traits(rt.config.arch).images),
    FROM(10015, p.multiProcessorCount),
    FROM(10017, p.clockInstructionRate),
    FROM(10018, rt.spec().topology.xcds),
    FROM(10019, kMaxVgprs),
};

// Known attributes that are zero here: absent features, display and texture limits, integrated memory.
const int kZeroAttributes[] = {1,  6,  7,  11, 13, 14, 15,    16,    17,    18,    20,    21,    22,    32,    33,   34,
                               35, 36, 37, 38, 40, 42, 45,    46,    47,    48,    52,    53,    54,    62,    64,   65,
                               66, 70, 77, 80, 86, 91, 10005, 10006, 10007, 10008, 10009, 10010, 10012, 10013, 10016};

}  // namespace

HIPSYNTH_EXPORT hipError_t hipGetDevicePropertiesR0600(hipDeviceProp_tR0600* out, int device) {
  return call([&](Runtime& rt) -> hipError_t {
    if (out == nullptr) return hipErrorInvalidValue;
    if (device != 0) return hipErrorInvalidDevice;
    *out = properties(rt);
    return hipSuccess;
  });
}

HIPSYNTH_EXPORT hipError_t hipDeviceGetAttribute(int* out, int attribute, int device) {
  return call([&](Runtime& rt) -> hipError_t {
    if (out == nullptr) return hipErrorInvalidValue;
    if (device != 0) return hipErrorInvalidDevice;
    for (const Attribute& row : kAttributes) {
      if (row.id != attribute) continue;
      *out = row.value(properties(rt), rt);
      return hipSuccess;
    }
    *out = 0;
    bool known =
        std::find(std::begin(kZeroAttributes), std::end(kZeroAttributes), attribute) != std::end(kZeroAttributes);
    return known ? hipSuccess : hipErrorInvalidValue;
  });
}

HIPSYNTH_EXPORT hipError_t hipDeviceGetName(char* name, int size, int device) {
  return call([&](Runtime& rt) -> hipError_t {
    if (name == nullptr || size <= 0) return hipErrorInvalidValue;
    if (device != 0) return hipErrorInvalidDevice;
    std::snprintf(name, static_cast<size_t>(size), "%s", rt.config.title.c_str());
    return hipSuccess;
  });
}

HIPSYNTH_EXPORT hipError_t hipDeviceTotalMem(size_t* bytes, int device) {
  return call([&](Runtime& rt) -> hipError_t {
    if (bytes == nullptr) return hipErrorInvalidValue;
    if (device != 0) return hipErrorInvalidDevice;
    *bytes = rt.config.options.memory_bytes;
    return hipSuccess;
  });
}

HIPSYNTH_EXPORT hipError_t hipDeviceComputeCapability(int* major, int* minor, int device) {
  return call([&](Runtime& rt) -> hipError_t {
    if (major == nullptr || minor == nullptr) return hipErrorInvalidValue;
    if (device != 0) return hipErrorInvalidDevice;
    hipDeviceProp_tR0600 p = properties(rt);
    *major = p.major;
    *minor = p.minor;
    return hipSuccess;
  });
}

HIPSYNTH_EXPORT hipError_t hipDeviceGetUuid(hipUUID* out, int device) {
  return call([&](Runtime& rt) -> hipError_t {
    if (out == nullptr) return hipErrorInvalidValue;
    if (device != 0) return hipErrorInvalidDevice;
    *out = properties(rt).uuid;
    return hipSuccess;
  });
}
