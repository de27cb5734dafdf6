// For the Python side of scripts that run with the virtual device (simulator/scripts/inside). Not part of the HIP API.
#include <utility>

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

// The host has read device memory, which it can here without a copy.
HIPSYNTH_EXPORT hipError_t hipsynthHostHasRead() {
  return call([](Runtime& rt) {
    rt.recorder.copied_to_host();
    return hipSuccess;
  });
}

// As the buffer of 256 MB that benchmarks overwrite between runs: nothing of the program's data is in a cache.
HIPSYNTH_EXPORT hipError_t hipsynthClearCaches() {
  return call([](Runtime& rt) {
    rt.device->reset();
    rt.recorder.caches_cleared();
    rt.queue_behind_clearing();
    rt.uncertain_ns = 0;
    return hipSuccess;
  });
}

// See Device::sample_coarsely.
HIPSYNTH_EXPORT bool hipsynthSampleCoarsely(bool coarse) {
  bool changed = false;
  call([&](Runtime& rt) {
    changed = rt.device->sample_coarsely(coarse);
    return hipSuccess;
  });
  return changed;
}

// By how many ns the durations of all launches since hipsynthClearCaches may be wrong because of sampling.
HIPSYNTH_EXPORT double hipsynthUncertainty() {
  Runtime& rt = Runtime::get();
  const std::lock_guard<std::recursive_mutex> lock(rt.mutex);
  return rt.uncertain_ns;
}

// Ends the program with a failure that the script itself caused, such as a kernel that does not compile.
HIPSYNTH_EXPORT void hipsynthStop(const char* reason, const char* message) {
  Runtime::get().stop(std::string(reason), message);
}

// For a process that the device is embedded in (Config::embedded): see Runtime::begin_results. `sampling_units`: of
// large grids (DeviceOptions); `lines`: whether instructions are counted one by one.
HIPSYNTH_EXPORT hipError_t hipsynthBeginResults(uint32_t sampling_units, bool lines) {
  return call([&](Runtime& rt) {
    rt.begin_results(sampling_units, lines);
    return hipSuccess;
  });
}

// Writes the document of all results since hipsynthBeginResults.
HIPSYNTH_EXPORT hipError_t hipsynthPublishResults() {
  return call([](Runtime& rt) {
    rt.results.render();
    rt.results.write(true, 0);
    return hipSuccess;
  });
}

// Why the last call failed, as Runtime::failure has it; forgets it. "" if it did not, or for a reason of HIP's own.
HIPSYNTH_EXPORT const char* hipsynthTakeFailure() {
  static std::string taken;
  Runtime& rt = Runtime::get();
  const std::lock_guard<std::recursive_mutex> lock(rt.mutex);
  taken = std::exchange(rt.failure, "");
  return taken.c_str();
}

// The lowest address of device memory; 0 without a device.
HIPSYNTH_EXPORT uint64_t hipsynthMemoryStart() {
  Runtime& rt = Runtime::get();
  return rt.device ? rt.memory().start() : 0;
}
