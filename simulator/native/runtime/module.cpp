// The module API: code objects loaded at run time, with kernels and variables looked up by name.
#include <cstdio>
#include <cstring>

#include "offload_image.h"
#include "runtime.h"

using namespace hipsynth::runtime;

namespace {

hipError_t load_module(Runtime& rt, hipModule_t* out, const std::vector<uint8_t>& image) {
  std::vector<uint8_t> elf = extract_elf(image, rt.config.arch_name);
  if (elf.empty()) return is_bundle(image) ? hipErrorNoBinaryForGpu : hipErrorInvalidImage;
  auto handle = std::make_unique<ihipModule_t>();
  try {
    std::string text = disassemble(rt.config.objdump, elf);
    handle->module = hipsynth::Module::load(rt.config.arch, rt.memory(), elf, text);
    rt.recorder.loaded(*handle->module, elf, std::move(text));
    handle->elf = std::move(elf);
  } catch (const hipsynth::SimError& error) {
    if (error.reason != hipsynth::Reason::bad_code_object) throw;
    std::fprintf(stderr, "hipsynth: cannot load module: %s\n", error.what());
    return hipErrorInvalidImage;
  }
  *out = handle.release();
  rt.modules.insert(*out);
  return hipSuccess;
}

hipError_t load_data(hipModule_t* out, const void* image) {
  return call([&](Runtime& rt) -> hipError_t {
    if (out == nullptr || image == nullptr) return hipErrorInvalidValue;
    const auto* bytes = static_cast<const uint8_t*>(image);
    size_t size = image_size(image);
    return size == 0 ? hipErrorInvalidImage : load_module(rt, out, {bytes, bytes + size});
  });
}

hipError_t launch_function(hipFunction_t f, dim3 grid, dim3 block, size_t lds, hipStream_t stream, void** params,
                           void** extra, bool cooperative = false) {
  return call([&](Runtime& rt) -> hipError_t {
    if (f == nullptr) return hipErrorInvalidImage;
    LaunchRequest request{f, grid, block, lds, {}, cooperative, f};
    if (params != nullptr) {
      request.args = pack_arguments(*f->info, params);
    } else if (extra != nullptr) {
      if (!pack_extra(extra, request.args)) return hipErrorInvalidValue;
    } else if (explicit_bytes(*f->info) > 0) {
      return hipErrorInvalidValue;
    }
    hipError_t fits = cooperative ? check_cooperative(rt, request) : hipSuccess;
    return fits == hipSuccess ? launch(rt, request, stream) : fits;
  });
}

// The LDS of a CU that is left for a work-group's dynamic allocation, in bytes.
int lds_left(Runtime& rt, const ihipModuleSymbol_t& kernel) {
  return static_cast<int>(rt.spec().lds.bytes_per_cu) - static_cast<int>(kernel.info->lds_bytes);
}

hipFuncAttributes attributes_of(Runtime& rt, const ihipModuleSymbol_t& kernel) {
  const hipsynth::KernelInfo& k = *kernel.info;
  hipFuncAttributes a{};
  const int version = 90 + static_cast<int>(traits(rt.config.arch).isa_minor);
  a.binaryVersion = a.ptxVersion = version;
  a.localSizeBytes = k.scratch_bytes;
  a.sharedSizeBytes = k.lds_bytes;
  a.maxDynamicSharedSizeBytes = kernel.max_dynamic_lds >= 0 ? kernel.max_dynamic_lds : lds_left(rt, kernel);
  a.preferredShmemCarveout = kernel.carveout;
  a.maxThreadsPerBlock = static_cast<int>(k.max_flat_workgroup);
  a.numRegs = static_cast<int>(k.vgprs);
  return a;
}

}  // namespace

HIPSYNTH_EXPORT hipError_t hipModuleLoad(hipModule_t* out, const char* path) {
  return call([&](Runtime& rt) -> hipError_t {
    if (out == nullptr || path == nullptr) return hipErrorInvalidValue;
    std::string bytes;
    try {
      bytes = read_file(path);
    } catch (const std::exception&) {
      rt.tell(Notice::missing_code_object, path, std::string("no such code object: ") + path);
      return hipErrorFileNotFound;
    }
    return load_module(rt, out, {bytes.begin(), bytes.end()});
  });
}
HIPSYNTH_EXPORT hipError_t hipModuleLoadData(hipModule_t* out, const void* image) { return load_data(out, image); }
HIPSYNTH_EXPORT hipError_t hipModuleLoadDataEx(hipModule_t* out, const void* image, unsigned, int*, void**) {
  return load_data(out, image);
}
HIPSYNTH_EXPORT hipError_t hipModuleLoadFatBinary(hipModule_t* out, const void* image) { return load_data(out, image); }

HIPSYNTH_EXPORT hipError_t hipModuleUnload(hipModule_t module) {
  return call([&](Runtime& rt) -> hipError_t {
    rt.complete_all();
    if (rt.modules.erase(module) == 0) return hipErrorInvalidHandle;
    rt.unload(module);
    return hipSuccess;
  });
}

HIPSYNTH_EXPORT hipError_t hipModuleGetFunction(hipFunction_t* out, hipModule_t module, const char* name) {
  return call([&](Runtime& rt) -> hipError_t {
    if (out == nullptr || name == nullptr) return hipErrorInvalidValue;
    if (!rt.modules.contains(module)) return hipErrorInvalidHandle;
    const hipsynth::KernelInfo* info = module->module->kernel(name);
    if (info == nullptr) return hipErrorNotFound;
    ihipModuleSymbol_t*& slot = module->functions[name];
    if (slot == nullptr) slot = new ihipModuleSymbol_t{module->module.get(), info, &module->elf, ""};
    *out = slot;
    return hipSuccess;
  });
}

HIPSYNTH_EXPORT hipError_t hipModuleGetFunctionCount(unsigned* count, hipModule_t module) {
  return call([&](Runtime& rt) -> hipError_t {
    if (count == nullptr) return hipErrorInvalidValue;
    if (!rt.modules.contains(module)) return hipErrorInvalidHandle;
    *count = static_cast<unsigned>(module->module->kernels().size());
    return hipSuccess;
  });
}

HIPSYNTH_EXPORT hipError_t hipModuleGetGlobal(void** address, size_t* bytes, hipModule_t module, const char* name) {
  return call([&](Runtime& rt) -> hipError_t {
    if (name == nullptr) return hipErrorInvalidValue;
    if (!rt.modules.contains(module)) return hipErrorInvalidHandle;
    auto [start, size] = module->module->global(name);
    if (start == 0) return hipErrorNotFound;
    if (address != nullptr) *address = reinterpret_cast<void*>(start);
    if (bytes != nullptr) *bytes = size;
    return hipSuccess;
  });
}

HIPSYNTH_EXPORT hipError_t hipModuleLaunchKernel(hipFunction_t f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                                                 unsigned by, unsigned bz, unsigned lds, hipStream_t stream,
                                                 void** params, void** extra) {
  return launch_function(f, {gx, gy, gz}, {bx, by, bz}, lds, stream, params, extra);
}
HIPSYNTH_EXPORT hipError_t hipModuleLaunchCooperativeKernel(hipFunction_t f, unsigned gx, unsigned gy, unsigned gz,
                                                            unsigned bx, unsigned by, unsigned bz, unsigned lds,
                                                            hipStream_t stream, void** params) {
  return launch_function(f, {gx, gy, gz}, {bx, by, bz}, lds, stream, params, nullptr, true);
}
HIPSYNTH_EXPORT hipError_t hipDrvLaunchKernelEx(const HIP_LAUNCH_CONFIG* c, hipFunction_t f, void** params,
                                                void** extra) {
  if (c == nullptr || (c->numAttrs > 0 && c->attrs == nullptr)) return finish(hipErrorInvalidValue);
  return launch_function(f, {c->gridDimX, c->gridDimY, c->gridDimZ}, {c->blockDimX, c->blockDimY, c->blockDimZ},
                         c->sharedMemBytes, c->hStream, params, extra, asks_cooperative(c->attrs, c->numAttrs));
}

HIPSYNTH_EXPORT hipError_t hipEventRecord(hipEvent_t event, hipStream_t stream);

// Declared in hip_ext.h with C++ linkage; the grid is given in work-items.
__attribute__((visibility("default"))) hipError_t hipExtModuleLaunchKernel(hipFunction_t f, uint32_t gx, uint32_t gy,
                                                                           uint32_t gz, uint32_t bx, uint32_t by,
                                                                           uint32_t bz, size_t lds, hipStream_t stream,
                                                                           void** params, void** extra,
                                                                           hipEvent_t start, hipEvent_t end, uint32_t) {
  if (bx == 0 || by == 0 || bz == 0) return finish(hipErrorInvalidConfiguration);
  if (gx % bx != 0 || gy % by != 0 || gz % bz != 0) return not_supported("a launch with a partial last work-group");
  if (start != nullptr) hipEventRecord(start, stream);
  hipError_t error = launch_function(f, {gx / bx, gy / by, gz / bz}, {bx, by, bz}, lds, stream, params, extra);
  if (end != nullptr) hipEventRecord(end, stream);
  return error;
}

// The older name of the same function, from hip_hcc.h.
__attribute__((visibility("default"))) hipError_t hipHccModuleLaunchKernel(hipFunction_t f, uint32_t gx, uint32_t gy,
                                                                           uint32_t gz, uint32_t bx, uint32_t by,
                                                                           uint32_t bz, size_t lds, hipStream_t stream,
                                                                           void** params, void** extra,
                                                                           hipEvent_t start, hipEvent_t end) {
  return hipExtModuleLaunchKernel(f, gx, gy, gz, bx, by, bz, lds, stream, params, extra, start, end, 0);
}

HIPSYNTH_EXPORT hipError_t hipFuncGetAttributes(hipFuncAttributes* out, const void* stub) {
  return call([&](Runtime& rt) -> hipError_t {
    if (out == nullptr) return hipErrorInvalidValue;
    ihipModuleSymbol_t* kernel = rt.kernel(stub);
    if (kernel == nullptr) return hipErrorInvalidDeviceFunction;
    *out = attributes_of(rt, *kernel);
    return hipSuccess;
  });
}
HIPSYNTH_EXPORT hipError_t hipFuncGetAttribute(int* out, int attribute, hipFunction_t f) {
  return call([&](Runtime& rt) -> hipError_t {
    if (out == nullptr) return hipErrorInvalidValue;
    if (f == nullptr) return hipErrorInvalidHandle;
    hipFuncAttributes a = attributes_of(rt, *f);
    const int values[] = {a.maxThreadsPerBlock,
                          static_cast<int>(a.sharedSizeBytes),
                          0,
                          static_cast<int>(a.localSizeBytes),
                          a.numRegs,
                          a.ptxVersion,
                          a.binaryVersion,
                          a.cacheModeCA,
                          a.maxDynamicSharedSizeBytes,
                          a.preferredShmemCarveout};
    if (attribute < 0 || attribute >= static_cast<int>(std::size(values))) return hipErrorInvalidValue;
    *out = values[attribute];
    return hipSuccess;
  });
}
// Neither changes what a launch may use: every launch may have all LDS that is left.
HIPSYNTH_EXPORT hipError_t hipFuncSetAttribute(const void* stub, int attribute, int value) {
  constexpr int kMaxDynamicLds = 8, kCarveout = 9;
  return call([&](Runtime& rt) -> hipError_t {
    ihipModuleSymbol_t* kernel = rt.kernel(stub);
    if (kernel == nullptr) return hipErrorInvalidDeviceFunction;
    if (attribute == kMaxDynamicLds && value >= 0 && value <= lds_left(rt, *kernel)) {
      kernel->max_dynamic_lds = value;
    } else if (attribute == kCarveout && value >= -1 && value <= 100) {
      kernel->carveout = value;
    } else {
      return hipErrorInvalidValue;
    }
    return hipSuccess;
  });
}
// Cache and bank hints have no effect on AMD devices, but invalid values are errors.
HIPSYNTH_EXPORT hipError_t hipFuncSetCacheConfig(const void* stub, int hint) {
  constexpr int kPreferEqual = 3;
  return call([&](Runtime&) -> hipError_t {
    if (stub == nullptr) return hipErrorInvalidDeviceFunction;
    return hint < 0 || hint > kPreferEqual ? hipErrorInvalidValue : hipSuccess;
  });
}
HIPSYNTH_EXPORT hipError_t hipFuncSetSharedMemConfig(const void* stub, int hint) {
  constexpr int kEightBytes = 2;
  return call([&](Runtime&) -> hipError_t {
    if (stub == nullptr) return hipErrorInvalidDeviceFunction;
    return hint < 0 || hint > kEightBytes ? hipErrorInvalidValue : hipSuccess;
  });
}
HIPSYNTH_EXPORT hipError_t hipGetFuncBySymbol(hipFunction_t* out, const void* stub) {
  return call([&](Runtime& rt) -> hipError_t {
    if (out == nullptr) return hipErrorInvalidValue;
    *out = rt.kernel(stub);
    return *out == nullptr ? hipErrorInvalidDeviceFunction : hipSuccess;
  });
}
HIPSYNTH_EXPORT const char* hipKernelNameRef(hipFunction_t f) {
  return f == nullptr ? nullptr : f->info->symbol.c_str();
}
HIPSYNTH_EXPORT const char* hipKernelNameRefByPtr(const void* stub, hipStream_t) {
  Runtime& rt = Runtime::get();
  const std::lock_guard<std::recursive_mutex> lock(rt.mutex);
  auto name = rt.functions.find(stub);
  return name == rt.functions.end() ? nullptr : name->second.name.c_str();
}
