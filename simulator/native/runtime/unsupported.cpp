// All other functions declared in HIP headers: programs that use one link, and get an error message when they call it.
// They are texture references, inter-process handles, graphics and external interop, and further graph editing.
#include "runtime.h"

// Arguments are ignored, which the x86-64 calling convention allows for any signature.
// clang-format off
#define HIPSYNTH_UNSUPPORTED(X) \
  X(hipBindTexture) \
  X(hipBindTexture2D) \
  X(hipBindTextureToArray) \
  X(hipBindTextureToMipmappedArray) \
  X(hipCtxDisablePeerAccess) \
  X(hipCtxEnablePeerAccess) \
  X(hipCtxGetCacheConfig) \
  X(hipCtxGetSharedMemConfig) \
  X(hipCtxSetCacheConfig) \
  X(hipCtxSetSharedMemConfig) \
  X(hipDestroyExternalMemory) \
  X(hipDestroyExternalSemaphore) \
  X(hipDeviceGetGraphMemAttribute) \
  X(hipDeviceGetTexture1DLinearMaxWidth) \
  X(hipDeviceGraphMemTrim) \
  X(hipDeviceSetGraphMemAttribute) \
  X(hipDrvGraphAddMemFreeNode) \
  X(hipDrvGraphAddMemcpyNode) \
  X(hipDrvGraphAddMemsetNode) \
  X(hipDrvGraphExecMemcpyNodeSetParams) \
  X(hipDrvGraphExecMemsetNodeSetParams) \
  X(hipDrvGraphMemcpyNodeGetParams) \
  X(hipDrvGraphMemcpyNodeSetParams) \
  X(hipExtGetLinkTypeAndHopCount) \
  X(hipExtLaunchMultiKernelMultiDevice) \
  X(hipExternalMemoryGetMappedBuffer) \
  X(hipExternalMemoryGetMappedMipmappedArray) \
  X(hipFreeMipmappedArray) \
  X(hipGetDriverEntryPoint) \
  X(hipGetDriverEntryPoint_spt) \
  X(hipGetMipmappedArrayLevel) \
  X(hipGetTextureAlignmentOffset) \
  X(hipGetTextureObjectResourceViewDesc) \
  X(hipGetTextureReference) \
  X(hipGraphAddBatchMemOpNode) \
  X(hipGraphAddExternalSemaphoresSignalNode) \
  X(hipGraphAddExternalSemaphoresWaitNode) \
  X(hipGraphAddNode) \
  X(hipGraphBatchMemOpNodeGetParams) \
  X(hipGraphBatchMemOpNodeSetParams) \
  X(hipGraphChildGraphNodeGetGraph) \
  X(hipGraphEventRecordNodeGetEvent) \
  X(hipGraphEventRecordNodeSetEvent) \
  X(hipGraphEventWaitNodeGetEvent) \
  X(hipGraphEventWaitNodeSetEvent) \
  X(hipGraphExecBatchMemOpNodeSetParams) \
  X(hipGraphExecChildGraphNodeSetParams) \
  X(hipGraphExecEventRecordNodeSetEvent) \
  X(hipGraphExecEventWaitNodeSetEvent) \
  X(hipGraphExecExternalSemaphoresSignalNodeSetParams) \
  X(hipGraphExecExternalSemaphoresWaitNodeSetParams) \
  X(hipGraphExecGetFlags) \
  X(hipGraphExecMemcpyNodeSetParams) \
  X(hipGraphExecMemcpyNodeSetParamsFromSymbol) \
  X(hipGraphExecMemcpyNodeSetParamsToSymbol) \
  X(hipGraphExecNodeSetParams) \
  X(hipGraphExternalSemaphoresSignalNodeGetParams) \
  X(hipGraphExternalSemaphoresSignalNodeSetParams) \
  X(hipGraphExternalSemaphoresWaitNodeGetParams) \
  X(hipGraphExternalSemaphoresWaitNodeSetParams) \
  X(hipGraphHostNodeGetParams) \
  X(hipGraphKernelNodeCopyAttributes) \
  X(hipGraphKernelNodeGetAttribute) \
  X(hipGraphKernelNodeSetAttribute) \
  X(hipGraphMemAllocNodeGetParams) \
  X(hipGraphMemFreeNodeGetParams) \
  X(hipGraphMemcpyNodeGetParams) \
  X(hipGraphMemcpyNodeSetParams) \
  X(hipGraphMemcpyNodeSetParamsFromSymbol) \
  X(hipGraphMemcpyNodeSetParamsToSymbol) \
  X(hipGraphMemsetNodeGetParams) \
  X(hipGraphNodeFindInClone) \
  X(hipGraphNodeSetParams) \
  X(hipGraphReleaseUserObject) \
  X(hipGraphRetainUserObject) \
  X(hipGraphicsMapResources) \
  X(hipGraphicsResourceGetMappedPointer) \
  X(hipGraphicsSubResourceGetMappedArray) \
  X(hipGraphicsUnmapResources) \
  X(hipGraphicsUnregisterResource) \
  X(hipImportExternalMemory) \
  X(hipImportExternalSemaphore) \
  X(hipIpcCloseMemHandle) \
  X(hipIpcGetEventHandle) \
  X(hipIpcGetMemHandle) \
  X(hipIpcOpenEventHandle) \
  X(hipIpcOpenMemHandle) \
  X(hipLibraryGetKernel) \
  X(hipLibraryGetKernelCount) \
  X(hipLibraryLoadData) \
  X(hipLibraryLoadFromFile) \
  X(hipLibraryUnload) \
  X(hipLinkAddData) \
  X(hipLinkAddFile) \
  X(hipLinkComplete) \
  X(hipLinkCreate) \
  X(hipLinkDestroy) \
  X(hipMallocMipmappedArray) \
  X(hipMemExportToShareableHandle) \
  X(hipMemGetHandleForAddressRange) \
  X(hipMemImportFromShareableHandle) \
  X(hipMemMapArrayAsync) \
  X(hipMemPoolExportPointer) \
  X(hipMemPoolExportToShareableHandle) \
  X(hipMemPoolImportFromShareableHandle) \
  X(hipMemPoolImportPointer) \
  X(hipMemcpy3DBatchAsync) \
  X(hipMemcpy3DPeer) \
  X(hipMemcpy3DPeerAsync) \
  X(hipMemcpyBatchAsync) \
  X(hipMipmappedArrayCreate) \
  X(hipMipmappedArrayDestroy) \
  X(hipMipmappedArrayGetLevel) \
  X(hipModuleGetTexRef) \
  X(hipModuleLaunchCooperativeKernelMultiDevice) \
  X(hipSignalExternalSemaphoresAsync) \
  X(hipStreamBatchMemOp) \
  X(hipStreamBeginCaptureToGraph) \
  X(hipStreamGetAttribute) \
  X(hipStreamGetCaptureInfo_v2) \
  X(hipStreamGetCaptureInfo_v2_spt) \
  X(hipStreamSetAttribute) \
  X(hipStreamUpdateCaptureDependencies) \
  X(hipTexObjectCreate) \
  X(hipTexObjectDestroy) \
  X(hipTexObjectGetResourceDesc) \
  X(hipTexObjectGetResourceViewDesc) \
  X(hipTexObjectGetTextureDesc) \
  X(hipTexRefGetAddress) \
  X(hipTexRefGetAddressMode) \
  X(hipTexRefGetArray) \
  X(hipTexRefGetBorderColor) \
  X(hipTexRefGetFilterMode) \
  X(hipTexRefGetFlags) \
  X(hipTexRefGetFormat) \
  X(hipTexRefGetMaxAnisotropy) \
  X(hipTexRefGetMipMappedArray) \
  X(hipTexRefGetMipmapFilterMode) \
  X(hipTexRefGetMipmapLevelBias) \
  X(hipTexRefGetMipmapLevelClamp) \
  X(hipTexRefSetAddress) \
  X(hipTexRefSetAddress2D) \
  X(hipTexRefSetAddressMode) \
  X(hipTexRefSetArray) \
  X(hipTexRefSetBorderColor) \
  X(hipTexRefSetFilterMode) \
  X(hipTexRefSetFlags) \
  X(hipTexRefSetFormat) \
  X(hipTexRefSetMaxAnisotropy) \
  X(hipTexRefSetMipmapFilterMode) \
  X(hipTexRefSetMipmapLevelBias) \
  X(hipTexRefSetMipmapLevelClamp) \
  X(hipTexRefSetMipmappedArray) \
  X(hipUnbindTexture) \
  X(hipUserObjectCreate) \
  X(hipUserObjectRelease) \
  X(hipUserObjectRetain) \
  X(hipWaitExternalSemaphoresAsync)
// clang-format on

#define X(name) \
  HIPSYNTH_EXPORT hipError_t name() { return hipsynth::runtime::not_supported(#name); }
HIPSYNTH_UNSUPPORTED(X)
#undef X

// The names above, separated by spaces, for tools that report API coverage.
HIPSYNTH_EXPORT const char* hipsynthUnsupportedCalls() {
#define X(name) #name " "
  return HIPSYNTH_UNSUPPORTED(X) "";
#undef X
}
