// Registration calls that clang emits into every HIP host object; they run before any constructor of the program.
#include <cstdlib>
#include <cstring>

#include "runtime.h"

using namespace hipsynth::runtime;

namespace {

// Launch configurations pushed by <<<>>>, popped by the kernel's host stub.
std::vector<CallConfiguration>& configurations() {
  thread_local std::vector<CallConfiguration> stack;
  return stack;
}

// The memory of a __managed__ object; plain host memory when there is no device to simulate.
void* managed_storage(Runtime& rt, size_t size) {
  if (rt.device) return rt.memory().allocate(size, hipsynth::Memory::Kind::managed);
  return std::calloc(1, size);
}

}  // namespace

// Host objects refer to the embedded device code by this name; ours lies in a file named by the configuration.
HIPSYNTH_EXPORT const char __hip_fatbin[8] = {};

HIPSYNTH_EXPORT void** __hipRegisterFatBinary(const void*) {
  static void* handle = nullptr;
  Runtime::get();
  return &handle;
}

HIPSYNTH_EXPORT void __hipUnregisterFatBinary(void**) {}

HIPSYNTH_EXPORT void __hipRegisterFunction(void**, const void* stub, char*, const char* name, unsigned, void*, void*,
                                           void*, void*, int*) {
  Runtime& rt = Runtime::get();
  std::lock_guard<std::recursive_mutex> lock(rt.mutex);
  rt.functions[stub] = name;
}

HIPSYNTH_EXPORT void __hipRegisterVar(void**, void* shadow, char*, char* name, int, size_t size, int, int) {
  Runtime& rt = Runtime::get();
  std::lock_guard<std::recursive_mutex> lock(rt.mutex);
  rt.variables[shadow] = Variable{name, size, nullptr, nullptr};
}

HIPSYNTH_EXPORT void __hipRegisterManagedVar(void*, void** pointer, void* initial, const char* name, size_t size,
                                             unsigned) {
  Runtime& rt = Runtime::get();
  std::lock_guard<std::recursive_mutex> lock(rt.mutex);
  void* storage = managed_storage(rt, size);
  std::memcpy(storage, initial, size);
  *pointer = storage;
  rt.variables[pointer] = Variable{name, size, pointer, storage};
}

HIPSYNTH_EXPORT void __hipRegisterTexture(void**, void*, char*, char*, int, int, int) {
  not_supported("a texture reference");
}

HIPSYNTH_EXPORT void __hipRegisterSurface(void**, void*, char*, char*, int, int) {
  not_supported("a surface reference");
}

HIPSYNTH_EXPORT hipError_t __hipPushCallConfiguration(dim3 grid, dim3 block, size_t lds, hipStream_t stream) {
  configurations().push_back({grid, block, lds, stream});
  return hipSuccess;
}

HIPSYNTH_EXPORT hipError_t __hipPopCallConfiguration(dim3* grid, dim3* block, size_t* lds, hipStream_t* stream) {
  auto& stack = configurations();
  if (stack.empty()) return finish(hipErrorMissingConfiguration);
  *grid = stack.back().grid;
  *block = stack.back().block;
  *lds = stack.back().lds;
  *stream = stack.back().stream;
  stack.pop_back();
  return hipSuccess;
}
