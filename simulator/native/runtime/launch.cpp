// Kernel launches: validation, argument packing, dispatch.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "graph.h"

namespace hipsynth::runtime {
namespace {

constexpr uint32_t kMaxBlock = 1024;            // work-items per work-group
constexpr uint64_t kMaxGridItems = 1ull << 32;  // work-items per dimension, as in the dispatch packet

bool hidden(const KernelArg& arg) { return arg.kind.starts_with("hidden_"); }

Dim3 core_dim(const dim3& d) { return {d.x, d.y, d.z}; }

// Stores the addresses of `__managed__` objects into the device-side pointer variables of a module.
void bind_managed(Runtime& rt, const Module& module) {
  for (const auto& [shadow, variable] : rt.variables) {
    if (variable.managed == nullptr || rt.loaded_program(variable.module) != &module) continue;
    const DeviceSymbol symbol = symbol_of(module, variable);
    if (symbol.address != 0 && symbol.size >= sizeof(void*)) {
      std::memcpy(reinterpret_cast<void*>(symbol.address), &variable.storage, sizeof(void*));
    }
  }
}

void print(const std::string& output, const std::string& errors) {
  std::fwrite(output.data(), 1, output.size(), stdout);
  std::fwrite(errors.data(), 1, errors.size(), stderr);
}

// Warns once per kernel about out-of-bounds accesses that do not fault on hardware.
void warn_of_out_of_bounds(Runtime& rt, const ihipModuleSymbol_t& function, const Dispatch& done) {
  const KernelInfo& kernel = *function.info;
  if (done.out_of_bounds == 0 || !rt.warned_kernels.insert(kernel.symbol).second) return;
  if (rt.warned_kernels.size() == 1) rt.results.set_warned_at(kernel.symbol, done.out_of_bounds_at);
  const std::string message = "out of bounds: " + done.first_out_of_bounds + "; " + std::to_string(done.out_of_bounds) +
                              " such accesses in this launch were allowed, as on hardware" +
                              source_line(rt, function, done.out_of_bounds_at);
  std::fprintf(stderr, "hipsynth: warning: %s\n", message.c_str());
  rt.results.warn(message);
}

// Names the first race of each kernel, where they are looked for.
void warn_of_race(Runtime& rt, const KernelInfo& kernel, const Dispatch& done) {
  if (!done.first_race.empty() && rt.racing_kernels.insert(kernel.symbol).second) rt.results.add_race(done.first_race);
  if (!done.first_unfenced.empty() && rt.unfenced_kernels.insert(kernel.symbol).second)
    rt.results.add_unfenced(done.first_unfenced);
}

// Names the kernel that is simulated, for the message of a crash.
struct RunningKernel {
  Runtime& rt;
  RunningKernel(Runtime& runtime, const KernelInfo& kernel) : rt(runtime) { rt.running = kernel.name.c_str(); }
  ~RunningKernel() { rt.running = nullptr; }
};

Launch core_launch(const Runtime& rt, const LaunchRequest& request) {
  Launch launch;
  launch.module = request.kernel->module;
  launch.kernel = request.kernel->info;
  launch.grid = core_dim(request.grid);
  launch.block = core_dim(request.block);
  launch.dynamic_lds = static_cast<uint32_t>(request.dynamic_lds);
  launch.args = request.args;
  launch.cooperative = request.cooperative;
  launch.stack_bytes = static_cast<uint32_t>(rt.stack_limit);
  return launch;
}

// Runs a launch; one that fails counts as done without results while launches are recorded. Throws SimError.
Dispatch run_launch(Runtime& rt, const ihipModuleSymbol_t& kernel, const Launch& launch) {
  Dispatch done;
  try {
    const RunningKernel running(rt, *launch.kernel);
    rt.sharing.observe(*rt.device, launch);
    rt.recorder.before_launch(*rt.device, launch, kernel.variant);
    done = rt.device->launch(launch);
    rt.recorder.after_launch(done.treatment.results, "");
  } catch (const SimError& error) {
    print(error.output, error.errors);
    if (!rt.recorder.on()) {
      if (error.instruction != 0) rt.results.set_fault(launch.kernel->symbol, error.instruction);
      throw SimError(error.reason, error.what() + source_line(rt, kernel, error.instruction));
    }
    rt.recorder.after_launch(false, name_of(error.reason));  // the launches that follow are of interest, too
    done.grid = launch.grid;
    done.block = launch.block;
  }
  return done;
}

// Puts a dispatch that has ended into the stream's time.
void advance_time(Runtime& rt, const LaunchRequest& request, const Dispatch& done) {
  const dim3 &g = request.grid, &b = request.block;
  const KernelInfo& kernel = *request.kernel->info;
  double room = resident_workgroups(rt, kernel, b.x * b.y * b.z, request.dynamic_lds) * rt.spec().topology.cus;
  rt.occupy(Timeline::Engine::compute, static_cast<double>(g.x) * g.y * g.z / std::max(room, 1.0),
            std::max(0.0, done.duration_ns + rt.launch_gap()));
  rt.leave_modified(done);
  const auto error = done.sampling.error.find("Duration");
  if (error != done.sampling.error.end()) rt.uncertain_ns += error->second * done.duration_ns;
}

// Ends the program once no more of its launches are of interest.
void stop_after_enough(Runtime& rt) {
  if (rt.config.settled_launches != 0 && rt.results.since_new() >= rt.config.settled_launches) {
    rt.stop(Reason::settled,
            std::to_string(rt.results.since_new()) + " launches in a row brought no new kernel or shape");
  }
  if (rt.recorder.full()) rt.stop(Reason::recorded, "as many launches as are recorded have been made");
}

hipError_t dispatch(Runtime& rt, const LaunchRequest& request) {
  const KernelInfo& kernel = *request.kernel->info;
  bind_managed(rt, *request.kernel->module);
  rt.trial.before_operation();
  rt.trial.before_launch(kernel, request.args);
  rt.check_time();
  const double start = processor_seconds();
  const Dispatch done = run_launch(rt, *request.kernel, core_launch(rt, request));
  print(done.printf_output, done.printf_errors);
  warn_of_out_of_bounds(rt, *request.kernel, done);
  warn_of_race(rt, kernel, done);
  advance_time(rt, request, done);
  rt.results.add_device_time(processor_seconds() - start);
  rt.results.add(kernel, {request.kernel->variant, request.kernel->module->serial(), request.kernel->elf}, done);
  rt.trial.after_launch();
  rt.trial.after_operation();
  stop_after_enough(rt);
  rt.checkpoint();
  return hipSuccess;
}

}  // namespace

uint32_t explicit_bytes(const KernelInfo& kernel) {
  uint32_t end = 0;
  for (const KernelArg& arg : kernel.args) {
    if (!hidden(arg)) end = std::max(end, arg.offset + arg.size);
  }
  return end;
}

namespace {

// Counts a launch that hardware would not start, and says once for each kernel why.
hipError_t refuse_launch(Runtime& rt, const KernelInfo& kernel, const std::string& why, hipError_t error) {
  rt.results.add_refused_launch();
  if (rt.refused_kernels.insert(kernel.symbol).second) {
    std::fprintf(stderr, "hipsynth: %s: launch refused: %s\n", kernel.name.c_str(), why.c_str());
    rt.recorder.refused(rt.device->memory(), kernel.symbol, why);
  }
  return error;
}

std::string shape_text(const dim3& d) {
  return std::to_string(d.x) + " x " + std::to_string(d.y) + " x " + std::to_string(d.z);
}

}  // namespace

hipError_t check_shape(Runtime& rt, const LaunchRequest& request) {
  const dim3 &g = request.grid, &b = request.block;
  const KernelInfo& kernel = *request.kernel->info;
  const auto refuse = [&](const std::string& why, hipError_t error = hipErrorInvalidConfiguration) {
    return refuse_launch(rt, kernel, why, error);
  };
  if (g.x == 0 || g.y == 0 || g.z == 0) return refuse("a grid of " + shape_text(g) + " work-groups");
  if (b.x == 0 || b.y == 0 || b.z == 0) return refuse("work-groups of " + shape_text(b) + " work-items");
  const uint64_t block = static_cast<uint64_t>(b.x) * b.y * b.z;
  if (b.x > kMaxBlock || b.y > kMaxBlock || b.z > kMaxBlock || block > kMaxBlock)
    return refuse("work-groups of " + shape_text(b) + " work-items; at most " + std::to_string(kMaxBlock));
  for (auto [count, width] : {std::pair{g.x, b.x}, {g.y, b.y}, {g.z, b.z}}) {
    if (static_cast<uint64_t>(count) * width >= kMaxGridItems)
      return refuse("a grid of " + shape_text(g) + " work-groups, 2^32 work-items or more along an axis");
  }
  if (block > kernel.max_flat_workgroup) {
    return refuse("work-group of " + std::to_string(block) + " work-items exceeds the launch bounds of " +
                      std::to_string(kernel.max_flat_workgroup),
                  hipErrorLaunchFailure);
  }
  if (lds_fits(rt, kernel, request.dynamic_lds)) return hipSuccess;
  uint64_t lds = 0;
  if (__builtin_add_overflow(uint64_t{kernel.lds_bytes}, request.dynamic_lds, &lds)) lds = UINT64_MAX;
  const auto most = static_cast<uint64_t>(rt.spec().lds.bytes_per_cu);
  return refuse(std::to_string(lds) + " bytes of LDS; at most " + std::to_string(most));
}

// All work-groups of a cooperative launch must be resident at once; otherwise a grid barrier would deadlock.
hipError_t check_cooperative(Runtime& rt, const LaunchRequest& request) {
  hipError_t shape = check_shape(rt, request);
  if (shape != hipSuccess) return shape;
  const dim3 &g = request.grid, &b = request.block;
  double room =
      resident_workgroups(rt, *request.kernel->info, b.x * b.y * b.z, request.dynamic_lds) * rt.spec().topology.cus;
  return static_cast<double>(g.x) * g.y * g.z > room ? hipErrorCooperativeLaunchTooLarge : hipSuccess;
}

std::vector<uint8_t> pack_arguments(const KernelInfo& kernel, void** args) {
  std::vector<uint8_t> packed(explicit_bytes(kernel));
  size_t index = 0;
  for (const KernelArg& arg : kernel.args) {
    if (hidden(arg)) continue;
    std::memcpy(packed.data() + arg.offset, args[index++], arg.size);
  }
  return packed;
}

std::vector<void*> argument_pointers(const KernelInfo& kernel, std::vector<uint8_t>& packed) {
  std::vector<void*> pointers;
  for (const KernelArg& arg : kernel.args) {
    if (!hidden(arg)) pointers.push_back(packed.data() + arg.offset);
  }
  return pointers;
}

bool pack_extra(void** extra, std::vector<uint8_t>& packed) {
  const uint8_t* buffer = nullptr;
  const size_t* size = nullptr;
  for (size_t i = 0; extra[i] != kLaunchParamEnd; i += 2) {
    if (extra[i] == kLaunchParamPointer) {
      buffer = static_cast<const uint8_t*>(extra[i + 1]);
    } else if (extra[i] == kLaunchParamSize) {
      size = static_cast<const size_t*>(extra[i + 1]);
    } else {
      return false;
    }
  }
  if (size == nullptr || (buffer == nullptr && *size > 0)) return false;
  packed.assign(buffer, buffer + *size);
  return true;
}

bool asks_cooperative(const hipLaunchAttribute* attributes, unsigned count) {
  constexpr int kCooperative = 2;  // hipLaunchAttributeID
  return std::any_of(attributes, attributes + count, [](const hipLaunchAttribute& attribute) {
    int value;
    std::memcpy(&value, attribute.value, sizeof value);
    return attribute.id == kCooperative && value != 0;
  });
}

// What the host is told of a launch that was refused. A compiler rejects a kernel with more static LDS than the device
// has, so no host code awaits the error: while launches are recorded it goes on to those that follow.
hipError_t answer_refused(Runtime& rt, const LaunchRequest& request, hipError_t error) {
  const bool rejected = request.kernel->info->lds_bytes > static_cast<uint64_t>(rt.spec().lds.bytes_per_cu);
  return rejected && rt.recorder.on() ? hipSuccess : error;
}

hipError_t launch(Runtime& rt, const LaunchRequest& request, hipStream_t stream) {
  hipError_t shape = check_shape(rt, request);
  if (shape != hipSuccess) return answer_refused(rt, request, shape);
  const hipError_t error = rt.submit(stream, [&rt, request] { return dispatch(rt, request); }, NodeType::kernel);
  const ihipStream_t* s = rt.stream(stream);
  if (Capture* capture = s == nullptr ? nullptr : rt.capture_of(*s); capture != nullptr && error == hipSuccess)
    capture->nodes.back()->launch = request;
  return error;
}

}  // namespace hipsynth::runtime

using namespace hipsynth::runtime;

namespace {

hipError_t launch_stub(const void* stub, dim3 grid, dim3 block, void** args, size_t lds, hipStream_t stream,
                       bool cooperative = false) {
  return call([&](Runtime& rt) -> hipError_t {
    ihipModuleSymbol_t* kernel = rt.kernel(stub);
    if (kernel == nullptr) return hipErrorInvalidDeviceFunction;
    if (args == nullptr && explicit_bytes(*kernel->info) > 0) return hipErrorInvalidValue;
    LaunchRequest request{kernel, grid, block, lds, pack_arguments(*kernel->info, args), cooperative, stub};
    hipError_t fits = cooperative ? check_cooperative(rt, request) : hipSuccess;
    return fits == hipSuccess ? launch(rt, request, stream) : answer_refused(rt, request, fits);
  });
}

}  // namespace

HIPSYNTH_EXPORT hipError_t hipEventRecord(hipEvent_t event, hipStream_t stream);

HIPSYNTH_EXPORT hipError_t hipLaunchKernel(const void* stub, dim3 grid, dim3 block, void** args, size_t lds,
                                           hipStream_t stream) {
  return launch_stub(stub, grid, block, args, lds, stream);
}

HIPSYNTH_EXPORT hipError_t hipLaunchKernelExC(const hipLaunchConfig_t* config, const void* stub, void** args) {
  if (config == nullptr || (config->numAttrs > 0 && config->attrs == nullptr)) return finish(hipErrorInvalidValue);
  return launch_stub(stub, config->gridDim, config->blockDim, args, config->dynamicSmemBytes, config->stream,
                     asks_cooperative(config->attrs, config->numAttrs));
}

HIPSYNTH_EXPORT hipError_t hipLaunchCooperativeKernel(const void* stub, dim3 grid, dim3 block, void** args,
                                                      unsigned lds, hipStream_t stream) {
  return launch_stub(stub, grid, block, args, lds, stream, true);
}

HIPSYNTH_EXPORT hipError_t hipLaunchCooperativeKernelMultiDevice(hipLaunchParams* list, int devices, unsigned) {
  if (list == nullptr || devices != 1) return finish(hipErrorInvalidValue);
  return launch_stub(list->func, list->gridDim, list->blockDim, list->args, list->sharedMem, list->stream, true);
}

HIPSYNTH_EXPORT hipError_t hipExtLaunchKernel(const void* stub, dim3 grid, dim3 block, void** args, size_t lds,
                                              hipStream_t stream, hipEvent_t start, hipEvent_t end, int) {
  if (start != nullptr) hipEventRecord(start, stream);
  hipError_t error = launch_stub(stub, grid, block, args, lds, stream);
  if (end != nullptr) hipEventRecord(end, stream);
  return error;
}

// The old launch sequence: hipConfigureCall, hipSetupArgument, hipLaunchByPtr.
namespace {
constexpr size_t kMostArgumentBytes = 64 << 10;  // the compiler takes 4 KiB
thread_local std::vector<uint8_t> staged_arguments;
}  // namespace

HIPSYNTH_EXPORT hipError_t hipConfigureCall(dim3 grid, dim3 block, size_t lds, hipStream_t stream);
HIPSYNTH_EXPORT hipError_t __hipPushCallConfiguration(dim3 grid, dim3 block, size_t lds, hipStream_t stream);
HIPSYNTH_EXPORT hipError_t __hipPopCallConfiguration(dim3* grid, dim3* block, size_t* lds, hipStream_t* stream);

HIPSYNTH_EXPORT hipError_t hipConfigureCall(dim3 grid, dim3 block, size_t lds, hipStream_t stream) {
  staged_arguments.clear();
  return __hipPushCallConfiguration(grid, block, lds, stream);
}

HIPSYNTH_EXPORT hipError_t hipSetupArgument(const void* arg, size_t size, size_t offset) {
  if (arg == nullptr || size > kMostArgumentBytes || offset > kMostArgumentBytes - size)
    return finish(hipErrorInvalidValue);
  if (staged_arguments.size() < offset + size) staged_arguments.resize(offset + size);
  std::memcpy(staged_arguments.data() + offset, arg, size);
  return hipSuccess;
}

HIPSYNTH_EXPORT hipError_t hipLaunchByPtr(const void* stub) {
  dim3 grid, block;
  size_t lds;
  hipStream_t stream;
  hipError_t error = __hipPopCallConfiguration(&grid, &block, &lds, &stream);
  if (error != hipSuccess) return error;
  return call([&](Runtime& rt) -> hipError_t {
    ihipModuleSymbol_t* kernel = rt.kernel(stub);
    if (kernel == nullptr) return hipErrorInvalidDeviceFunction;
    return launch(rt, {kernel, grid, block, lds, staged_arguments}, stream);
  });
}
