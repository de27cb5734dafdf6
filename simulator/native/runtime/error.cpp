// Error codes, their texts, and the calling thread's last error.
#include <cstdio>
#include <mutex>
#include <set>
#include <string>

#include "runtime.h"

namespace hipsynth::runtime {
namespace {

thread_local hipError_t last_error = hipSuccess;

struct ErrorText {
  hipError_t code;
  const char *name, *text;
};

constexpr ErrorText kErrors[] = {
#define X(name, value, text) {name, #name, text},
    HIPSYNTH_ERRORS(X)
#undef X
};

const ErrorText* find(hipError_t code) {
  for (const ErrorText& entry : kErrors) {
    if (entry.code == code) return &entry;
  }
  return nullptr;
}

}  // namespace

// Success does not clear an earlier error, and hipErrorNotReady is a status that is not recorded as an error.
hipError_t finish(hipError_t error) {
  if (error != hipSuccess && error != hipErrorNotReady) last_error = error;
  return error;
}

hipError_t not_supported(const char* function) {
  Runtime::get().tell(Notice::unsupported_call, function, std::string(function) + " is not supported by the simulator");
  return finish(hipErrorNotSupported);
}

}  // namespace hipsynth::runtime

using hipsynth::runtime::find;
using hipsynth::runtime::last_error;

HIPSYNTH_EXPORT hipError_t hipGetLastError() {
  hipError_t error = last_error;
  last_error = hipSuccess;
  return error;
}

HIPSYNTH_EXPORT hipError_t hipExtGetLastError() { return hipGetLastError(); }

HIPSYNTH_EXPORT hipError_t hipPeekAtLastError() { return last_error; }

HIPSYNTH_EXPORT const char* hipGetErrorName(hipError_t error) {
  const auto* entry = find(error);
  return entry ? entry->name : "hipErrorUnknown";
}

HIPSYNTH_EXPORT const char* hipGetErrorString(hipError_t error) {
  const auto* entry = find(error);
  return entry ? entry->text : "unrecognized error code";
}

HIPSYNTH_EXPORT hipError_t hipDrvGetErrorName(hipError_t error, const char** text) {
  if (text == nullptr) return hipErrorInvalidValue;
  const auto* entry = find(error);
  *text = entry ? entry->name : nullptr;
  return entry ? hipSuccess : hipErrorInvalidValue;
}

HIPSYNTH_EXPORT hipError_t hipDrvGetErrorString(hipError_t error, const char** text) {
  if (text == nullptr) return hipErrorInvalidValue;
  const auto* entry = find(error);
  *text = entry ? entry->text : nullptr;
  return entry ? hipSuccess : hipErrorInvalidValue;
}
