// The state of one HIP program: device, clock, streams, registered symbols. It is accessed through Runtime::get() and
// guarded by one recursive mutex, held for the duration of an API call.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "capture.h"
#include "config.h"
#include "core/machine.h"
#include "deferred_work.h"
#include "hip_abi.h"
#include "results.h"
#include "timeline.h"
#include "trial.h"

struct ihipStream_t {
  unsigned flags = 0;
  int priority = 0;
  uint64_t id = 0;
  uint64_t capture = 0;           // the capture in progress, or 0
  uint64_t last_work = 0;         // number of the operation that was deferred last
  double tail_ns = 0;             // end time of all submitted work
  double modified_bytes = 0;      // in the L2s when its last kernel ended
  double kernel_end_ns = 0;       // of that kernel
  std::vector<uint32_t> cu_mask;  // CU mask set by the program, one bit per compute unit; empty: all
};

struct ihipEvent_t {
  unsigned flags = 0;
  bool recorded = false;
  double time_ns = 0;
  uint64_t id = 0;                        // never used again, as addresses are
  uint64_t work = 0;                      // number of the deferred operation that records it
  uint64_t capture = 0;                   // recorded during that capture, which may have ended; or 0
  hipsynth::runtime::Reached after = {};  // where in it
};

struct ihipModule_t {
  std::unique_ptr<hipsynth::Module> module;
  std::vector<uint8_t> elf;
  std::map<std::string, ihipModuleSymbol_t*> functions;
};

// A kernel as a handle (hipFunction_t).
struct ihipModuleSymbol_t {
  const hipsynth::Module* module = nullptr;
  const hipsynth::KernelInfo* info = nullptr;
  const std::vector<uint8_t>* elf = nullptr;  // the code object, if it was loaded at run time
  std::string variant;                        // see Results::add
  // Set by hipFuncSetAttribute, and only told to who asks:
  int max_dynamic_lds = -1;  // bytes; -1: not set
  int carveout = 0;          // preferred share of LDS in percent
};

namespace hipsynth::runtime {

// A kernel or variable of the program: its device symbol and code object.
struct Function {
  std::string name;
  size_t module = 0;
  std::string suffix;  // of file-local symbols in linked device code (-fgpu-rdc)
};

// An event that work refers to, which may be destroyed before the work is done.
struct EventReference {
  hipEvent_t event = nullptr;
  uint64_t id = 0;
};

// hipGraphNodeType
enum class NodeType : int {
  kernel = 0,
  memcpy = 1,
  memset = 2,
  host = 3,
  graph = 4,
  empty = 5,
  event_wait = 6,
  event_record = 7,
  mem_alloc = 10,
  mem_free = 11,
};

struct Variable {
  std::string name;
  size_t size = 0;
  size_t module = 0;
  std::string suffix;            // of file-local symbols in linked device code (-fgpu-rdc)
  void** managed = nullptr;      // the host pointer variable of a __managed__ object
  void* storage = nullptr;       // its memory
  std::vector<uint8_t> initial;  // initial contents of a __managed__ object
};

// A variable in a code object; without an address if it is not there.
struct DeviceSymbol {
  std::string name;
  uint64_t address = 0, size = 0;
};
DeviceSymbol symbol_of(const Module& module, const Variable& variable);  // symbol.cpp

// Host memory that the device can access.
struct Pinned {
  unsigned flags = 0;
  bool registered = false;  // memory of the program's own (hipHostRegister), not of hipHostMalloc
};

// A function of the host that a stream executes, without the lock. What other threads submit behind it comes after the
// call of the API that executes it.
struct HostCall {
  std::thread::id thread;
  uint64_t stream = 0;
  bool non_blocking = false;  // the stream
};

struct CallConfiguration {
  dim3 grid, block;
  size_t lds;
  hipStream_t stream;
};

class Runtime {
 public:
  static Runtime& get();  // created on first use, never destroyed: static destructors may still call the API

  std::recursive_mutex mutex;
  Config config;
  std::set<std::string> racing_kernels;    // symbols of kernels already reported for a race
  std::set<std::string> unfenced_kernels;  // likewise for a race that only a fence would prevent
  size_t stack_limit = 1024;               // bytes a lane (hipLimitStackSize)
  std::set<std::string> warned_kernels;    // symbols of kernels already reported for out-of-bounds accesses
  std::set<std::string> refused_kernels;   // symbols of kernels already reported for a launch that was refused
  Results results;
  Trial trial;
  SharingFile sharing;
  LaunchRecorder recorder;
  std::unique_ptr<Device> device;  // null if the program was started without a configuration
  std::string unavailable;         // why there is no device

  std::map<const void*, Function> functions;  // host stub -> kernel symbol
  std::map<const void*, Variable> variables;  // host shadow -> device symbol
  std::set<hipStream_t> streams;
  std::map<uint64_t, Capture> captures;
  std::set<hipEvent_t> events;
  std::set<hipModule_t> modules;
  std::map<const void*, Pinned> pinned;               // by address
  std::map<uint64_t, std::map<int, int>> placement;   // advice by allocation and attribute (placement.cpp)
  std::map<const void*, ihipModuleSymbol_t> kernels;  // host stub -> resolved kernel
  const char* volatile running = nullptr;             // the kernel being simulated, for crash messages; set by dispatch
  std::string failure;                                // of an embedded process: reason, new line, message; "" if none
  bool ended = false;       // the program: its stacks are gone, its functions may not be called
  double uncertain_ns = 0;  // of launches since their caches were cleared (scripts.cpp)

  Memory& memory() { return device->memory(); }
  const Spec& spec() const { return config.spec; }  // zeros without a configuration

  Timeline timeline;
  DeferredWork deferred;
  // Adds `ns` of work to the stream of the current operation; `blocking`: the host waits for it.
  void occupy(Timeline::Engine engine, double share, double ns, bool blocking = false);
  // Time from the submission of a kernel to its begin, in ns, which its duration does not contain; less than 0 if part
  // of the duration overlaps with the kernel before it.
  double launch_gap() const;
  // Keeps what a kernel left modified for the stream's next one.
  void leave_modified(const Dispatch& done);
  // What comes next is queued, as behind the kernel that overwrites all caches before each run of a benchmark.
  void queue_behind_clearing();
  // Earliest start of a new operation of the stream: the default stream and blocking streams wait for each other.
  double ready(const ihipStream_t& stream) const;
  double now() const { return ready(current_ != nullptr ? *current_ : default_stream_); }

  // One of the code objects built with the program, loaded on first use. Throws SimError.
  Module& program(size_t index = 0);
  const Module* loaded_program(size_t index) const;  // null if it is not loaded
  void unload(hipModule_t module);                   // one that the program loaded, which is no longer in `modules`
  // Tells the trial what is left in the variables of modules that were loaded.
  void digest_variables();
  // hipDeviceReset: destroys memory, streams, events, graphs and modules; restores the variables' initial values.
  void reset();
  // The kernel of a host stub, or null. Throws SimError.
  ihipModuleSymbol_t* kernel(const void* stub);
  const ihipModuleSymbol_t* find_function(const void* handle) const;  // a hipFunction_t; null if it is none

  hipStream_t add_stream(unsigned flags, int priority);
  // Resolves a stream handle: null and hipStreamLegacy mean the default stream, hipStreamPerThread one of the calling
  // thread. Null if invalid.
  ihipStream_t* stream(hipStream_t handle);
  // The capture that a stream takes part in, or null.
  Capture* capture_of(const ihipStream_t& stream);
  bool executing() const { return current_ != nullptr; }  // the work of a stream
  bool is_default(hipStream_t handle) { return stream(handle) == &default_stream_; }
  bool is_default(const ihipStream_t& stream) const { return &stream == &default_stream_; }
  hipError_t submit(hipStream_t stream, Operation operation, NodeType type = NodeType::empty);
  // The host waits: what was deferred of a stream, up to an event, or at all is executed. Return the first error.
  hipError_t complete_stream(const ihipStream_t& stream);
  hipError_t complete_event(const ihipEvent_t& event);
  hipError_t complete_all();
  // Whether a query of a stream or an event finds deferred work that is not done; the next one waits for it.
  bool still_working(const ihipStream_t& stream);
  bool still_working(const ihipEvent_t& event);
  void complete_others();                                          // than the operation that asks for it
  void complete_at_exit();                                         // call with the lock
  ihipEvent_t* find_event(const EventReference& reference) const;  // null if it has been destroyed
  // What is submitted to the stream from now on comes after what was submitted before the event was recorded.
  void order_behind_event(ihipStream_t& stream, const ihipEvent_t& event);
  // Calls a function of the program without the lock, so that it may wait for another thread.
  void call_host(const std::function<void()>& function);
  void run_held_back();         // an API call ends well: what other threads submitted behind its functions of the host
  void retire_thread_stream();  // the calling thread ends, and so does its hipStreamPerThread
  void enter();                 // an API call begins, with the lock
  void leave();

  [[noreturn]] void stop(Reason reason, const std::string& message);
  [[noreturn]] void stop(const std::string& reason, const std::string& message);  // as Results::fail
  // Ends the program, or keeps the failure for the process that it is embedded in.
  hipError_t fail(Reason reason, const std::string& message);
  // The results from here on are a new document, of an idle device with empty caches; see Device::observe_launches.
  void begin_results(uint32_t sampling_units, bool lines);
  void check_time();  // stops the program if it has used its processor time
  // Says on stderr, once, what had to be refused, and keeps it in the results.
  void tell(Notice kind, const std::string& subject, const std::string& message);
  void checkpoint();  // writes results if enough time has passed since the last write

 private:
  Runtime();
  std::map<size_t, std::unique_ptr<Module>> programs_;
  ihipStream_t default_stream_;
  std::map<std::thread::id, hipStream_t> thread_streams_;  // hipStreamPerThread
  std::vector<hipStream_t> retired_streams_;               // of threads that have ended; some may have work left
  std::vector<HostCall> host_calls_;                       // in progress
  std::condition_variable_any host_calls_ended_;
  uint64_t last_stream_id_ = 0;
  ihipStream_t* current_ = nullptr;  // the stream whose operation is being executed
  int depth_ = 0;                    // API calls in progress, each of which holds the lock
  void watch_time();
  void delete_retired_streams();                               // those that have no work left
  bool is_behind_host_call(const ihipStream_t& stream) const;  // of another thread
  bool are_behind_host_call(const std::vector<uint64_t>& numbers) const;
  bool is_held_back(const ihipStream_t& stream) const;  // its next operation, where work is not deferred
  void wait_for_host_calls(const std::function<bool()>& behind);
  void forget_host_calls();  // of this thread
  hipError_t execute(ihipStream_t& stream, const Operation& operation);
  std::vector<uint64_t> earlier_work(const ihipStream_t& stream) const;
  std::vector<uint64_t> work_of(const ihipStream_t& stream) const;  // that a wait for it waits for
  double last_write_s_ = -1e9, write_cost_s_ = 0;
};

// Error bookkeeping of the calling thread (error.cpp).
hipError_t finish(hipError_t error);
hipError_t not_supported(const char* function);

// Runs one API call: locks, fails if there is no device, turns exceptions into error codes or ends the program.
hipError_t call(const std::function<hipError_t(Runtime&)>& body);

// SIZE_MAX on overflow: more than there is of anything.
inline size_t saturating_product(size_t a, size_t b) {
  size_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? SIZE_MAX : product;
}

// Allocation (memory.cpp).
hipError_t allocate(Runtime& rt, void** out, size_t bytes, Memory::Kind kind);
void allocate_at(Runtime& rt, void* p, size_t bytes);  // device memory; throws SimError if something else lies there
bool release_at_once(Runtime& rt, void* p);            // without waiting for deferred work
hipError_t release(void* p, bool host);                // by the host or the device family of functions
// Pools (pools.cpp).
bool known(hipMemPool_t pool);
void leave_pool(const void* p);  // `p` is released
void empty_pools();

// Kernel launch (launch.cpp).
struct LaunchRequest {
  const ihipModuleSymbol_t* kernel = nullptr;
  dim3 grid, block;
  size_t dynamic_lds = 0;
  std::vector<uint8_t> args;
  bool cooperative = false;
  const void* function = nullptr;  // as the program named it: a host stub, or a hipFunction_t
};
hipError_t check_shape(Runtime& rt, const LaunchRequest& request);
hipError_t check_cooperative(Runtime& rt, const LaunchRequest& request);
uint32_t explicit_bytes(const KernelInfo& kernel);  // size of the explicit kernel arguments
std::vector<uint8_t> pack_arguments(const KernelInfo& kernel, void** args);
// Where each argument lies in what was packed, as kernelParams.
std::vector<void*> argument_pointers(const KernelInfo& kernel, std::vector<uint8_t>& packed);
// False if `extra` is malformed.
bool pack_extra(void** extra, std::vector<uint8_t>& packed);
bool asks_cooperative(const hipLaunchAttribute* attributes, unsigned count);
hipError_t launch(Runtime& rt, const LaunchRequest& request, hipStream_t stream);

// Occupancy (occupancy.cpp): whether a CU has the LDS for a work-group, and how many of `block` work-items fit on it.
bool lds_fits(const Runtime& rt, const KernelInfo& kernel, uint64_t dynamic_lds);
int resident_workgroups(Runtime& rt, const KernelInfo& kernel, uint32_t block, uint64_t dynamic_lds);

// Graphs (graph.cpp).
void forget_graphs();
void forget_mappings();  // virtual_memory.cpp

// Disassembles a code object loaded at run time (code_object.cpp); for image formats see offload_image.h.
std::string disassemble(const std::string& objdump, const std::vector<uint8_t>& elf);
// "; source line FILE:LINE" of an instruction, by its address; "" if it is 0 or no line table says.
std::string source_line(const Runtime& rt, const ihipModuleSymbol_t& kernel, uint64_t instruction);

}  // namespace hipsynth::runtime
