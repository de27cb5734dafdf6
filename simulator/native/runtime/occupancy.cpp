// Occupancy from the code object and the device table, and the API queries that return it.
#include <algorithm>

#include "core/launch.h"
#include "runtime.h"

namespace hipsynth::runtime {

bool lds_fits(const Runtime& rt, const KernelInfo& kernel, uint64_t dynamic_lds) {
  const auto most = static_cast<uint64_t>(rt.spec().lds.bytes_per_cu);
  return kernel.lds_bytes <= most && dynamic_lds <= most - kernel.lds_bytes;
}

int resident_workgroups(Runtime& rt, const KernelInfo& kernel, uint32_t block, uint64_t dynamic_lds) {
  if (block == 0 || block > kernel.max_flat_workgroup || !lds_fits(rt, kernel, dynamic_lds)) return 0;
  const auto lds = static_cast<uint32_t>(kernel.lds_bytes + dynamic_lds);
  return static_cast<int>(occupancy_of(rt.config.spec, kernel, {block, 1, 1}, lds).groups_per_cu);
}

namespace {

hipError_t active_blocks(Runtime& rt, int* out, ihipModuleSymbol_t* kernel, int block, size_t lds) {
  if (out == nullptr || block <= 0) return hipErrorInvalidValue;
  if (kernel == nullptr) return hipErrorInvalidDeviceFunction;
  *out = resident_workgroups(rt, *kernel->info, static_cast<uint32_t>(block), lds);
  return hipSuccess;
}

// The block size with the most resident waves (the larger one on a tie) and the grid size that fills the device.
hipError_t best_block(Runtime& rt, int* grid, int* block, ihipModuleSymbol_t* kernel, size_t lds, int limit) {
  if (grid == nullptr || block == nullptr) return hipErrorInvalidValue;
  if (kernel == nullptr) return hipErrorInvalidDeviceFunction;
  int most = static_cast<int>(kernel->info->max_flat_workgroup);
  if (limit > 0) most = std::min(most, limit);
  int best_waves = 0, best_groups = 0;
  *block = 0;
  for (int waves = (most + kLanes - 1) / kLanes; waves > 0; --waves) {
    const int size = std::min(waves * kLanes, most);
    int groups = resident_workgroups(rt, *kernel->info, static_cast<uint32_t>(size), lds);
    if (groups * waves <= best_waves) continue;
    best_waves = groups * waves;
    best_groups = groups;
    *block = size;
  }
  *grid = best_groups * static_cast<int>(rt.spec().topology.cus);
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
