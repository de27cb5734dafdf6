#include "channel.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>

namespace hipsynth::runtime {
namespace {

std::atomic_ref<uint64_t> document_of(ChannelHeader* header) { return std::atomic_ref<uint64_t>(header->document); }

// Runs when the library is loaded: before any constructor of the program.
__attribute__((constructor)) void open_channel() { Channel::get().open(); }

}  // namespace

Channel& Channel::get() {
  static Channel* channel = new Channel();  // never destroyed: results are written after static destructors
  return *channel;
}

void Channel::open() {
  const char* number = getenv("HIPSYNTH_CHANNEL");
  if (number == nullptr) {
    problem_ = "HIPSYNTH_CHANNEL is not set; start the program with `synth run`";
    return;
  }
  const int fd = std::atoi(number);
  struct stat found{};
  void* mapped = MAP_FAILED;
  if (fd > 2 && fstat(fd, &found) == 0 && found.st_size == kChannelBytes) {
    mapped = mmap(nullptr, kChannelBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  }
  unsetenv("HIPSYNTH_CHANNEL");
  if (mapped == MAP_FAILED) {
    problem_ = "the shared memory named by HIPSYNTH_CHANNEL cannot be mapped";
    return;
  }
  ::close(fd);
  header_ = static_cast<ChannelHeader*>(mapped);
  owner_ = getpid();
}

std::string_view Channel::configuration() const {
  return {base() + kConfigAt, std::min<size_t>(header_->configuration_bytes, kSlotsAt - kConfigAt)};
}

Channel::Writer Channel::begin(bool in_signal_handler) const {
  if (header_ == nullptr || getpid() != owner_) return {};
  const uint64_t number = in_signal_handler ? 2 : document_of(header_).load() % 4 == 0 ? 1 : 0;
  return {base() + kSlotsAt + number * kSlotBytes, number};
}

void Channel::Writer::put(std::string_view text) {
  if (slot != nullptr && text.size() <= kSlotBytes - std::min<uint64_t>(size, kSlotBytes)) {
    std::memcpy(slot + size, text.data(), text.size());
  }
  size += text.size();
}

void Channel::publish(const Writer& writer) const {
  if (writer.slot == nullptr) return;
  const uint64_t size = writer.size <= kSlotBytes ? writer.size : kTooLong;
  document_of(header_).store(4 * size + writer.number, std::memory_order_release);
}

}  // namespace hipsynth::runtime
