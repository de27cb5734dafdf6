// For the Python side of scripts that run with the virtual device (simulator/scripts/inside). Not part of the HIP API.
#include "runtime.h"

using namespace hipsynth::runtime;

// `members`: of the kernel's JSON object, each followed by a comma (see Results::add).
HIPSYNTH_EXPORT hipError_t hipsynthDescribeKernel(hipFunction_t f, const char* members) {
  return call([&](Runtime&) -> hipError_t {
    if (f == nullptr || members == nullptr) return hipErrorInvalidValue;
    f->variant = members;
    return hipSuccess;
  });
}

// `operators`: see Results::set_host_operators.
HIPSYNTH_EXPORT hipError_t hipsynthCountOperators(const char* operators) {
  return call([&](Runtime& rt) {
    rt.results.set_host_operators(operators);
    return hipSuccess;
  });
}

// As the buffer of 256 MB that benchmarks overwrite between runs: nothing of the program's data is in a cache.
HIPSYNTH_EXPORT hipError_t hipsynthClearCaches() {
  return call([](Runtime& rt) {
    rt.device->reset();
    rt.queue_behind_clearing();
    return hipSuccess;
  });
}

// Ends the program with a failure that the script itself caused, such as a kernel that does not compile.
HIPSYNTH_EXPORT void hipsynthStop(const char* reason, const char* message) { Runtime::get().stop(reason, message); }

// The lowest address of device memory; 0 without a device.
HIPSYNTH_EXPORT uint64_t hipsynthMemoryStart() {
  Runtime& rt = Runtime::get();
  return rt.device ? rt.memory().start() : 0;
}
