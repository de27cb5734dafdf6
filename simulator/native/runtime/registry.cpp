// Registration functions that clang calls from every HIP host object, before any constructor of the program.
#include <cstdlib>
#include <cstring>

#include "runtime.h"

using namespace hipsynth::runtime;

HIPSYNTH_EXPORT const char __hip_fatbin[8];

namespace {

// Launch configurations pushed by <<<>>>, popped by the kernel's host stub.
std::vector<CallConfiguration>& configurations() {
  thread_local std::vector<CallConfiguration> stack;
  return stack;
}

// Allocates the memory of a __managed__ object; plain host memory if there is no simulated device.
void* managed_storage(Runtime& rt, size_t size) {
  if (rt.device) return rt.memory().allocate(size, hipsynth::Memory::Kind::managed);
  return std::calloc(1, size);
}

// Argument of __hipRegisterFatBinary, as laid out by clang.
struct FatBinaryWrapper {
  uint32_t magic, version;
  const char* binary;
  void* unused;
};

struct ObjectFile {
  size_t code_object = 0;
  std::string suffix;
};

// In programs of several files, the host object contains, in place of the embedded code object, its number and the
// suffix of the file's internal kernels.
constexpr char kNumberMagic[] = "hipsynth-code-object ";

ObjectFile object_file(const FatBinaryWrapper* wrapper) {
  if (wrapper == nullptr || wrapper->binary == nullptr || wrapper->binary == __hip_fatbin) return {};
  if (std::strncmp(wrapper->binary, kNumberMagic, sizeof kNumberMagic - 1) != 0) return {};
  char* end = nullptr;
  const size_t number = std::strtoul(wrapper->binary + sizeof kNumberMagic - 1, &end, 10);
  return {number, *end == ' ' ? end + 1 : end};
}

std::vector<ObjectFile>& object_files() {
  static std::vector<ObjectFile> files;
  return files;
}

const ObjectFile& file_of(void** handle) { return object_files()[reinterpret_cast<size_t>(handle)]; }

// The suffix of a file's internal variables, where `suffix` is that of its internal kernels.
std::string variable_suffix(const std::string& suffix) {
  constexpr std::string_view kKernels = ".intern.";
  return suffix.starts_with(kKernels) ? ".static." + suffix.substr(kKernels.size()) : suffix;
}

}  // namespace

// Host objects refer to embedded device code by this name; our code objects are files named in the configuration.
HIPSYNTH_EXPORT const char __hip_fatbin[8] = {};

// The handle of an object file is the number of its code object, cast to a pointer.
HIPSYNTH_EXPORT void** __hipRegisterFatBinary(const void* wrapper) {
  Runtime& rt = Runtime::get();
  std::lock_guard<std::recursive_mutex> lock(rt.mutex);
  object_files().push_back(object_file(static_cast<const FatBinaryWrapper*>(wrapper)));
  return reinterpret_cast<void**>(object_files().size() - 1);
}

HIPSYNTH_EXPORT void __hipUnregisterFatBinary(void**) {}

HIPSYNTH_EXPORT void __hipRegisterFunction(void** handle, const void* stub, char*, const char* name, unsigned, void*,
                                           void*, void*, void*, int*) {
  Runtime& rt = Runtime::get();
  std::lock_guard<std::recursive_mutex> lock(rt.mutex);
  rt.functions[stub] = Function{name, file_of(handle).code_object, file_of(handle).suffix};
}

HIPSYNTH_EXPORT void __hipRegisterVar(void** handle, void* shadow, char*, char* name, int, size_t size, int, int) {
  Runtime& rt = Runtime::get();
  std::lock_guard<std::recursive_mutex> lock(rt.mutex);
  const ObjectFile& file = file_of(handle);
  rt.variables[shadow] = Variable{name, size, file.code_object, variable_suffix(file.suffix), nullptr, nullptr, {}};
}

HIPSYNTH_EXPORT void __hipRegisterManagedVar(void* handle, void** pointer, void* initial, const char* name, size_t size,
                                             unsigned) {
  Runtime& rt = Runtime::get();
  std::lock_guard<std::recursive_mutex> lock(rt.mutex);
  void* storage = managed_storage(rt, size);
  std::memcpy(storage, initial, size);
  *pointer = storage;
  const auto* first = static_cast<const uint8_t*>(initial);
  const ObjectFile& file = file_of(static_cast<void**>(handle));
  rt.variables[pointer] =
      Variable{name, size, file.code_object, variable_suffix(file.suffix), pointer, storage, {first, first + size}};
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
