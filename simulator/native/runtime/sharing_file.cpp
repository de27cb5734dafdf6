#include "sharing_file.h"

#include <fcntl.h>
#include <unistd.h>

namespace hipsynth::runtime {

void SharingFile::observe(Device& device, const Launch& launch) {
  const Dim3 &grid = launch.grid, &block = launch.block;
  if (options_.path.empty() || !seen_.insert({launch.kernel->symbol, {grid.x, grid.y, grid.z}}).second) return;
  if (file_ == nullptr) {
    const int fd = ::open(options_.path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    file_ = fd < 0 ? nullptr : ::fdopen(fd, "wb");
  }
  if (file_ == nullptr) return;
  Sharing sharing(options_.limits, device.memory().start(), grid);
  const Observed observed = device.observe(launch, options_.limits, &sharing);
  const std::vector<Touch>& touches = sharing.touches();
  const size_t kept = observed == Observed::all ? touches.size() : 0;
  std::fprintf(file_, "%s %s %u %u %u %u %u %u %d %u %zu\n", launch.kernel->symbol.c_str(),
               kObservedNames[static_cast<size_t>(observed)], grid.x, grid.y, grid.z, block.x, block.y, block.z,
               launch.cooperative, sharing.one_in(), kept);
  std::fwrite(touches.data(), sizeof(Touch), kept, file_);
  std::fflush(file_);
}

}  // namespace hipsynth::runtime
