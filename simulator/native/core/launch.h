// From a kernel descriptor and a launch request to the initial state of every wave.
#pragma once

#include <cstdint>
#include <vector>

#include "core/footprint.h"
#include "core/machine.h"
#include "core/state.h"

namespace hipsynth {

inline constexpr uint32_t kMaxScratch = 256u << 10;  // private bytes of a lane; the hardware's limit is 128 KiB

// Work-groups of a kernel that fit on one CU, and the resource that limits them.
struct Occupancy {
  uint32_t waves_per_group = 0, groups_per_cu = 0, waves_per_simd_limit = 0;
  Limiter limiter = Limiter::wave_slots;
};
Occupancy occupancy_of(const Spec& spec, const KernelInfo& kernel, const Dim3& block, uint32_t lds_bytes);

// Device memory owned by the runtime rather than the user: arguments, dispatch packet, printf buffer, scratch.
class RuntimeMemory {
 public:
  explicit RuntimeMemory(Memory& memory);
  ~RuntimeMemory();
  RuntimeMemory(const RuntimeMemory&) = delete;
  RuntimeMemory& operator=(const RuntimeMemory&) = delete;

  uint64_t kernarg(uint64_t bytes);  // grows as needed, zeroed
  uint64_t packet = 0, queue = 0, printf_buffer = 0, zeros = 0;
  uint64_t grid_barrier = 0;           // state of the grid barrier of cooperative kernels
  uint64_t host_buffer = 0, heap = 0;  // HostServices' buffers, if the kernel uses them
  static constexpr uint32_t kPrintfBytes = 4u << 20;
  Extent block() const { return {block_, 4096 + kPrintfBytes}; }  // the packet and everything before scratch()
  uint64_t scratch(uint64_t bytes);  // grows as needed, contents undefined (zero when fresh)

 private:
  Memory& memory_;
  uint64_t kernarg_ = 0, kernarg_bytes_ = 0, scratch_ = 0, scratch_bytes_ = 0, block_ = 0;
};

struct LaunchPlan {
  Occupancy occupancy;
  uint32_t threads = 0, rows = 0, lds_bytes = 0, lds_room = 0;  // lds_room: what hardware allocates
  uint32_t vgprs = 0, agprs = 0;  // rows that instructions can name; cleared at the start of a wave
  uint32_t sgprs = kScalarRegs;   // likewise, without the special registers (VCC, M0, EXEC ...)
  uint32_t entry = 0;
  uint32_t xcds = 1;
  uint32_t scratch_lane_bytes = 0, scratch_wave_bytes = 0;
  uint64_t kernarg = 0, kernarg_bytes = 0, total_groups = 0;
  Wave initial;                 // scalar state common to all waves; only the rows that instructions can reach
  std::vector<uint32_t> items;  // v0 of every lane of a work-group: the packed work-item ids
  uint32_t system_sgpr = 0;     // first SGPR of the work-group ids
};

// Checks the launch request and fills the kernel arguments and the dispatch packet. Throws SimError "bad_launch".
LaunchPlan plan_launch(Arch arch, const Spec& spec, const Launch& launch, RuntimeMemory& memory);

// A wave's work-group, its index there, and its scratch slot.
struct WavePlace {
  WorkGroup* group;
  uint32_t index, slot;
};
// Initialises `r`, taken from a pool with arbitrary contents, as a wave at its first instruction. Does not set up its
// vector registers.
void start_wave(Arch arch, const LaunchPlan& plan, const Launch& launch, uint64_t scratch_base, const WavePlace& place,
                Resident* r);
// Clears the vector registers of a wave that has not used them yet and stores the work-item ids there.
void set_up_rows(const LaunchPlan& plan, Resident* r);

// Text of the printf calls in the buffer, for stdout and for stderr; an unreadable record ends it with a note.
struct PrintfText {
  std::string output, errors;
};
PrintfText read_printf(const uint8_t* buffer, uint32_t bytes, const std::vector<std::string>& formats);
void reset_printf(uint8_t* buffer, uint32_t bytes);
// Formats one call whose format string is stored before its arguments, as both kinds of printf do.
std::string format_printf(const uint8_t* begin, const uint8_t* end);

}  // namespace hipsynth
