#include "core/launch.h"

#include <algorithm>
#include <cstring>

#include "core/wave_pool.h"
#include "isa/alu.h"

namespace hipsynth {
namespace {

// Code properties and resource words: "User Guide for AMDGPU Backend", sections Kernel Descriptor and
// Initial Kernel Execution State.
enum : uint32_t {
  kPrivateBuffer = 1,
  kDispatchPtr = 2,
  kQueuePtr = 4,
  kKernargPtr = 8,
  kDispatchId = 16,
  kFlatScratchInit = 32,
  kPrivateSize = 64
};
constexpr uint32_t kPreloadPrologue = 256;  // kernels with preloaded arguments start after the fallback loads
constexpr uint32_t kDynamicStackBytes = 16384;
constexpr uint32_t kMaxThreads = 1024;      // of one work-group
constexpr size_t kMaxArguments = 1u << 20;  // bytes
constexpr double kMaxGroups = 0x1p62;
constexpr uint32_t kScratchGranule = 1024;  // bytes of a wave: COMPUTE_TMPRING_SIZE.WAVESIZE counts 256 dwords (LLVM)

// HSA's kernel dispatch packet.
struct Packet {
  uint16_t header, setup, workgroup[3], reserved0;
  uint32_t grid[3], private_bytes, group_bytes;
  uint64_t kernel_object, kernarg, reserved1, signal;
};
static_assert(sizeof(Packet) == 64);

[[noreturn]] void bad_launch(const std::string& why) { throw SimError(Reason::bad_launch, why); }

uint32_t u32(double value) { return static_cast<uint32_t>(value); }
uint32_t round_up(uint32_t v, uint32_t to) { return (v + to - 1) / to * to; }

// Value of a hidden argument by its metadata kind; false if it stays zero.
bool hidden_value(const std::string& kind, const Launch& launch, const RuntimeMemory& memory, uint64_t* value) {
  const uint32_t grid[3] = {launch.grid.x, launch.grid.y, launch.grid.z};
  const uint32_t block[3] = {launch.block.x, launch.block.y, launch.block.z};
  const auto axis = static_cast<size_t>(kind.back() - 'x');
  if (kind.rfind("hidden_block_count_", 0) == 0 && axis < 3)
    *value = grid[axis];
  else if (kind.rfind("hidden_group_size_", 0) == 0 && axis < 3)
    *value = block[axis];
  else if (kind == "hidden_grid_dims")
    *value = launch.grid.z * launch.block.z > 1 ? 3 : launch.grid.y * launch.block.y > 1 ? 2 : 1;
  else if (kind == "hidden_printf_buffer")
    *value = memory.printf_buffer;
  else if (kind == "hidden_multigrid_sync_arg")
    *value = launch.cooperative ? memory.grid_barrier : 0;
  else if (kind == "hidden_hostcall_buffer")
    *value = memory.host_buffer;
  else if (kind == "hidden_heap_v1")
    *value = memory.heap;
  else if (kind == "hidden_queue_ptr")
    *value = memory.queue;
  else if (kind == "hidden_dynamic_lds_size")
    *value = launch.dynamic_lds;
  else if (kind == "hidden_private_base")
    *value = kPrivateBase >> 32;
  else if (kind == "hidden_shared_base")
    *value = kSharedBase >> 32;
  else
    return false;  // remainders (HIP grids are whole blocks), global offsets: zero
  return true;
}

// Grid barrier of the device library (ockl, cg.cl) for a launch of a single grid.
struct GridBarrier {
  uint64_t shared;  // address of the counter at which all grids of a launch meet
  uint32_t grid, grids;
  uint64_t items_before, items;
  uint32_t arrived, reserved0, groups, reserved1;
  uint32_t shared_arrived;  // the counter that `shared` points to
};

void fill_grid_barrier(const Launch& launch, const LaunchPlan& plan, uint64_t at) {
  GridBarrier b{};
  b.shared = at + offsetof(GridBarrier, shared_arrived);
  b.grids = 1;
  b.items = plan.total_groups * plan.threads;
  b.groups = static_cast<uint32_t>(plan.total_groups);
  if (launch.cooperative) std::memcpy(reinterpret_cast<void*>(at), &b, sizeof b);
}

void fill_kernarg(const Launch& launch, RuntimeMemory& memory, LaunchPlan* plan) {
  const KernelInfo& k = *launch.kernel;
  uint64_t bytes = std::max<uint64_t>(k.kernarg_bytes, launch.args.size());
  for (const KernelArg& a : k.args) bytes = std::max<uint64_t>(bytes, uint64_t{a.offset} + a.size);
  const uint64_t at = memory.kernarg(bytes);
  auto* p = reinterpret_cast<uint8_t*>(at);
  std::copy(launch.args.begin(), launch.args.end(), p);
  for (const KernelArg& a : k.args) {
    if (a.kind.rfind("hidden_", 0) != 0) continue;
    uint64_t value = 0;
    hidden_value(a.kind, launch, memory, &value);
    std::memcpy(p + a.offset, &value, std::min<uint32_t>(a.size, 8));
  }
  plan->kernarg = at;
  plan->kernarg_bytes = bytes;
}

void fill_packet(const Launch& launch, const LaunchPlan& plan, const RuntimeMemory& memory) {
  Packet p{};
  p.header = 2;  // HSA_PACKET_TYPE_KERNEL_DISPATCH
  p.setup = 3;
  const uint32_t block[3] = {launch.block.x, launch.block.y, launch.block.z};
  const uint32_t grid[3] = {launch.grid.x, launch.grid.y, launch.grid.z};
  for (int i = 0; i < 3; ++i) {
    p.workgroup[i] = static_cast<uint16_t>(block[i]);
    p.grid[i] = grid[i] * block[i];
  }
  p.private_bytes = plan.scratch_lane_bytes;
  p.group_bytes = plan.lds_bytes;
  p.kernarg = plan.kernarg;
  std::memcpy(reinterpret_cast<void*>(memory.packet), &p, sizeof p);
}

void set_mode(Arch arch, const KernelInfo& k, Wave* w) {
  const uint32_t r = k.rsrc1;
  w->mode.set_bits((r >> 12 & 0xff) | (r >> 21 & 1) << 8 | (r >> 23 & 1) << 9 | (r >> 26 & 1) << 23);
  w->mode.flush_products = traits(arch).flushes_products;
  w->mode.ocp_fp8 = traits(arch).ocp_fp8;
}

// Sets the user SGPRs in the order of the guide's table "SGPR Register Set Up Order". Returns their number.
uint32_t set_user_sgprs(Arch arch, const KernelInfo& k, const LaunchPlan& plan, const RuntimeMemory& memory,
                        uint64_t scratch_base, Wave* w) {
  uint32_t at = 0;
  const auto put64 = [&](uint64_t v) {
    w->set_sgpr64(at, v);
    at += 2;
  };
  if (k.code_properties & kPrivateBuffer) {
    constexpr uint64_t kSwizzle = 1ull << 63, kIndexStride64 = 3ull << 53, kAddTid = 1ull << 55;
    put64(scratch_base | kSwizzle);
    put64(0xffffffffull | kIndexStride64 | kAddTid);
  }
  if (k.code_properties & kDispatchPtr) put64(memory.packet);
  if (k.code_properties & kQueuePtr) put64(memory.queue);
  if (k.code_properties & kKernargPtr) put64(plan.kernarg);
  if (k.code_properties & kDispatchId) put64(0);
  if (k.code_properties & kFlatScratchInit) put64(scratch_base);
  if (k.code_properties & kPrivateSize) w->sgpr[at++] = plan.scratch_lane_bytes;
  const uint32_t preload = traits(arch).kernarg_preload ? k.kernarg_preload & 0x7f : 0, offset = k.kernarg_preload >> 7;
  for (uint32_t i = 0; i < preload && at < 16; ++i) {
    std::memcpy(&w->sgpr[at++], reinterpret_cast<const void*>(plan.kernarg + 4ull * (offset + i)), 4);
  }
  return std::max(at, k.rsrc2 >> 1 & 0x1f);
}

void check_request(const Spec& spec, const Launch& l) {
  // Check each dimension first: the product could overflow.
  const bool huge = std::max({l.block.x, l.block.y, l.block.z}) > kMaxThreads;
  const uint64_t threads = huge ? ~0ull : uint64_t{l.block.x} * l.block.y * l.block.z;
  if (threads == 0 || l.grid.x == 0 || l.grid.y == 0 || l.grid.z == 0)
    bad_launch("launch of " + l.kernel->name + ": a grid or block dimension is 0");
  if (double(l.grid.x) * l.grid.y * l.grid.z > kMaxGroups)
    bad_launch("launch of " + l.kernel->name + ": the grid has more work-groups than can be numbered");
  if (huge) bad_launch("launch of " + l.kernel->name + ": a block dimension exceeds 1024");
  if (l.args.size() > kMaxArguments)
    bad_launch("launch of " + l.kernel->name + ": " + std::to_string(l.args.size()) + " bytes of arguments");
  if (threads > kMaxThreads)
    bad_launch("launch of " + l.kernel->name + ": " + std::to_string(threads) +
               " threads per block, 1024 is the limit");
  const uint64_t lds = uint64_t{l.kernel->lds_bytes} + l.dynamic_lds;
  if (lds > spec.lds.bytes_per_cu)
    bad_launch("launch of " + l.kernel->name + ": " + std::to_string(lds) + " bytes of shared memory, a CU has " +
               std::to_string(u32(spec.lds.bytes_per_cu)));
}

// Work-item ids in the dimensions that the kernel uses, y and z in bits 10 and 20.
std::vector<uint32_t> work_items(const Launch& l) {
  const uint32_t dims = l.kernel->rsrc2 >> 11 & 3;  // number of dimensions, minus one
  std::vector<uint32_t> items;
  items.reserve(size_t{l.block.x} * l.block.y * l.block.z);
  for (uint32_t z = 0; z < l.block.z; ++z) {
    for (uint32_t y = 0; y < l.block.y; ++y) {
      for (uint32_t x = 0; x < l.block.x; ++x)
        items.push_back(x | (dims >= 1 ? y << 10 : 0) | (dims >= 2 ? z << 20 : 0));
    }
  }
  return items;
}

}  // namespace

Occupancy occupancy_of(const Spec& spec, const KernelInfo& k, const Dim3& block, uint32_t lds_bytes) {
  Occupancy o;
  const uint32_t rows = ((k.rsrc1 & 0x3f) + 1) * u32(spec.topology.vgpr_granule);
  const uint32_t by_vgpr = u32(spec.topology.vgprs_per_simd) / rows;
  const uint32_t by_sgpr = u32(spec.topology.sgprs_per_simd) / round_up(std::max(k.sgprs, 1u), 16);
  const uint32_t slots = u32(spec.topology.waves_per_simd);
  o.waves_per_simd_limit = std::max(1u, std::min({by_vgpr, by_sgpr, slots}));
  o.limiter = o.waves_per_simd_limit == slots ? Limiter::wave_slots
              : by_vgpr <= by_sgpr            ? Limiter::vgprs
                                              : Limiter::sgprs;
  o.waves_per_group = (block.x * block.y * block.z + kLanes - 1) / kLanes;
  o.groups_per_cu = o.waves_per_simd_limit * u32(spec.topology.simds_per_cu) / o.waves_per_group;
  const uint32_t granule = u32(spec.lds.allocation_granule);
  const uint32_t by_lds = lds_bytes ? u32(spec.lds.bytes_per_cu) / round_up(lds_bytes, granule) : ~0u;
  if (by_lds < o.groups_per_cu) {
    o.groups_per_cu = by_lds;
    o.limiter = Limiter::lds;
  }
  const uint32_t most = u32(spec.topology.workgroups_per_cu);
  if (most < o.groups_per_cu) {
    o.groups_per_cu = most;
    o.limiter = Limiter::work_groups;
  }
  o.groups_per_cu = std::max(o.groups_per_cu, 1u);
  return o;
}

RuntimeMemory::RuntimeMemory(Memory& memory) : memory_(memory) {
  block_ = reinterpret_cast<uint64_t>(memory.allocate(4096 + kPrintfBytes, Memory::Kind::kernarg));
  packet = block_;
  queue = block_ + 256;
  zeros = block_ + 1024;
  grid_barrier = block_ + 2048;
  printf_buffer = block_ + 4096;
  // amd_queue_t: aperture bases of older code at 0x40 and 0x44.
  const uint32_t apertures[2] = {static_cast<uint32_t>(kSharedBase >> 32), static_cast<uint32_t>(kPrivateBase >> 32)};
  std::memcpy(reinterpret_cast<void*>(queue + 0x40), apertures, sizeof apertures);
}

RuntimeMemory::~RuntimeMemory() {
  for (const uint64_t p : {block_, kernarg_, scratch_}) {
    if (p) memory_.release(reinterpret_cast<void*>(p));
  }
}

uint64_t RuntimeMemory::kernarg(uint64_t bytes) {
  bytes = (bytes + 255) / 256 * 256;
  if (bytes > kernarg_bytes_) {
    if (kernarg_) memory_.release(reinterpret_cast<void*>(kernarg_));
    kernarg_bytes_ = std::max<uint64_t>(bytes, 4096);
    kernarg_ = reinterpret_cast<uint64_t>(memory_.allocate(kernarg_bytes_, Memory::Kind::kernarg));
  }
  if (bytes) std::memset(reinterpret_cast<void*>(kernarg_), 0, bytes);
  return kernarg_;
}

uint64_t RuntimeMemory::scratch(uint64_t bytes) {
  if (bytes > scratch_bytes_) {
    if (scratch_) memory_.release(reinterpret_cast<void*>(scratch_));
    scratch_bytes_ = bytes;
    scratch_ = reinterpret_cast<uint64_t>(memory_.allocate(bytes, Memory::Kind::kernarg));
  }
  return scratch_;
}

LaunchPlan plan_launch(Arch arch, const Spec& spec, const Launch& launch, RuntimeMemory& memory) {
  check_request(spec, launch);
  const KernelInfo& k = *launch.kernel;
  LaunchPlan plan;
  plan.threads = launch.block.x * launch.block.y * launch.block.z;
  plan.rows = ((k.rsrc1 & 0x3f) + 1) * 8;
  plan.xcds = u32(spec.topology.xcds);
  plan.lds_bytes = k.lds_bytes + launch.dynamic_lds;
  const uint32_t stack =
      k.dynamic_stack ? std::max({k.scratch_bytes, kDynamicStackBytes, launch.stack_bytes}) : k.scratch_bytes;
  if (stack > kMaxScratch)
    bad_launch("launch of " + k.name + ": " + std::to_string(stack) + " bytes of private memory per work-item");
  plan.scratch_lane_bytes = round_up(stack, 4);
  plan.scratch_wave_bytes = round_up(plan.scratch_lane_bytes * kLanes, kScratchGranule);
  plan.lds_room = static_cast<uint32_t>(round_up(plan.lds_bytes, u32(spec.lds.allocation_granule)));
  plan.occupancy = occupancy_of(spec, k, launch.block, plan.lds_bytes);
  plan.total_groups = uint64_t{launch.grid.x} * launch.grid.y * launch.grid.z;
  fill_kernarg(launch, memory, &plan);
  fill_grid_barrier(launch, plan, memory.grid_barrier);
  plan.entry = k.entry;
  if (traits(arch).kernarg_preload && (k.kernarg_preload & 0x7f)) {
    const Code& code = launch.module->code();
    const uint64_t word = (code.insts[k.entry].address + kPreloadPrologue - code.base) / 4;
    if (word >= code.index_by_word.size() || code.index_by_word[word] == ~0u)
      bad_launch("no code behind the argument prologue of " + k.name);
    plan.entry = code.index_by_word[word];
  }
  fill_packet(launch, plan, memory);
  plan.items = work_items(launch);
  const uint64_t slots =
      uint64_t{plan.occupancy.groups_per_cu} * plan.occupancy.waves_per_group * u32(spec.topology.cus);
  const uint64_t scratch_base =
      plan.scratch_wave_bytes ? memory.scratch(slots * plan.scratch_wave_bytes) : memory.zeros;
  set_mode(arch, k, &plan.initial);
  plan.initial.accum_offset = k.accum_offset;
  plan.initial.rows = plan.vgprs = plan.rows;
  plan.system_sgpr = set_user_sgprs(arch, k, plan, memory, scratch_base, &plan.initial);
  return plan;
}

void start_wave(Arch arch, const LaunchPlan& plan, const Launch& launch, uint64_t scratch_base, const WavePlace& place,
                Resident* r) {
  const KernelInfo& k = *launch.kernel;
  Wave& w = r->wave;
  const Wave& from = plan.initial;
  std::copy_n(from.sgpr.begin(), plan.sgprs, w.sgpr.begin());
  std::copy(from.sgpr.begin() + kFlatScratchLo, from.sgpr.end(), w.sgpr.begin() + kFlatScratchLo);
  static_assert(std::is_trivially_copyable_v<Wave> && offsetof(Wave, sgpr) == 0);
  constexpr size_t kBehind = sizeof from.sgpr;
  std::memcpy(reinterpret_cast<char*>(&w) + kBehind, reinterpret_cast<const char*>(&from) + kBehind,
              sizeof w - kBehind);
  static_cast<Progress&>(*r) = {};
  w.vgpr = WavePool::registers(r);
  w.pc = plan.entry;
  const Dim3 &id = place.group->id, &grid = launch.grid;
  w.xcc_id = static_cast<uint32_t>((id.x + grid.x * (id.y + uint64_t{grid.y} * id.z)) % plan.xcds);  // Engine::admit()
  r->group = place.group;
  r->index = place.index;
  r->bare = true;
  const uint32_t active = std::min<uint32_t>(kLanes, plan.threads - r->index * kLanes);
  w.set_exec(active == kLanes ? ~0ull : (1ull << active) - 1);
  r->scratch = scratch_base + uint64_t{place.slot} * plan.scratch_wave_bytes;
  uint32_t at = plan.system_sgpr;
  if (k.rsrc2 >> 7 & 1) r->wave.sgpr[at++] = r->group->id.x;
  if (k.rsrc2 >> 8 & 1) r->wave.sgpr[at++] = r->group->id.y;
  if (k.rsrc2 >> 9 & 1) r->wave.sgpr[at++] = r->group->id.z;
  if (k.rsrc2 >> 10 & 1) r->wave.sgpr[at++] = 0;
  if (traits(arch).flat_scratch_given) {
    r->wave.set_sgpr64(kFlatScratchLo, r->scratch);
  } else if (k.rsrc2 & 1) {
    r->wave.sgpr[at++] = static_cast<uint32_t>(r->scratch - scratch_base);
  }
}

void set_up_rows(const LaunchPlan& plan, Resident* r) {
  uint32_t* vgpr = r->wave.vgpr;
  constexpr size_t kRowBytes = kLanes * sizeof *vgpr;
  std::memset(vgpr, 0, plan.vgprs * kRowBytes);
  std::memset(vgpr + size_t{plan.initial.accum_offset} * kLanes, 0, plan.agprs * kRowBytes);
  const uint32_t first = r->index * kLanes, active = std::min<uint32_t>(kLanes, plan.threads - first);
  std::memcpy(vgpr, &plan.items[first], active * sizeof *vgpr);
  r->bare = false;
}

}  // namespace hipsynth
