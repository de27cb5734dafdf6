#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <thread>

#include "array.h"
#include "channel.h"
#include "results_change.h"
#include "timing/model.h"

namespace hipsynth::runtime {
namespace {

// Results are written while a program runs, because SIGKILL loses what was not: at most 2 % of the time, and at least
// every 0.2 s.
constexpr double kWriteShare = 0.02, kLongestInterval_s = 0.2;

double host_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Runtime* instance = nullptr;
std::atomic<bool> stopping = false;

void report_kernel(const char* event, const char* kernel) {
  for (const char* text : {event, kernel, "\n"}) {
    [[maybe_unused]] const ssize_t n = ::write(2, text, strlen(text));
  }
}

// The host program crashed, or is to stop: saves the results, then raises the signal again.
void on_fatal_signal(int signal) {
  const bool is_request = signal == SIGXCPU || signal == SIGTERM;
  const bool interrupts_change = ResultsChange::is_by_this_thread();
  if (is_request && interrupts_change) return ResultsChange::postpone_signal(signal);
  if (instance != nullptr && !stopping.exchange(true)) {
    if (const char* kernel = instance->running) {
      report_kernel(
          is_request ? "hipsynth: stopped while simulating kernel " : "hipsynth: crashed while simulating kernel ",
          kernel);
    }
    // Otherwise what was written last stands.
    if (!interrupts_change && ResultsChange::block_changes()) instance->results.write(false, signal);
  }
  ::signal(signal, SIG_DFL);
  ::raise(signal);
}

void install_signal_handlers() {
  static char stack[64 * 1024];  // alternate stack, so that a stack overflow can be reported
  stack_t alternate{};
  alternate.ss_sp = stack;
  alternate.ss_size = sizeof stack;
  sigaltstack(&alternate, nullptr);
  struct sigaction action{};
  action.sa_handler = on_fatal_signal;
  action.sa_flags = SA_ONSTACK | SA_NODEFER;
  for (int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTERM, SIGXCPU}) sigaction(signal, &action, nullptr);
}

void write_at_exit() {
  if (instance == nullptr || instance->config.embedded) return;
  // Another thread writes why the program is stopped, and ends the process.
  while (stopping) pause();
  const std::lock_guard<std::recursive_mutex> lock(instance->mutex);  // other threads of the program may still run
  instance->complete_at_exit();
  instance->digest_variables();
  instance->results.set_outputs(instance->trial.render());
  instance->results.render();
  instance->results.write(true, 0);
}

// The stream of the calling thread is to end with it, unless it is the one that ends the program.
void await_end_of_thread() {
  static const pthread_key_t key = [] {
    pthread_key_t created = 0;
    pthread_key_create(&created, [](void*) { Runtime::get().retire_thread_stream(); });
    return created;
  }();
  pthread_setspecific(key, instance);
}

// Runs after the program's own atexit handlers and static destructors.
__attribute__((destructor)) void at_unload() { write_at_exit(); }

}  // namespace

Runtime& Runtime::get() {
  static Runtime* runtime = new Runtime();
  return *runtime;
}

Runtime::Runtime() {
  instance = this;
  const Channel& channel = Channel::get();
  if (!channel.is_open()) {
    unavailable = channel.problem();
    return;
  }
  try {
    config = parse_config(channel.configuration());
    if (config.line_output) std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
    config.options.host_calls = true;  // host functions are those of this process
    device = std::make_unique<Device>(config.arch, config.spec, config.options);
    results.set_limited(config.options.budget_s > 0);
    results.set_tally(device->tally());
    deferred.configure(config.deferral);
    trial.configure(config.trial);
    sharing.configure(config.sharing);
    recorder.configure(config.recorder);
  } catch (const SimError& error) {
    stop(error.reason, error.what());
  } catch (const std::exception& error) {
    stop(Reason::bad_configuration, error.what());
  }
  if (config.embedded) return;
  install_signal_handlers();
  at_quick_exit(write_at_exit);
  watch_time();
}

void Runtime::occupy(Timeline::Engine engine, double share, double ns, bool blocking) {
  ihipStream_t& s = current_ != nullptr ? *current_ : default_stream_;
  s.tail_ns = timeline.run(engine, ready(s), share, ns);
  if (blocking) timeline.wait(s.tail_ns);
  results.set_clock(timeline.last());
}

// An idle device takes longer to begin; behind another kernel, part of a launch is done while that one still runs, but
// its modified lines must reach what all XCDs share first.
double Runtime::launch_gap() const {
  const ihipStream_t& s = current_ != nullptr ? *current_ : default_stream_;
  const auto& issue = spec().issue;
  const bool queued = ready(s) > timeline.host(), behind_kernel = s.kernel_end_ns > timeline.host();
  const double wait = behind_kernel ? handover_ns(spec(), s.modified_bytes) : queued ? 0 : issue.event_ns;
  return wait + issue.chained_launch_ns - issue.launch_ns;
}

void Runtime::leave_modified(const Dispatch& done) {
  ihipStream_t& s = current_ != nullptr ? *current_ : default_stream_;
  s.modified_bytes = done.work ? done.work->flushed_bytes + done.work->left_bytes : 0;
  s.kernel_end_ns = s.tail_ns;
}

void Runtime::queue_behind_clearing() {
  for (ihipStream_t* stream : streams) stream->modified_bytes = 0;
  default_stream_.modified_bytes = 0;
  default_stream_.tail_ns = timeline.last() + 1;
}

double Runtime::ready(const ihipStream_t& s) const {
  double at = std::max(timeline.host(), s.tail_ns);
  if (s.flags & kStreamNonBlocking) return at;
  if (&s != &default_stream_) return std::max(at, default_stream_.tail_ns);
  for (const ihipStream_t* other : streams) {
    if (!(other->flags & kStreamNonBlocking)) at = std::max(at, other->tail_ns);
  }
  return at;
}

Module& Runtime::program(size_t index) {
  std::unique_ptr<Module>& module = programs_[index];
  if (!module) {
    if (index >= config.code_objects.size() || index >= config.disassemblies.size()) {
      throw SimError(Reason::bad_code_object, "the program has no device code");
    }
    std::string bytes = read_file(config.code_objects[index]);
    std::vector<uint8_t> elf(bytes.begin(), bytes.end());
    module = Module::load(config.arch, memory(), elf, read_file(config.disassemblies[index]));
    size_t kernels = 0;
    for (const auto& [_, loaded] : programs_) kernels += loaded ? loaded->kernels().size() : 0;
    results.set_module(kernels);
  }
  return *module;
}

const Module* Runtime::loaded_program(size_t index) const {
  const auto module = programs_.find(index);
  return module == programs_.end() ? nullptr : module->second.get();
}

void Runtime::unload(hipModule_t module) {
  device->forget(*module->module);
  for (auto& [name, function] : module->functions) delete function;
  delete module;
}

void Runtime::digest_variables() {
  std::map<std::pair<std::string, size_t>, std::pair<const char*, size_t>> places;  // by symbol and code object
  for (const auto& [shadow, variable] : variables) {
    const Module* module = loaded_program(variable.module);
    const DeviceSymbol symbol = module != nullptr ? symbol_of(*module, variable) : DeviceSymbol{};
    const char* place = static_cast<const char*>(variable.storage);
    if (place == nullptr) place = reinterpret_cast<const char*>(symbol.address);
    const std::string& name = symbol.address != 0 ? symbol.name : variable.name;
    if (place != nullptr) places[{name, variable.module}] = {place, variable.size};
  }
  for (const auto& [symbol, place] : places) {
    const auto& [name, module] = symbol;
    trial.variable(module == 0 ? name : name + " " + std::to_string(module), place.first, place.second);
  }
}

void Runtime::reset() {
  complete_all();
  for (hipStream_t s : streams) delete s;
  for (hipEvent_t e : events) delete e;
  for (hipModule_t m : modules) unload(m);
  streams.clear();
  thread_streams_.clear();
  retired_streams_.clear();
  captures.clear();
  events.clear();
  modules.clear();
  kernels.clear();
  pinned.clear();
  placement.clear();
  forget_graphs();
  forget_textures();
  forget_arrays();
  for (const auto& [_, loaded] : programs_) {
    if (loaded) device->forget(*loaded);
  }
  programs_.clear();
  forget_mappings();
  empty_pools();
  std::set<uint64_t> kept;
  for (const auto& [shadow, variable] : variables) {
    if (variable.storage == nullptr) continue;
    kept.insert(reinterpret_cast<uint64_t>(variable.storage));
    std::memcpy(variable.storage, variable.initial.data(), variable.size);
  }
  trial.release_all();
  memory().release_user([&](const Memory::Allocation& a) { return kept.contains(a.start); });
  device->reset();
}

ihipModuleSymbol_t* Runtime::kernel(const void* stub) {
  auto known = kernels.find(stub);
  if (known != kernels.end()) return &known->second;
  auto symbol = functions.find(stub);
  if (symbol == functions.end()) return nullptr;
  Module& module = program(symbol->second.module);
  const KernelInfo* info = module.kernel(symbol->second.name + symbol->second.suffix);
  if (info == nullptr) info = module.kernel(symbol->second.name);
  if (info == nullptr) return nullptr;
  return &kernels.emplace(stub, ihipModuleSymbol_t{&module, info, nullptr, ""}).first->second;
}

const ihipModuleSymbol_t* Runtime::find_function(const void* handle) const {
  for (const ihipModule_t* module : modules) {
    for (const auto& [name, function] : module->functions) {
      if (function == handle) return function;
    }
  }
  return nullptr;
}

hipStream_t Runtime::add_stream(unsigned flags, int priority) {
  auto* added = new ihipStream_t;
  added->flags = flags;
  added->priority = priority;
  added->id = ++last_stream_id_;
  streams.insert(added);
  return added;
}

ihipStream_t* Runtime::stream(hipStream_t handle) {
  auto value = reinterpret_cast<uintptr_t>(handle);
  if (value == 0 || value == kStreamLegacy) return &default_stream_;
  if (value != kStreamPerThread) return streams.contains(handle) ? handle : nullptr;
  hipStream_t& of_thread = thread_streams_[std::this_thread::get_id()];
  if (of_thread == nullptr) {
    delete_retired_streams();
    await_end_of_thread();
    of_thread = add_stream(0, 0);
  }
  return of_thread;
}

void Runtime::retire_thread_stream() {
  const std::lock_guard<std::recursive_mutex> lock(mutex);
  const auto retired = thread_streams_.extract(std::this_thread::get_id());
  if (retired.empty()) return;
  forget_stream(*this, *retired.mapped());
  retired_streams_.push_back(retired.mapped());
}

void Runtime::delete_retired_streams() {
  std::erase_if(retired_streams_, [this](hipStream_t stream) {
    if (stream->tail_ns > timeline.host() || deferred.is_pending({stream->last_work})) return false;
    streams.erase(stream);
    delete stream;
    return true;
  });
}

Capture* Runtime::capture_of(const ihipStream_t& stream) {
  const auto capture = captures.find(stream.capture);
  return capture == captures.end() ? nullptr : &capture->second;
}

void Runtime::stop(Reason reason, const std::string& message) { stop(std::string(name_of(reason)), message); }

void Runtime::stop(const std::string& reason, const std::string& message) {
  stopping = true;
  results.fail(reason, message);
  std::fflush(nullptr);
  results.render();
  results.write(true, 0);  // whoever started the program says it
  _exit(kStopExit);
}

hipError_t Runtime::fail(Reason reason, const std::string& message) {
  if (!config.embedded) stop(reason, message);
  failure = std::string(name_of(reason)) + "\n" + message;
  return hipErrorLaunchFailure;
}

void Runtime::begin_results(uint32_t sampling_units, bool lines) {
  device->reset();
  device->observe_launches(sampling_units, lines);
  timeline.wait(timeline.last());
  results = {};
  results.set_tally(device->tally());
  results.start_clock(timeline.last());
}

// The sandbox would end the program some time later, but then what was not written since the last checkpoint is lost.
// Not through stop(): the program's own code may hold the locks of its streams.
void Runtime::check_time() {
  const double limit = config.options.cpu_seconds;
  if (limit <= 0 || processor_seconds() <= limit) return;
  stopping = true;
  char text[64];
  std::snprintf(text, sizeof text, "stopped after %g s of processor time", limit);
  results.fail(Reason::time_limit, text);
  results.render();
  results.write(true, 0);
  _exit(kStopExit);
}

// A thread that sleeps until the process has used its processor time, whether in kernels or in its own code.
void Runtime::watch_time() {
  if (config.options.cpu_seconds <= 0) return;
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  std::thread([this] {
    const double limit = config.options.cpu_seconds;
    timespec end{static_cast<time_t>(limit), static_cast<long>((limit - std::floor(limit)) * 1e9) + 1};
    while (processor_seconds() <= limit) clock_nanosleep(CLOCK_PROCESS_CPUTIME_ID, TIMER_ABSTIME, &end, nullptr);
    const std::lock_guard<std::recursive_mutex> lock(mutex);
    check_time();
  }).detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void Runtime::tell(Notice kind, const std::string& subject, const std::string& message) {
  const std::lock_guard<std::recursive_mutex> lock(mutex);
  if (!results.note(kind, subject)) return;
  std::fprintf(stderr, "hipsynth: %s\n", message.c_str());
  results.render();
  results.write(false, 0);  // the program may not come to another checkpoint
}

void Runtime::checkpoint() {
  const double now = host_seconds();
  if (now - last_write_s_ < std::min(kLongestInterval_s, write_cost_s_ / kWriteShare)) return;
  results.render();
  results.write(false, 0);
  last_write_s_ = host_seconds();
  write_cost_s_ = last_write_s_ - now;
}

void Runtime::enter() {
  ++depth_;
  trial.open();
}

void Runtime::leave() {
  trial.close();
  if (--depth_ == 0) forget_host_calls();
}

hipError_t call(const std::function<hipError_t(Runtime&)>& body) {
  Runtime& rt = Runtime::get();
  std::lock_guard<std::recursive_mutex> lock(rt.mutex);
  if (!rt.device) {
    static bool told = false;
    if (!told) std::fprintf(stderr, "hipsynth: no device: %s\n", rt.unavailable.c_str());
    told = true;
    return finish(hipErrorNoDevice);
  }
  const struct Entered {
    Runtime& rt;
    explicit Entered(Runtime& runtime) : rt(runtime) { rt.enter(); }
    ~Entered() { rt.leave(); }
  } entered(rt);
  try {
    const hipError_t error = body(rt);
    rt.run_held_back();
    return finish(error);
  } catch (const SimError& error) {
    if (error.reason == Reason::out_of_memory) {
      rt.tell(Notice::out_of_memory, error.what(), std::string("out of device memory: ") + error.what());
      return finish(hipErrorOutOfMemory);
    }
    return finish(rt.fail(error.reason, error.what()));
  } catch (const std::bad_alloc&) {
    return finish(hipErrorOutOfMemory);
  } catch (const std::exception& error) {
    return finish(rt.fail(Reason::internal_error, error.what()));
  }
}

}  // namespace hipsynth::runtime
