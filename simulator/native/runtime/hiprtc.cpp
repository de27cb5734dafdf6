// hiprtc: run-time compilation by starting the toolchain's compiler on the program's source string.
#include <cstring>
#include <memory>

#include "core/elf.h"
#include "process.h"
#include "runtime.h"

using namespace hipsynth::runtime;

// value, name and text as in HIP's hiprtc.h.
#define HIPSYNTH_RTC_ERRORS(X)                             \
  X(HIPRTC_SUCCESS, 0)                                     \
  X(HIPRTC_ERROR_OUT_OF_MEMORY, 1)                         \
  X(HIPRTC_ERROR_PROGRAM_CREATION_FAILURE, 2)              \
  X(HIPRTC_ERROR_INVALID_INPUT, 3)                         \
  X(HIPRTC_ERROR_INVALID_PROGRAM, 4)                       \
  X(HIPRTC_ERROR_INVALID_OPTION, 5)                        \
  X(HIPRTC_ERROR_COMPILATION, 6)                           \
  X(HIPRTC_ERROR_BUILTIN_OPERATION_FAILURE, 7)             \
  X(HIPRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION, 8) \
  X(HIPRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION, 9)   \
  X(HIPRTC_ERROR_NAME_EXPRESSION_NOT_VALID, 10)            \
  X(HIPRTC_ERROR_INTERNAL_ERROR, 11)                       \
  X(HIPRTC_ERROR_LINKING, 100)

enum hiprtcResult : unsigned {
#define X(name, value) name = value,
  HIPSYNTH_RTC_ERRORS(X)
#undef X
};

struct RtcProgram {
  std::string source, name;
  std::vector<std::pair<std::string, std::string>> headers;  // name, text
  std::vector<std::string> expressions;
  std::map<std::string, std::string> lowered;  // expression -> symbol
  bool compiled = false;
  std::string log;
  std::vector<uint8_t> code;
};
using hiprtcProgram = RtcProgram*;

namespace {

constexpr char kNamePrefix[] = "__hipsynth_name_";

std::set<hiprtcProgram>& programs() {
  static std::set<hiprtcProgram> table;
  return table;
}

// Runs one call under the runtime's lock; exceptions become HIPRTC_ERROR_INTERNAL_ERROR.
template <typename Body>
hiprtcResult guarded(Body body) {
  std::lock_guard<std::recursive_mutex> lock(Runtime::get().mutex);
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return HIPRTC_ERROR_OUT_OF_MEMORY;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "hipsynth: run-time compilation: %s\n", error.what());
    return HIPRTC_ERROR_INTERNAL_ERROR;
  }
}

template <typename Body>
hiprtcResult with_program(hiprtcProgram program, Body body) {
  return guarded([&] { return programs().contains(program) ? body(*program) : HIPRTC_ERROR_INVALID_PROGRAM; });
}

// The source, followed by one pointer variable per name expression; the symbol is found from the pointer's value.
std::string full_source(const RtcProgram& p) {
  std::string text = "#define __HIPCC_RTC__ 1\n#line 1 \"" + p.name + "\"\n" + p.source + "\n";
  for (size_t i = 0; i < p.expressions.size(); ++i) {
    const std::string& e = p.expressions[i];
    const std::string object = e.substr(e.find_first_not_of(" &"));
    text += "extern \"C\" __device__ __attribute__((used)) const void* const " + std::string(kNamePrefix) +
            std::to_string(i) + " = (const void*)&" + object + ";\n";
  }
  return text;
}

void find_lowered_names(RtcProgram& p) {
  const hipsynth::Elf elf = hipsynth::parse_elf(p.code);
  std::map<uint64_t, uint64_t> pointers;  // location of a pointer -> address stored in it
  for (const hipsynth::ElfRelocation& r : elf.relocations) pointers[r.offset] = static_cast<uint64_t>(r.addend);
  const auto named = [&](uint64_t address) -> std::string {
    for (const hipsynth::ElfSymbol& s : elf.symbols) {
      if (s.value == address && (s.type == hipsynth::kSymbolFunction || s.type == hipsynth::kSymbolObject))
        return std::string(s.name);
    }
    return "";
  };
  for (const hipsynth::ElfSymbol& s : elf.symbols) {
    if (!s.name.starts_with(kNamePrefix)) continue;
    const std::string number(s.name.substr(sizeof kNamePrefix - 1));
    const size_t index = std::strtoul(number.c_str(), nullptr, 10);
    const auto pointer = pointers.find(s.value);
    if (index < p.expressions.size() && pointer != pointers.end()) {
      p.lowered[p.expressions[index]] = named(pointer->second);
    }
  }
}

// Whether an option selects an architecture; sets `fits` to whether that is the device's.
bool names_architecture(const std::string& option, const std::string& arch, bool* fits) {
  for (const char* prefix : {"--gpu-architecture=", "--offload-arch=", "-arch="}) {
    if (!option.starts_with(prefix)) continue;
    *fits = option.compare(std::strlen(prefix), arch.size(), arch) == 0;
    return true;
  }
  return false;
}

hiprtcResult compile(Runtime& rt, RtcProgram& p, const std::vector<std::string>& options) {
  // Nothing is left of what was compiled before, whether this succeeds or not.
  p.compiled = false;
  p.log.clear();
  p.code.clear();
  p.lowered.clear();
  if (rt.config.compiler.empty()) {
    p.log = "run-time compilation is not available: this run was configured without a compiler";
    return HIPRTC_ERROR_COMPILATION;
  }
  TemporaryFolder folder;
  for (const auto& [name, text] : p.headers) folder.write(name, text.data(), text.size());
  const std::string text = full_source(p), output = folder.path() + "/made.co", log = folder.path() + "/log";
  std::vector<std::string> words = rt.config.compiler;
  words.insert(words.end(), {"-I" + folder.path(), "-include", "hip/hip_runtime.h"});
  for (const std::string& option : options) {
    bool fits = true;
    if (!names_architecture(option, rt.config.arch_name, &fits)) words.push_back(option);
    if (fits) continue;
    p.log = option + ": the device is " + rt.config.arch_name;
    return HIPRTC_ERROR_COMPILATION;
  }
  words.insert(words.end(), {folder.write("unit.hip", text.data(), text.size()), "-o", output});
  const int status = run_process(words, "", log);
  p.log = read_file(log);
  if (status != 0) return HIPRTC_ERROR_COMPILATION;
  const std::string bytes = read_file(output);
  p.code.assign(bytes.begin(), bytes.end());
  find_lowered_names(p);
  p.compiled = true;
  return HIPRTC_SUCCESS;
}

}  // namespace

HIPSYNTH_EXPORT const char* hiprtcGetErrorString(hiprtcResult result) {
  switch (result) {
#define X(name, value) \
  case name:           \
    return #name;
    HIPSYNTH_RTC_ERRORS(X)
#undef X
  }
  return "HIPRTC_ERROR_UNKNOWN";
}

HIPSYNTH_EXPORT hiprtcResult hiprtcVersion(int* major, int* minor) {
  if (major == nullptr || minor == nullptr) return HIPRTC_ERROR_INVALID_INPUT;
  *major = 9;
  *minor = 0;
  return HIPRTC_SUCCESS;
}

HIPSYNTH_EXPORT hiprtcResult hiprtcCreateProgram(hiprtcProgram* out, const char* source, const char* name, int count,
                                                 const char** headers, const char** names) {
  if (out == nullptr || source == nullptr || count < 0) return HIPRTC_ERROR_INVALID_INPUT;
  if (count > 0 && (headers == nullptr || names == nullptr)) return HIPRTC_ERROR_INVALID_INPUT;
  return guarded([&] {
    auto program = std::make_unique<RtcProgram>();
    program->source = source;
    program->name = name != nullptr && *name != 0 ? name : "CompileSource";
    for (int i = 0; i < count; ++i) program->headers.emplace_back(names[i], headers[i]);
    *out = *programs().insert(program.release()).first;
    return HIPRTC_SUCCESS;
  });
}

HIPSYNTH_EXPORT hiprtcResult hiprtcDestroyProgram(hiprtcProgram* program) {
  if (program == nullptr) return HIPRTC_SUCCESS;
  return guarded([&] {
    if (programs().erase(*program) == 0) return HIPRTC_ERROR_INVALID_PROGRAM;
    delete *program;
    *program = nullptr;
    return HIPRTC_SUCCESS;
  });
}

HIPSYNTH_EXPORT hiprtcResult hiprtcAddNameExpression(hiprtcProgram program, const char* expression) {
  return with_program(program, [&](RtcProgram& p) {
    if (expression == nullptr || std::string(expression).find_first_not_of(" &") == std::string::npos)
      return HIPRTC_ERROR_INVALID_INPUT;
    if (p.compiled) return HIPRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION;
    p.expressions.emplace_back(expression);
    return HIPRTC_SUCCESS;
  });
}

HIPSYNTH_EXPORT hiprtcResult hiprtcCompileProgram(hiprtcProgram program, int count, const char* const* options) {
  return with_program(program, [&](RtcProgram& p) {
    if (count < 0 || (count > 0 && options == nullptr)) return HIPRTC_ERROR_INVALID_INPUT;
    return compile(Runtime::get(), p, {options, options + count});
  });
}

HIPSYNTH_EXPORT hiprtcResult hiprtcGetLoweredName(hiprtcProgram program, const char* expression, const char** out) {
  return with_program(program, [&](RtcProgram& p) {
    if (expression == nullptr || out == nullptr) return HIPRTC_ERROR_INVALID_INPUT;
    if (!p.compiled) return HIPRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION;
    const auto name = p.lowered.find(expression);
    if (name == p.lowered.end() || name->second.empty()) return HIPRTC_ERROR_NAME_EXPRESSION_NOT_VALID;
    *out = name->second.c_str();
    return HIPRTC_SUCCESS;
  });
}

HIPSYNTH_EXPORT hiprtcResult hiprtcGetProgramLogSize(hiprtcProgram program, size_t* size) {
  return with_program(program, [&](RtcProgram& p) {
    if (size == nullptr) return HIPRTC_ERROR_INVALID_INPUT;
    *size = p.log.empty() ? 0 : p.log.size() + 1;
    return HIPRTC_SUCCESS;
  });
}

HIPSYNTH_EXPORT hiprtcResult hiprtcGetProgramLog(hiprtcProgram program, char* log) {
  return with_program(program, [&](RtcProgram& p) {
    if (log == nullptr) return HIPRTC_ERROR_INVALID_INPUT;
    std::memcpy(log, p.log.c_str(), p.log.empty() ? 0 : p.log.size() + 1);
    return HIPRTC_SUCCESS;
  });
}

HIPSYNTH_EXPORT hiprtcResult hiprtcGetCodeSize(hiprtcProgram program, size_t* size) {
  return with_program(program, [&](RtcProgram& p) {
    if (size == nullptr) return HIPRTC_ERROR_INVALID_INPUT;
    *size = p.code.size();
    return HIPRTC_SUCCESS;
  });
}

HIPSYNTH_EXPORT hiprtcResult hiprtcGetCode(hiprtcProgram program, char* code) {
  return with_program(program, [&](RtcProgram& p) {
    if (code == nullptr) return HIPRTC_ERROR_INVALID_INPUT;
    std::memcpy(code, p.code.data(), p.code.size());
    return HIPRTC_SUCCESS;
  });
}

// Bitcode and run-time linking are declared so that programs link, but return an error when called.
#define X(name, answer)                 \
  HIPSYNTH_EXPORT hiprtcResult name() { \
    not_supported(#name);               \
    return answer;                      \
  }
X(hiprtcGetBitcode, HIPRTC_ERROR_INVALID_PROGRAM)
X(hiprtcGetBitcodeSize, HIPRTC_ERROR_INVALID_PROGRAM)
X(hiprtcLinkCreate, HIPRTC_ERROR_LINKING)
X(hiprtcLinkAddFile, HIPRTC_ERROR_LINKING)
X(hiprtcLinkAddData, HIPRTC_ERROR_LINKING)
X(hiprtcLinkComplete, HIPRTC_ERROR_LINKING)
X(hiprtcLinkDestroy, HIPRTC_ERROR_LINKING)
#undef X
