// The state of one HIP program: device, clock, streams, registered symbols. All of it is reached through
// Runtime::get() and guarded by one recursive mutex, held for the length of an API call.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "config.h"
#include "core/machine.h"
#include "hip_abi.h"
#include "results.h"
#include "timeline.h"

struct ihipStream_t {
  unsigned flags = 0;
  int priority = 0;
  uint64_t id = 0;
  ihipGraph* capture = nullptr;   // the graph being recorded, or null
  double tail_ns = 0;             // when all that was submitted is done
  std::vector<uint32_t> cu_mask;  // that its program asked for, one bit for each compute unit; empty: all
};

struct ihipEvent_t {
  unsigned flags = 0;
  bool recorded = false;
  double time_ns = 0;
  ihipStream_t* capture_stream = nullptr;  // recorded while that stream was capturing
};

struct ihipModule_t {
  std::unique_ptr<hipsynth::Module> module;
  std::map<std::string, ihipModuleSymbol_t*> functions;
};

// A kernel as a handle (hipFunction_t).
struct ihipModuleSymbol_t {
  const hipsynth::Module* module = nullptr;
  const hipsynth::KernelInfo* info = nullptr;
  int max_dynamic_lds = 0;
};

namespace hipsynth::runtime {

// Work in a stream: executed at once, or stored in a graph while the stream captures.
using Operation = std::function<hipError_t()>;

// A kernel or variable of the program: its device symbol, and in which code object.
struct Function {
  std::string name;
  size_t module = 0;
  std::string suffix;  // of names that only their own file knows, where the device code of several files is linked
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
  void** managed = nullptr;      // the host pointer variable of a __managed__ object
  void* storage = nullptr;       // its memory
  std::vector<uint8_t> initial;  // what a __managed__ object holds at first
};

struct CallConfiguration {
  dim3 grid, block;
  size_t lds;
  hipStream_t stream;
};

class Runtime {
 public:
  static Runtime& get();  // made on first use, never destroyed: static destructors may still call the API

  std::recursive_mutex mutex;
  Config config;
  std::set<std::string> warned_kernels;  // symbols of those that left their arrays
  Results results;
  std::unique_ptr<Device> device;  // null when the program was started without a configuration
  std::string unavailable;         // why, in that case

  std::map<const void*, Function> functions;  // host stub -> kernel symbol
  std::map<const void*, Variable> variables;  // host shadow -> device symbol
  std::set<hipStream_t> streams;
  std::set<hipEvent_t> events;
  std::set<hipModule_t> modules;
  std::map<const void*, unsigned> pinned;             // hipHostMalloc and hipHostRegister pointers -> flags
  std::map<uint64_t, std::map<int, int>> placement;   // advice by allocation and attribute (placement.cpp)
  std::map<const void*, ihipModuleSymbol_t> kernels;  // host stub -> resolved kernel
  const char* volatile running = nullptr;             // the kernel being simulated, for crash messages

  Memory& memory() { return device->memory(); }
  double spec(const std::string& key) const;  // an entry of the arch table, 0 when absent

  Timeline timeline;
  // Places `ns` of work in the stream of the operation that is being executed; `blocking`: the host waits for it.
  void occupy(Timeline::Engine engine, double share, double ns, bool blocking = false);
  // When a new operation of the stream may begin: the default stream and blocking streams wait for each other.
  double ready(const ihipStream_t& stream) const;
  double now() const { return ready(current_ != nullptr ? *current_ : default_stream_); }

  // One of the program's own code objects, loaded on first use. Throws SimError.
  Module& program(size_t index = 0);
  // hipDeviceReset: memory, streams, events, graphs and modules go; variables have their first values again.
  void reset();
  // The kernel of a host stub or null. Throws SimError.
  ihipModuleSymbol_t* kernel(const void* stub);

  // The stream's handle resolved (null and the special handles are the default stream), or null when invalid.
  ihipStream_t* stream(hipStream_t handle);
  bool is_default(hipStream_t handle) { return stream(handle) == &default_stream_; }
  hipError_t submit(hipStream_t stream, Operation operation, NodeType type = NodeType::empty);

  [[noreturn]] void stop(const std::string& reason, const std::string& message);
  void checkpoint();  // writes results if enough time has passed since the last write

 private:
  Runtime();
  std::map<size_t, std::unique_ptr<Module>> programs_;
  ihipStream_t default_stream_;
  ihipStream_t* current_ = nullptr;  // the stream whose operation is being executed
  double last_write_s_ = -1e9;
};

// Error bookkeeping of the calling thread (error.cpp).
hipError_t finish(hipError_t error);
hipError_t not_supported(const char* function);

// Runs one API call: locks, refuses when there is no device, turns exceptions into error codes or a stop.
hipError_t call(const std::function<hipError_t(Runtime&)>& body);

// Kernel launch (launch.cpp).
struct LaunchRequest {
  const ihipModuleSymbol_t* kernel = nullptr;
  dim3 grid, block;
  size_t dynamic_lds = 0;
  std::vector<uint8_t> args;
  bool cooperative = false;
};
hipError_t check_shape(Runtime& rt, const LaunchRequest& request);
hipError_t check_cooperative(Runtime& rt, const LaunchRequest& request);
uint32_t explicit_bytes(const KernelInfo& kernel);  // size of the arguments that the caller gives
std::vector<uint8_t> pack_arguments(const KernelInfo& kernel, void** args);
// Null when `extra` is malformed.
bool pack_extra(void** extra, std::vector<uint8_t>& packed);
hipError_t launch(Runtime& rt, const LaunchRequest& request, hipStream_t stream);

// Occupancy (occupancy.cpp): work-groups of `block` work-items that fit on one CU.
int resident_workgroups(Runtime& rt, const KernelInfo& kernel, uint32_t block, uint64_t dynamic_lds);

// Graphs (graph.cpp).
void graph_append(ihipGraph* graph, NodeType type, Operation operation);
void forget_graphs();
void forget_mappings();  // virtual_memory.cpp

bool known(hipMemPool_t pool);  // memory.cpp

// Code objects of the program's own (code_object.cpp); their format: offload_image.h.
std::string disassemble(const std::string& objdump, const std::vector<uint8_t>& elf);

}  // namespace hipsynth::runtime
