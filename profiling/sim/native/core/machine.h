// The simulated device as its two users see it: the HIP runtime library and the Python binding.
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
#include "device_spec.h"

namespace hipsynth {

// A clear result instead of a crash: `reason` is a short code kept in corpora
// ("illegal_access", "instruction_limit", "trap", "deadlock", "unsupported_opcode", "bad_code_object",
// "out_of_memory", "assertion", "unsupported_service").
struct SimError : std::runtime_error {
  SimError(std::string reason_, const std::string& message) : std::runtime_error(message), reason(std::move(reason_)) {}
  std::string reason;
  std::string output, errors;  // what the kernel had printed until then, to stdout and stderr
};

// Device memory: one arena reserved at a fixed host address, so a device pointer is a host pointer with the
// same value on every run. Allocations are 4 KiB aligned like the ROCr allocator's and have guard gaps.
class Memory {
 public:
  // host: pinned, outside the device's own memory; heap: of device-side malloc; code and kernarg: the simulator's own.
  enum class Kind : uint8_t { device, managed, host, heap, code, kernarg };
  static constexpr uint64_t kPageBytes = 4096;
  // `limit_bytes`: of device, managed and heap memory together. `sampled`: large grids will run in part.
  explicit Memory(uint64_t limit_bytes, bool sampled = false);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  void* allocate(uint64_t bytes, Kind kind, uint64_t align = kPageBytes);  // throws SimError out_of_memory
  bool release(void* p);                                                   // false: not the start of an allocation
  struct Allocation {
    uint64_t start, bytes;
    Kind kind;
  };
  void release_user(const std::function<bool(const Allocation&)>& keep);  // everything that is not the simulator's own
  void clear(void* p, uint64_t bytes);         // zeros, without touching pages that are still untouched
  void add_external(void* p, uint64_t bytes);  // hipHostRegister
  void remove_external(void* p);

  // Virtual memory management: ranges of addresses, and pages that move between them. All sizes are whole pages.
  uint64_t reserve(uint64_t bytes, uint64_t align);  // throws SimError out_of_memory
  bool unreserve(uint64_t start, uint64_t bytes);    // false: no such range, or something is mapped in it
  bool map(uint64_t at, void* pages);                // moves an allocation there; false: not free, not reserved
  bool unmap(uint64_t at, void* pages);              // and back
  // The allocation that holds [p, p + bytes), or null.
  const Allocation* find(uint64_t p, uint64_t bytes) const;
  bool owns(uint64_t p) const;  // a place in device memory, allocated or not
  // Whether hardware maps [p, p + bytes), allocated or not: ROCr's allocator maps whole pages, and carves what is
  // smaller than 2 MiB out of blocks of 2 MiB.
  bool mapped(uint64_t p, uint64_t bytes) const;
  const Allocation* nearest(uint64_t p) const;  // the user's allocation closest to p, for messages; or null
  const Allocation* freed(uint64_t p) const;    // the released allocation that held p last, for messages; or null
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

// One loaded code object: decoded text, data segments placed in device memory and relocated.
class Module {
 public:
  // `elf`: the code object's bytes; `disassembly`: llvm-objdump -d of it. Throws SimError "bad_code_object".
  // Instructions that cannot run do not stop a load: Device::launch refuses the kernels that reach them.
  ~Module();
  static std::unique_ptr<Module> load(Arch arch, Memory& memory, const std::vector<uint8_t>& elf,
                                      const std::string& disassembly);
  // A module of one kernel, `kernel`, whose code is assembler lines from the first one on. For tests and fuzzing.
  static std::unique_ptr<Module> from_text(Arch arch, Memory& memory, const std::string& text, KernelInfo kernel);
  const KernelInfo* kernel(const std::string& symbol) const;
  std::vector<const KernelInfo*> kernels() const;
  // Device address and size of a global variable, (0, 0) when absent.
  std::pair<uint64_t, uint64_t> global(const std::string& symbol) const;
  const Code& code() const { return code_; }
  // Instructions whose address stands in data (function pointers, virtual tables): where indirect calls may lead.
  const std::vector<uint32_t>& address_taken() const { return address_taken_; }
  const std::vector<uint32_t>& functions() const { return functions_; }  // entry instruction of every function
  uint64_t serial() const { return serial_; }                            // different for every module of a process
  uint64_t image_base() const { return image_base_; }  // device address of the code object's address 0
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
  std::vector<uint8_t> args;  // explicit arguments laid out at their metadata offsets; hidden ones are filled in
  bool cooperative = false;   // all work-groups are resident at once and may wait for each other
};

struct DeviceOptions {
  bool count = true;  // cache models and memory counters (off: functional only)
  uint64_t max_wave_instructions = 2'000'000'000ull;
  uint64_t memory_bytes = 8ull << 30;
  double cpu_seconds = 0;              // of this process during one kernel; 0: no limit inside the core
  bool values = true;                  // false: skip what decides no counter; kernels' results are not computed
  uint32_t sampling_units = 0;         // large grids: parts that run between the first and the last; 0: all of it
  uint64_t sample_above = 60'000'000;  // work (sampling/sampler.cpp) up to which a dispatch is exact anyway
  bool strict_bounds = true;           // false: accesses to what hardware maps around allocations go on, with a warning
  bool host_calls = false;             // kernels may call functions of the host program
  bool counters = true;                // false: of a dispatch only its duration is told: short launches cost less
};

class Device {
 public:
  Device(Arch arch, const Spec& spec, const DeviceOptions& options);
  ~Device();
  Memory& memory();
  Arch arch() const;
  const Spec& spec() const;
  // Throws SimError, "unsupported_opcode" with the complete list before anything runs; cache state carries over.
  Dispatch launch(const Launch& launch);
  void reset();  // forgets what kernels left behind: caches, the heap of device-side malloc

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace hipsynth
