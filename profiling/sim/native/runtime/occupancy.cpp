// Occupancy from the code object and the arch table, and the queries that answer with it.
#include <algorithm>

#include "runtime.h"

namespace hipsynth::runtime {
namespace {

constexpr uint32_t kWave = 64;

uint64_t round_up(uint64_t value, uint64_t granule) {
  return granule == 0 ? value : (value + granule - 1) / granule * granule;
}

// Waves of this kernel that one SIMD's register file holds.
uint64_t waves_by_registers(Runtime& rt, const KernelInfo& kernel) {
  uint64_t rows = kernel.agprs > 0 ? std::max(kernel.vgprs, kernel.accum_offset + kernel.agprs) : kernel.vgprs;
  rows = std::max<uint64_t>(round_up(rows, static_cast<uint64_t>(rt.spec("topology.vgpr_granule"))), 1);
  return static_cast<uint64_t>(rt.spec("topology.vgprs_per_simd")) / rows;
}

}  // namespace

int resident_workgroups(Runtime& rt, const KernelInfo& kernel, uint32_t block, uint64_t dynamic_lds) {
  uint64_t waves = (block + kWave - 1) / kWave;
  if (waves == 0 || block > kernel.max_flat_workgroup) return 0;
  uint64_t per_simd =
      std::min(static_cast<uint64_t>(rt.spec("topology.waves_per_simd")), waves_by_registers(rt, kernel));
  uint64_t groups = per_simd * static_cast<uint64_t>(rt.spec("topology.simds_per_cu")) / waves;
  groups = std::min(groups, static_cast<uint64_t>(rt.spec("topology.workgroups_per_cu")));
  uint64_t lds = round_up(kernel.lds_bytes + dynamic_lds, static_cast<uint64_t>(rt.spec("lds.allocation_granule")));
  if (lds > 0) groups = std::min(groups, static_cast<uint64_t>(rt.spec("lds.bytes_per_cu")) / lds);
  return static_cast<int>(groups);
}

namespace {

hipError_t active_blocks(Runtime& rt, int* out, ihipModuleSymbol_t* kernel, int block, size_t lds) {
  if (out == nullptr || block <= 0) return hipErrorInvalidValue;
  if (kernel == nullptr) return hipErrorInvalidDeviceFunction;
  *out = resident_workgroups(rt, *kernel->info, static_cast<uint32_t>(block), lds);
  return hipSuccess;
}

// The block size with the most resident waves, the larger one on a tie, and the grid that fills the device with it.
hipError_t best_block(Runtime& rt, int* grid, int* block, ihipModuleSymbol_t* kernel, size_t lds, int limit) {
  if (grid == nullptr || block == nullptr) return hipErrorInvalidValue;
  if (kernel == nullptr) return hipErrorInvalidDeviceFunction;
  int most = static_cast<int>(kernel->info->max_flat_workgroup);
  if (limit > 0) most = std::min(most, limit);
  int best_waves = 0, best_groups = 0;
  *block = 0;
  for (int size = most / 64 * 64; size >= 64; size -= 64) {
    int groups = resident_workgroups(rt, *kernel->info, static_cast<uint32_t>(size), lds);
    if (groups * (size / 64) <= best_waves) continue;
    best_waves = groups * (size / 64);
    best_groups = groups;
    *block = size;
  }
  *grid = best_groups * static_cast<int>(rt.spec("topology.cus"));
  return hipSuccess;
}

}  // namespace
}  // namespace hipsynth::runtime

using namespace hipsynth::runtime;

HIPSYNTH_EXPORT hipError_t hipOccupancyMaxActiveBlocksPerMultiprocessor(int* out, const void* stub, int block,
                                                                        size_t lds) {
  return call([&](Runtime& rt) { return active_blocks(rt, out, rt.kernel(stub), block, lds); });
}
HIPSYNTH_EXPORT hipError_t hipOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* out, const void* stub, int block,
                                                                                 size_t lds, unsigned) {
  return hipOccupancyMaxActiveBlocksPerMultiprocessor(out, stub, block, lds);
}
HIPSYNTH_EXPORT hipError_t hipOccupancyMaxPotentialBlockSize(int* grid, int* block, const void* stub, size_t lds,
                                                             int limit) {
  return call([&](Runtime& rt) { return best_block(rt, grid, block, rt.kernel(stub), lds, limit); });
}
HIPSYNTH_EXPORT hipError_t hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(int* out, hipFunction_t f, int block,
                                                                              size_t lds) {
  return call([&](Runtime& rt) { return active_blocks(rt, out, f, block, lds); });
}
HIPSYNTH_EXPORT hipError_t hipModuleOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* out, hipFunction_t f,
                                                                                       int block, size_t lds,
                                                                                       unsigned) {
  return hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(out, f, block, lds);
}
HIPSYNTH_EXPORT hipError_t hipModuleOccupancyMaxPotentialBlockSize(int* grid, int* block, hipFunction_t f, size_t lds,
                                                                   int limit) {
  return call([&](Runtime& rt) { return best_block(rt, grid, block, f, lds, limit); });
}
