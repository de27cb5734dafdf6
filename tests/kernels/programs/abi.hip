// Every size, offset and value of the runtime's own declarations against the headers that programs are compiled with.
// The runtime's header is included inside a namespace; its macros are checked one by one.
#include <hip/hip_runtime.h>

namespace ours {
#include "hip_abi.h"
}

#define SAME_SIZE(type, real) static_assert(sizeof(ours::type) == sizeof(real), #type)
#define SAME_FIELD(type, real, field) \
  static_assert(offsetof(ours::type, field) == offsetof(real, field) && sizeof(ours::type::field) == sizeof(real::field), #field)

#define X(name, value, text) static_assert((int)::name == value, #name);
HIPSYNTH_ERRORS(X)
#undef X

SAME_SIZE(dim3, dim3);
SAME_SIZE(hipMemcpy3DParms, hipMemcpy3DParms);
SAME_FIELD(hipMemcpy3DParms, hipMemcpy3DParms, srcPtr);
SAME_FIELD(hipMemcpy3DParms, hipMemcpy3DParms, dstPos);
SAME_FIELD(hipMemcpy3DParms, hipMemcpy3DParms, extent);
SAME_FIELD(hipMemcpy3DParms, hipMemcpy3DParms, kind);
SAME_SIZE(hip_Memcpy2D, hip_Memcpy2D);
SAME_FIELD(hip_Memcpy2D, hip_Memcpy2D, srcPitch);
SAME_FIELD(hip_Memcpy2D, hip_Memcpy2D, dstDevice);
SAME_FIELD(hip_Memcpy2D, hip_Memcpy2D, Height);
SAME_SIZE(hipChannelFormatDesc, hipChannelFormatDesc);
SAME_SIZE(HIP_ARRAY_DESCRIPTOR, HIP_ARRAY_DESCRIPTOR);
SAME_FIELD(HIP_ARRAY3D_DESCRIPTOR, HIP_ARRAY3D_DESCRIPTOR, Flags);
SAME_SIZE(hipResourceDesc, hipResourceDesc);
SAME_FIELD(hipResourceDesc, hipResourceDesc, res.pitch2D.pitchInBytes);
SAME_SIZE(hipTextureDesc, hipTextureDesc);
SAME_FIELD(hipTextureDesc, hipTextureDesc, normalizedCoords);
SAME_SIZE(HIP_MEMCPY3D, HIP_MEMCPY3D);
SAME_FIELD(HIP_MEMCPY3D, HIP_MEMCPY3D, dstArray);
SAME_SIZE(hipMemAllocationProp, hipMemAllocationProp);
SAME_FIELD(hipMemAllocationProp, hipMemAllocationProp, location);
SAME_SIZE(hipMemAllocNodeParams, hipMemAllocNodeParams);
SAME_FIELD(hipMemAllocNodeParams, hipMemAllocNodeParams, dptr);
SAME_SIZE(hipMemAccessDesc, hipMemAccessDesc);
SAME_SIZE(hipPointerAttribute_t, hipPointerAttribute_t);
SAME_FIELD(hipPointerAttribute_t, hipPointerAttribute_t, devicePointer);
SAME_FIELD(hipPointerAttribute_t, hipPointerAttribute_t, isManaged);
SAME_SIZE(hipFuncAttributes, hipFuncAttributes);
SAME_FIELD(hipFuncAttributes, hipFuncAttributes, numRegs);
SAME_FIELD(hipFuncAttributes, hipFuncAttributes, sharedSizeBytes);
SAME_SIZE(hipLaunchAttribute, hipLaunchAttribute);
SAME_SIZE(hipLaunchConfig_t, hipLaunchConfig_t);
SAME_FIELD(hipLaunchConfig_t, hipLaunchConfig_t, stream);
SAME_SIZE(HIP_LAUNCH_CONFIG, HIP_LAUNCH_CONFIG);
SAME_SIZE(hipLaunchParams, hipLaunchParams);
SAME_SIZE(hipKernelNodeParams, hipKernelNodeParams);
SAME_FIELD(hipKernelNodeParams, hipKernelNodeParams, func);
SAME_FIELD(hipKernelNodeParams, hipKernelNodeParams, kernelParams);
SAME_SIZE(hipMemsetParams, hipMemsetParams);
SAME_FIELD(hipMemsetParams, hipMemsetParams, value);
SAME_SIZE(hipHostNodeParams, hipHostNodeParams);
SAME_SIZE(hipDeviceProp_tR0600, hipDeviceProp_t);
#define PROP(field) SAME_FIELD(hipDeviceProp_tR0600, hipDeviceProp_t, field)
PROP(totalGlobalMem);
PROP(warpSize);
PROP(maxGridSize);
PROP(clockRate);
PROP(major);
PROP(multiProcessorCount);
PROP(canMapHostMemory);
PROP(maxSurfaceCubemapLayered);
PROP(concurrentKernels);
PROP(pciBusID);
PROP(memoryClockRate);
PROP(memoryBusWidth);
PROP(l2CacheSize);
PROP(maxThreadsPerMultiProcessor);
PROP(sharedMemPerMultiprocessor);
PROP(regsPerMultiprocessor);
PROP(managedMemory);
PROP(cooperativeLaunch);
PROP(sharedMemPerBlockOptin);
PROP(maxBlocksPerMultiProcessor);
PROP(hostRegisterSupported);
PROP(memoryPoolsSupported);
PROP(unifiedFunctionPointers);
PROP(gcnArchName);
PROP(clockInstructionRate);
PROP(arch);
PROP(isLargeBar);
PROP(asicRevision);

static_assert(hipMemcpyDeviceToHost == (int)ours::hipMemcpyDeviceToHost && hipMemcpyDefault == (int)ours::hipMemcpyDefault);
static_assert(hipMemoryTypeManaged == (int)ours::hipMemoryTypeManaged && hipMemoryTypeHost == (int)ours::hipMemoryTypeHost);
static_assert(hipEventDisableTiming == ours::kEventDisableTiming);

// Attribute numbers of the runtime's table.
static_assert(hipDeviceAttributeClockRate == 5 && hipDeviceAttributeL2CacheSize == 19);
static_assert(hipDeviceAttributeCooperativeLaunch == 10 && hipDeviceAttributeMaxGridDimZ == 31);
static_assert(hipDeviceAttributeComputeCapabilityMajor == 23 && hipDeviceAttributeComputeCapabilityMinor == 61);
static_assert(hipDeviceAttributeManagedMemory == 24 && hipDeviceAttributeMaxBlocksPerMultiProcessor == 25);
static_assert(hipDeviceAttributeMaxThreadsDim == 55 && hipDeviceAttributeMaxThreadsPerBlock == 56);
static_assert(hipDeviceAttributeMaxThreadsPerMultiProcessor == 57 && hipDeviceAttributeMaxPitch == 58);
static_assert(hipDeviceAttributeMemoryBusWidth == 59 && hipDeviceAttributeMemoryClockRate == 60);
static_assert(hipDeviceAttributeMultiprocessorCount == 63 && hipDeviceAttributePciBusId == 67);
static_assert(hipDeviceAttributeMaxRegistersPerBlock == 71 && hipDeviceAttributeReservedSharedMemPerBlock == 73);
static_assert(hipDeviceAttributeMaxSharedMemoryPerBlock == 74 && hipDeviceAttributeSharedMemPerMultiprocessor == 76);
static_assert(hipDeviceAttributeStreamPrioritiesSupported == 78 && hipDeviceAttributeTextureAlignment == 81);
static_assert(hipDeviceAttributeTotalConstantMemory == 83 && hipDeviceAttributeTotalGlobalMem == 84);
static_assert(hipDeviceAttributeUnifiedAddressing == 85 && hipDeviceAttributeWarpSize == 87);
static_assert(hipDeviceAttributeMemoryPoolsSupported == 88 && hipDeviceAttributeHostRegisterSupported == 90);
static_assert(hipDeviceAttributeMaxSharedMemoryPerMultiprocessor == 10002 && hipDeviceAttributeIsLargeBar == 10011);
static_assert(hipDeviceAttributePhysicalMultiProcessorCount == 10015 && hipDeviceAttributeWallClockRate == 10017);
static_assert(hipDeviceAttributeNumberOfXccs == 10018 && hipDeviceAttributeMaxAvailableVgprsPerThread == 10019);

int main() { return 0; }
