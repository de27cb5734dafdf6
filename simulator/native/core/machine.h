// Interface of the simulated device for the HIP runtime library and the Python binding.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "core/dispatch.h"
#include "core/inst.h"
#include "core/reason.h"
#include "device_spec.h"

namespace hipsynth {

// An error of the simulated program; the name of its reason is kept in corpora.
struct SimError : std::runtime_error {
  SimError(Reason reason_, const std::string& message) : std::runtime_error(message), reason(reason_) {}
  Reason reason;
  std::string output, errors;  // what the kernel had printed before the error
  uint64_t instruction = 0;    // its address in the code object, if an instruction caused it
};

// CPU time of this process in seconds, so that time limits do not depend on the load of the host.
double processor_seconds();

// Device memory: one arena at a fixed host address, so that a device pointer is also a valid host pointer with the same
// value in every run. Allocations are 4 KiB aligned like the ROCr allocator's and separated by guard gaps.
class Memory {
 public:
  // host: pinned, outside the device's own memory; heap: for device-side malloc; code and kernarg: internal to the
  // simulator.
  enum class Kind : uint8_t { device, managed, host, heap, code, kernarg };
  static constexpr uint64_t kPageBytes = 4096;
  static constexpr uint64_t kInternalBytes = 1ull << 38;  // code, kernel arguments, scratch: the start of the memory
  // `limit_bytes`: capacity for device, managed and heap memory together. `sampled`: large grids will be sampled.
  explicit Memory(uint64_t limit_bytes, bool sampled = false);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  void* allocate(uint64_t bytes, Kind kind, uint64_t align = kPageBytes);  // throws SimError out_of_memory
  bool release(void* p);                                                   // false: not the start of an allocation
  struct Allocation {
    uint64_t start, bytes;
    Kind kind;
    uint64_t id = 0;  // never used again, as addresses are
  };
  void release_user(const std::function<bool(const Allocation&)>& keep);  // all but internal and kept allocations
  void clear(void* p, uint64_t bytes);         // zero-fills without touching pages that are still untouched
  void add_external(void* p, uint64_t bytes);  // hipHostRegister
  void remove_external(void* p);

  // Virtual memory management: address ranges, and pages that are mapped into them. All sizes are whole pages.
  uint64_t reserve(uint64_t bytes, uint64_t align);  // throws SimError out_of_memory
  bool unreserve(uint64_t start, uint64_t bytes);    // false: no such range, or it has mappings
  bool map(uint64_t at, void* pages);    // moves an allocation's pages there; false: range in use or not reserved
  bool unmap(uint64_t at, void* pages);  // moves the pages back
  std::vector<Allocation> user_allocations() const;  // by address; without code, kernel arguments and the heap
  // A device allocation at this offset from start(). Throws SimError out_of_memory if anything is there.
  void* allocate_at(uint64_t offset, uint64_t bytes);
  // Writes `data` every `period` bytes, and zeros between, to so many bytes of an allocation, which are in huge pages
  // from here on.
  void fill(void* start, uint64_t bytes, const uint8_t* data, uint64_t data_bytes, uint64_t period);
  // The allocation that contains [p, p + bytes), or null.
  const Allocation* find(uint64_t p, uint64_t bytes) const;
  bool overlaps(uint64_t p, uint64_t bytes) const;  // whether any allocation contains a byte of that range
  bool owns(uint64_t p) const;                      // whether p is an address in device memory, allocated or not
  // Whether hardware has [p, p + bytes) mapped, allocated or not: ROCr's allocator maps whole pages and takes
  // allocations below 2 MiB from 2 MiB blocks.
  bool mapped(uint64_t p, uint64_t bytes) const;
  const Allocation* nearest(uint64_t p) const;  // the user allocation closest to p, for messages; or null
  const Allocation* freed(uint64_t p) const;    // the released allocation that last contained p, for messages; or null
  const Allocation* preceding(uint64_t p) const;  // the last allocation that starts at p or before it; or null
  uint64_t start() const;                         // the lowest address of device memory
  uint64_t moved() const;                         // the bits of start() that are not those of a process's first device
  uint64_t layout() const;                        // equal if the same allocations exist
  uint64_t used() const;
  uint64_t limit() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

struct KernelArg {
  uint32_t offset, size;
  std::string kind;
};  // kind: value_kind of the AMDGPU metadata

struct KernelInfo {
  std::string symbol;  // mangled name without ".kd"
  std::string name;    // demangled
  uint32_t entry = 0;  // index into Code::insts
  uint32_t end = 0;    // one past the last instruction of the symbol
  uint32_t kernarg_bytes = 0, lds_bytes = 0, scratch_bytes = 0;
  uint32_t vgprs = 0, agprs = 0, sgprs = 0, accum_offset = 0, max_flat_workgroup = 1024;
  bool dynamic_stack = false;
  uint32_t rsrc1 = 0, rsrc2 = 0, rsrc3 = 0, code_properties = 0, kernarg_preload = 0;
  std::vector<KernelArg> args;
};

// A loaded code object: decoded text, and data segments relocated in device memory.
class Module {
 public:
  // `elf`: the code object's bytes; `disassembly`: output of llvm-objdump -d for it. Throws SimError "bad_code_object".
  // Instructions that cannot execute do not fail the load: Device::launch rejects the kernels that can reach them.
  ~Module();
  static std::unique_ptr<Module> load(Arch arch, Memory& memory, const std::vector<uint8_t>& elf,
                                      const std::string& disassembly);
  // A module with the single kernel `kernel`, whose code is assembler text. For tests and fuzzing.
  static std::unique_ptr<Module> from_text(Arch arch, Memory& memory, const std::string& text, KernelInfo kernel);
  const KernelInfo* kernel(const std::string& symbol) const;
  std::vector<const KernelInfo*> kernels() const;
  // Device address and size of a global variable; (0, 0) if there is none.
  std::pair<uint64_t, uint64_t> global(const std::string& symbol) const;
  // Symbol -> device address and size of the global variables.
  const std::map<std::string, std::pair<uint64_t, uint64_t>>& globals() const { return globals_; }
  const Code& code() const { return code_; }
  // Instructions whose address is stored in data (function pointers, virtual tables): possible targets of indirect
  // calls.
  const std::vector<uint32_t>& address_taken() const { return address_taken_; }
  const std::vector<uint32_t>& functions() const { return functions_; }  // entry instruction of every function
  uint64_t serial() const { return serial_; }                            // unique among the modules of a process
  uint64_t image_base() const { return image_base_; }  // device address of the code object's address 0
  uint64_t address_of(uint32_t instruction) const;     // device address; that of the end for one behind the last
  const std::vector<std::string>& printf_formats() const { return printf_formats_; }  // metadata "amdhsa.printf"

 private:
  Code code_;
  std::vector<uint32_t> address_taken_, functions_;
  std::map<std::string, KernelInfo> kernels_;
  std::map<std::string, std::pair<uint64_t, uint64_t>> globals_;
  std::vector<std::string> printf_formats_;
  uint64_t image_base_ = 0, image_bytes_ = 0, serial_ = 0;
  Memory* memory_ = nullptr;
  friend struct ModuleLoader;
};

struct Launch {
  const Module* module = nullptr;
  const KernelInfo* kernel = nullptr;
  Dim3 grid;   // work-groups
  Dim3 block;  // work-items per work-group
  uint32_t dynamic_lds = 0;
  std::vector<uint8_t> args;  // explicit arguments at their metadata offsets; hidden ones are filled in
  bool cooperative = false;   // all work-groups are resident at once and may wait for each other
  uint32_t stack_bytes = 0;   // least private memory of a lane where calls decide how much a kernel needs
};

struct DeviceOptions {
  bool count = true;  // model caches and count memory events (false: functional only)
  uint64_t max_wave_instructions = 2'000'000'000ull;
  uint64_t memory_bytes = 8ull << 30;
  double cpu_seconds = 0;              // CPU time limit of this process for one kernel; 0: none
  void (*poll)() = nullptr;            // called often while a kernel is timed; may throw, to end the launch
  bool values = true;                  // false: run only what affects counters; kernel results are not computed
  uint32_t sampling_units = 0;         // large grids: sampling units between the first and the last; 0: no sampling
  uint64_t sample_above = 60'000'000;  // a dispatch with at most this much work (sampling/sampler.cpp) runs exactly
  uint32_t replayable = 16;            // replays take up to so many times that work in all; those of 16 are free
  bool in_part = false;                // a grid whose replay would take more is replayed in part, if that says enough
  uint32_t repeatable = 10;            // what a sample says nothing of runs in full, up to so many times that work
  // A sampled dispatch with a more uncertain duration (relative) is executed again, more finely; 0: none is.
  double largest_error = 0;
  bool strict_bounds = true;  // false: out-of-bounds accesses to memory that hardware has mapped only give a warning
  bool races = false;         // look for accesses to one word that nothing puts in order (core/access_log.h)
  bool exact_sums = false;    // atomics that add floating-point numbers carry what rounding loses (execute/atomics.h)
  uint32_t one_in = 1;        // functional runs execute a share of the work-groups (GroupShare); 1: all
  uint32_t which = 0;
  uint8_t lds_fill = 0;     // the byte that fills a work-group's LDS when it begins
  bool host_calls = false;  // kernels may call host functions
  uint32_t per_kernel = 0;  // launches of a kernel and shape that are counted, later ones only run; 0: all
  bool reuse = true;        // dispatches that must have the counters of an earlier one get them without being counted
  bool keep_l2 = false;     // dispatches find in the L2 what earlier ones left, as without a profiler; implies no reuse
  bool counters = true;     // false: report only the duration of a dispatch, which makes short launches cheaper
  bool lines = false;       // keep what each instruction did (core/tally.h); implies no reuse
  double budget_s = 0;  // work of all launches together, in seconds at fixed prices (dispatch/budget.h); 0: no limit
};

class InstructionTally;
enum class Observed : uint8_t;
struct SharingOptions;
class Sharing;

class Device {
 public:
  Device(Arch arch, const Spec& spec, const DeviceOptions& options);
  ~Device();
  Memory& memory();
  Arch arch() const;
  const Spec& spec() const;
  // Throws SimError; "unsupported_opcode" lists all such instructions before anything runs. Cache state carries over to
  // the next launch.
  Dispatch launch(const Launch& launch);
  // Whether addresses or control flow of a kernel may depend on what its vector loads read.
  bool decided_by_data(const Module& module, const KernelInfo& kernel);
  const InstructionTally* tally() const;  // null without DeviceOptions::lines
  // From here on: DeviceOptions::sampling_units and, from nothing, DeviceOptions::lines.
  void observe_launches(uint32_t sampling_units, bool lines);
  // Whether launches from here on are sampled coarsely, to compare them, or as DeviceOptions say; either way from empty
  // caches. False, and nothing changes, where grids are not sampled, or no more finely than that.
  bool sample_coarsely(bool coarse);
  // Follows which lines each work-group of the launch would use, without running it (core/sharing.h). Throws SimError.
  Observed observe(const Launch& launch, const SharingOptions& options, Sharing* out);
  void forget(const Module& module);  // which is unloaded: drops what was worked out of its code
  void empty_l2();                    // as a copy by the host does; with keep_l2, as it is empty without
  void reset();  // clears the state that kernels left behind: caches, the heap of device-side malloc

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace hipsynth
