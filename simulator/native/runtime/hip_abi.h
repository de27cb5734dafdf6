// The binary interface of HIP 6 and 7 host programs: handles, enums and structures of the API, declared here so that
// the runtime builds without ROCm headers. tests/kernels/programs/abi.hip compares every size, offset and value below
// with the headers that programs are compiled with. Source of layouts and values: HIP runtime API reference,
// versions 6.0 (R0600 structures) to 7.1.
#pragma once

#include <cstddef>
#include <cstdint>

#define HIPSYNTH_EXPORT extern "C" __attribute__((visibility("default")))

// name, value, text of hipGetErrorString.
#define HIPSYNTH_ERRORS(X)                                                                                             \
  X(hipSuccess, 0, "no error")                                                                                         \
  X(hipErrorInvalidValue, 1, "invalid argument")                                                                       \
  X(hipErrorOutOfMemory, 2, "out of memory")                                                                           \
  X(hipErrorNotInitialized, 3, "initialization error")                                                                 \
  X(hipErrorDeinitialized, 4, "driver shutting down")                                                                  \
  X(hipErrorProfilerDisabled, 5, "profiler disabled while using external profiling tool")                              \
  X(hipErrorProfilerNotInitialized, 6, "profiler is not initialized")                                                  \
  X(hipErrorProfilerAlreadyStarted, 7, "profiler already started")                                                     \
  X(hipErrorProfilerAlreadyStopped, 8, "profiler already stopped")                                                     \
  X(hipErrorInvalidConfiguration, 9, "invalid configuration argument")                                                 \
  X(hipErrorInvalidPitchValue, 12, "invalid pitch argument")                                                           \
  X(hipErrorInvalidSymbol, 13, "invalid device symbol")                                                                \
  X(hipErrorInvalidDevicePointer, 17, "invalid device pointer")                                                        \
  X(hipErrorInvalidMemcpyDirection, 21, "invalid copy direction for memcpy")                                           \
  X(hipErrorInsufficientDriver, 35, "driver version is insufficient for runtime version")                              \
  X(hipErrorMissingConfiguration, 52, "__global__ function call is not configured")                                    \
  X(hipErrorPriorLaunchFailure, 53, "unspecified launch failure in prior launch")                                      \
  X(hipErrorInvalidDeviceFunction, 98, "invalid device function")                                                      \
  X(hipErrorNoDevice, 100, "no ROCm-capable device is detected")                                                       \
  X(hipErrorInvalidDevice, 101, "invalid device ordinal")                                                              \
  X(hipErrorInvalidImage, 200, "device kernel image is invalid")                                                       \
  X(hipErrorInvalidContext, 201, "invalid device context")                                                             \
  X(hipErrorContextAlreadyCurrent, 202, "context is already current context")                                          \
  X(hipErrorMapFailed, 205, "mapping of buffer object failed")                                                         \
  X(hipErrorUnmapFailed, 206, "unmapping of buffer object failed")                                                     \
  X(hipErrorArrayIsMapped, 207, "array is mapped")                                                                     \
  X(hipErrorAlreadyMapped, 208, "resource already mapped")                                                             \
  X(hipErrorNoBinaryForGpu, 209, "no kernel image is available for execution on the device")                           \
  X(hipErrorAlreadyAcquired, 210, "resource already acquired")                                                         \
  X(hipErrorNotMapped, 211, "resource not mapped")                                                                     \
  X(hipErrorNotMappedAsArray, 212, "resource not mapped as array")                                                     \
  X(hipErrorNotMappedAsPointer, 213, "resource not mapped as pointer")                                                 \
  X(hipErrorECCNotCorrectable, 214, "uncorrectable ECC error encountered")                                             \
  X(hipErrorUnsupportedLimit, 215, "limit is not supported on this architecture")                                      \
  X(hipErrorContextAlreadyInUse, 216, "exclusive-thread device already in use by another thread")                      \
  X(hipErrorPeerAccessUnsupported, 217, "peer access is not supported between these two devices")                      \
  X(hipErrorInvalidKernelFile, 218, "invalid kernel file")                                                             \
  X(hipErrorInvalidGraphicsContext, 219, "invalid OpenGL or DirectX context")                                          \
  X(hipErrorInvalidSource, 300, "device kernel image is invalid")                                                      \
  X(hipErrorFileNotFound, 301, "file not found")                                                                       \
  X(hipErrorSharedObjectSymbolNotFound, 302, "shared object symbol not found")                                         \
  X(hipErrorSharedObjectInitFailed, 303, "shared object initialization failed")                                        \
  X(hipErrorOperatingSystem, 304, "OS call failed or operation not supported on this OS")                              \
  X(hipErrorInvalidHandle, 400, "invalid resource handle")                                                             \
  X(hipErrorIllegalState, 401, "the operation cannot be performed in the present state")                               \
  X(hipErrorNotFound, 500, "named symbol not found")                                                                   \
  X(hipErrorNotReady, 600, "device not ready")                                                                         \
  X(hipErrorIllegalAddress, 700, "an illegal memory access was encountered")                                           \
  X(hipErrorLaunchOutOfResources, 701, "too many resources requested for launch")                                      \
  X(hipErrorLaunchTimeOut, 702, "the launch timed out and was terminated")                                             \
  X(hipErrorPeerAccessAlreadyEnabled, 704, "peer access is already enabled")                                           \
  X(hipErrorPeerAccessNotEnabled, 705, "peer access has not been enabled")                                             \
  X(hipErrorSetOnActiveProcess, 708, "cannot set while device is active in this process")                              \
  X(hipErrorContextIsDestroyed, 709, "context is destroyed")                                                           \
  X(hipErrorAssert, 710, "device-side assert triggered")                                                               \
  X(hipErrorHostMemoryAlreadyRegistered, 712, "part or all of the requested memory range is already mapped")           \
  X(hipErrorHostMemoryNotRegistered, 713, "pointer does not correspond to a registered memory region")                 \
  X(hipErrorLaunchFailure, 719, "unspecified launch failure")                                                          \
  X(hipErrorCooperativeLaunchTooLarge, 720, "too many blocks in cooperative launch")                                   \
  X(hipErrorNotSupported, 801, "operation not supported")                                                              \
  X(hipErrorStreamCaptureUnsupported, 900, "operation not permitted when stream is capturing")                         \
  X(hipErrorStreamCaptureInvalidated, 901, "operation failed due to a previous error during capture")                  \
  X(hipErrorStreamCaptureMerge, 902, "operation would result in a merge of separate capture sequences")                \
  X(hipErrorStreamCaptureUnmatched, 903, "capture was not ended in the same stream as it began")                       \
  X(hipErrorStreamCaptureUnjoined, 904, "capturing stream has unjoined work")                                          \
  X(hipErrorStreamCaptureIsolation, 905, "dependency created on uncaptured work in another stream")                    \
  X(hipErrorStreamCaptureImplicit, 906,                                                                                \
    "operation would make the legacy stream depend on a capturing blocking stream")                                    \
  X(hipErrorCapturedEvent, 907, "operation not permitted on an event last recorded in a capturing stream")             \
  X(hipErrorStreamCaptureWrongThread, 908, "attempt to terminate a thread-local capture sequence from another thread") \
  X(hipErrorGraphExecUpdateFailure, 910, "the graph update was not performed because of constraint violations")        \
  X(hipErrorInvalidChannelDescriptor, 911, "invalid channel descriptor")                                               \
  X(hipErrorInvalidTexture, 912, "invalid texture")                                                                    \
  X(hipErrorUnknown, 999, "unknown error")                                                                             \
  X(hipErrorRuntimeMemory, 1052, "runtime memory call returned error")                                                 \
  X(hipErrorRuntimeOther, 1053, "runtime call other than memory returned error")

enum hipError_t : unsigned {
#define X(name, value, text) name = value,
  HIPSYNTH_ERRORS(X)
#undef X
};

enum hipMemcpyKind : unsigned {
  hipMemcpyHostToHost = 0,
  hipMemcpyHostToDevice = 1,
  hipMemcpyDeviceToHost = 2,
  hipMemcpyDeviceToDevice = 3,
  hipMemcpyDefault = 4,
  hipMemcpyDeviceToDeviceNoCU = 1024,
};

enum hipMemoryType : unsigned {
  hipMemoryTypeUnregistered = 0,
  hipMemoryTypeHost = 1,
  hipMemoryTypeDevice = 2,
  hipMemoryTypeManaged = 3,
  hipMemoryTypeArray = 10,
  hipMemoryTypeUnified = 11,
};

struct dim3 {
  uint32_t x, y, z;
};

// Handles point to these opaque types; their members are internal to this library.
struct ihipStream_t;
struct ihipEvent_t;
struct ihipModule_t;
struct ihipModuleSymbol_t;
struct ihipGraph;
struct hipGraphExec;
struct hipGraphNode;
struct ihipMemPoolHandle_t;
struct ihipCtx_t;
struct hipArray;
using hipStream_t = ihipStream_t*;
using hipEvent_t = ihipEvent_t*;
using hipModule_t = ihipModule_t*;
using hipFunction_t = ihipModuleSymbol_t*;
using hipGraph_t = ihipGraph*;
using hipGraphExec_t = hipGraphExec*;
using hipGraphNode_t = hipGraphNode*;
using hipMemPool_t = ihipMemPoolHandle_t*;
using hipCtx_t = ihipCtx_t*;
using hipArray_t = hipArray*;
using hipDevice_t = int;
using hipDeviceptr_t = void*;
using hipHostFn_t = void (*)(void*);
using hipStreamCallback_t = void (*)(hipStream_t, hipError_t, void*);

enum hipChannelFormatKind : unsigned {
  hipChannelFormatKindSigned = 0,
  hipChannelFormatKindUnsigned = 1,
  hipChannelFormatKindFloat = 2,
  hipChannelFormatKindNone = 3,
};
struct hipChannelFormatDesc {
  int x, y, z, w;  // bits of each channel
  hipChannelFormatKind f;
};
struct HIP_ARRAY_DESCRIPTOR {
  size_t Width, Height;
  unsigned Format, NumChannels;
};
struct HIP_ARRAY3D_DESCRIPTOR {
  size_t Width, Height, Depth;
  unsigned Format, NumChannels, Flags;
};
struct hipPos {
  size_t x, y, z;
};
struct hipExtent {
  size_t width, height, depth;
};
struct hipPitchedPtr {
  void* ptr;
  size_t pitch, xsize, ysize;
};
struct hipMemcpy3DParms {
  hipArray_t srcArray;
  hipPos srcPos;
  hipPitchedPtr srcPtr;
  hipArray_t dstArray;
  hipPos dstPos;
  hipPitchedPtr dstPtr;
  hipExtent extent;
  hipMemcpyKind kind;
};
struct hip_Memcpy2D {
  size_t srcXInBytes, srcY;
  hipMemoryType srcMemoryType;
  const void* srcHost;
  hipDeviceptr_t srcDevice;
  hipArray_t srcArray;
  size_t srcPitch;
  size_t dstXInBytes, dstY;
  hipMemoryType dstMemoryType;
  void* dstHost;
  hipDeviceptr_t dstDevice;
  hipArray_t dstArray;
  size_t dstPitch;
  size_t WidthInBytes, Height;
};
struct hipResourceDesc {
  int resType;  // 0 array, 1 mipmapped array, 2 linear, 3 pitched
  union {
    hipArray_t array;
    struct {
      void* devPtr;
      hipChannelFormatDesc desc;
      size_t sizeInBytes;
    } linear;
    struct {
      void* devPtr;
      hipChannelFormatDesc desc;
      size_t width, height, pitchInBytes;
    } pitch2D;
  } res;
};
struct hipTextureDesc {
  int addressMode[3], filterMode, readMode, sRGB;
  float borderColor[4];
  int normalizedCoords;
  unsigned maxAnisotropy;
  int mipmapFilterMode;
  float mipmapLevelBias, minMipmapLevelClamp, maxMipmapLevelClamp;
};
struct HIP_MEMCPY3D {
  size_t srcXInBytes, srcY, srcZ, srcLOD;
  hipMemoryType srcMemoryType;
  const void* srcHost;
  hipDeviceptr_t srcDevice;
  hipArray_t srcArray;
  size_t srcPitch, srcHeight;
  size_t dstXInBytes, dstY, dstZ, dstLOD;
  hipMemoryType dstMemoryType;
  void* dstHost;
  hipDeviceptr_t dstDevice;
  hipArray_t dstArray;
  size_t dstPitch, dstHeight;
  size_t WidthInBytes, Height, Depth;
};
struct hipPointerAttribute_t {
  hipMemoryType type;
  int device;
  void* devicePointer;
  void* hostPointer;
  int isManaged;
  unsigned allocationFlags;
};
struct hipFuncAttributes {
  int binaryVersion, cacheModeCA;
  size_t constSizeBytes, localSizeBytes;
  int maxDynamicSharedSizeBytes, maxThreadsPerBlock, numRegs, preferredShmemCarveout, ptxVersion;
  size_t sharedSizeBytes;
};
struct hipLaunchAttribute {
  int id;
  char pad[4];
  char value[64];
};
struct hipLaunchConfig_t {
  dim3 gridDim, blockDim;
  size_t dynamicSmemBytes;
  hipStream_t stream;
  hipLaunchAttribute* attrs;
  unsigned numAttrs;
};
struct HIP_LAUNCH_CONFIG {
  unsigned gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
  hipStream_t hStream;
  hipLaunchAttribute* attrs;
  unsigned numAttrs;
};
struct hipLaunchParams {
  void* func;
  dim3 gridDim, blockDim;
  void** args;
  size_t sharedMem;
  hipStream_t stream;
};
struct hipKernelNodeParams {
  dim3 blockDim;
  void** extra;
  void* func;
  dim3 gridDim;
  void** kernelParams;
  unsigned sharedMemBytes;
};
struct hipMemsetParams {
  void* dst;
  unsigned elementSize;
  size_t height, pitch;
  unsigned value;
  size_t width;
};
struct hipHostNodeParams {
  hipHostFn_t fn;
  void* userData;
};
struct hipMemLocation {
  int type, id;
};
struct hipMemAllocationProp {
  int type, requestedHandleTypes;
  hipMemLocation location;
  void* win32HandleMetaData;
  struct {
    unsigned char compressionType, gpuDirectRDMACapable;
    unsigned short usage;
  } allocFlags;
};
struct hipMemAccessDesc {
  hipMemLocation location;
  int flags;
};
struct hipMemPoolProps {
  int allocType, handleTypes;
  hipMemLocation location;
  void* win32SecurityAttributes;
  size_t maxSize;
  unsigned char reserved[56];
};
struct hipMemAllocNodeParams {
  hipMemPoolProps poolProps;
  const hipMemAccessDesc* accessDescs;
  size_t accessDescCount, bytesize;
  void* dptr;
};
struct hipUUID {
  char bytes[16];
};

struct hipDeviceProp_tR0600 {
  char name[256];
  hipUUID uuid;
  char luid[8];
  unsigned luidDeviceNodeMask;
  size_t totalGlobalMem, sharedMemPerBlock;
  int regsPerBlock, warpSize;
  size_t memPitch;
  int maxThreadsPerBlock, maxThreadsDim[3], maxGridSize[3], clockRate;
  size_t totalConstMem;
  int major, minor;
  size_t textureAlignment, texturePitchAlignment;
  int deviceOverlap, multiProcessorCount, kernelExecTimeoutEnabled, integrated, canMapHostMemory, computeMode;
  int maxTexture1D, maxTexture1DMipmap, maxTexture1DLinear, maxTexture2D[2], maxTexture2DMipmap[2];
  int maxTexture2DLinear[3], maxTexture2DGather[2], maxTexture3D[3], maxTexture3DAlt[3], maxTextureCubemap;
  int maxTexture1DLayered[2], maxTexture2DLayered[3], maxTextureCubemapLayered[2];
  int maxSurface1D, maxSurface2D[2], maxSurface3D[3], maxSurface1DLayered[2], maxSurface2DLayered[3];
  int maxSurfaceCubemap, maxSurfaceCubemapLayered[2];
  size_t surfaceAlignment;
  int concurrentKernels, ECCEnabled, pciBusID, pciDeviceID, pciDomainID, tccDriver, asyncEngineCount;
  int unifiedAddressing, memoryClockRate, memoryBusWidth, l2CacheSize, persistingL2CacheMaxSize;
  int maxThreadsPerMultiProcessor, streamPrioritiesSupported, globalL1CacheSupported, localL1CacheSupported;
  size_t sharedMemPerMultiprocessor;
  int regsPerMultiprocessor, managedMemory, isMultiGpuBoard, multiGpuBoardGroupID, hostNativeAtomicSupported;
  int singleToDoublePrecisionPerfRatio, pageableMemoryAccess, concurrentManagedAccess, computePreemptionSupported;
  int canUseHostPointerForRegisteredMem, cooperativeLaunch, cooperativeMultiDeviceLaunch;
  size_t sharedMemPerBlockOptin;
  int pageableMemoryAccessUsesHostPageTables, directManagedMemAccessFromHost, maxBlocksPerMultiProcessor;
  int accessPolicyMaxWindowSize;
  size_t reservedSharedMemPerBlock;
  int hostRegisterSupported, sparseHipArraySupported, hostRegisterReadOnlySupported;
  int timelineSemaphoreInteropSupported, memoryPoolsSupported, gpuDirectRDMASupported;
  unsigned gpuDirectRDMAFlushWritesOptions;
  int gpuDirectRDMAWritesOrdering;
  unsigned memoryPoolSupportedHandleTypes;
  int deferredMappingHipArraySupported, ipcEventSupported, clusterLaunch, unifiedFunctionPointers;
  int reserved[63], hipReserved[32];
  char gcnArchName[256];
  size_t maxSharedMemoryPerMultiProcessor;
  int clockInstructionRate;
  unsigned arch;  // feature bits, one per hipDeviceArch_t field in order
  unsigned* hdpMemFlushCntl;
  unsigned* hdpRegFlushCntl;
  int cooperativeMultiDeviceUnmatchedFunc, cooperativeMultiDeviceUnmatchedGridDim;
  int cooperativeMultiDeviceUnmatchedBlockDim, cooperativeMultiDeviceUnmatchedSharedMem, isLargeBar, asicRevision;
};
static_assert(sizeof(hipDeviceProp_tR0600) == 1472, "R0600 properties are 1472 bytes");

inline constexpr unsigned kEventDisableTiming = 2;
inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr uintptr_t kStreamLegacy = 1, kStreamPerThread = 2;
inline void* const kLaunchParamPointer = reinterpret_cast<void*>(1);
inline void* const kLaunchParamSize = reinterpret_cast<void*>(2);
inline void* const kLaunchParamEnd = reinterpret_cast<void*>(3);
