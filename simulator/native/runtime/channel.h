// The memory shared with the process that started this program: it holds the configuration and receives the results.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace hipsynth::runtime {

// The same numbers as in simulator/channel.py. The document is written alternately to slots 0 and 1, so that a
// complete one exists at any time; a signal handler has slot 2, because it may interrupt a write.
inline constexpr size_t kChannelBytes = 64u << 20, kConfigAt = 4096, kSlotsAt = 1u << 20, kSlots = 3;
inline constexpr size_t kSlotBytes = (kChannelBytes - kSlotsAt) / kSlots;
inline constexpr uint64_t kTooLong = UINT64_MAX >> 2;  // in place of the length of a document that fits no slot

// At offset 0 of the shared memory.
struct ChannelHeader {
  uint64_t document;             // 4 * length + slot of the latest complete document; 0: none yet
  uint64_t configuration_bytes;  // at kConfigAt
};

class Channel {
 public:
  static Channel& get();

  // Maps the descriptor whose number HIPSYNTH_CHANNEL holds, closes it and removes the variable, so that the program
  // has the descriptors and the environment that it has on hardware. Called before any code of the program.
  void open();
  bool is_open() const { return header_ != nullptr; }
  const std::string& problem() const { return problem_; }  // why it is not open
  std::string_view configuration() const;

  // One document is written by begin, put..., publish. All are async-signal-safe. Processes forked by the program
  // publish nothing.
  struct Writer {
    char* slot = nullptr;
    uint64_t number = 0, size = 0;
    void put(std::string_view text);
  };
  Writer begin(bool in_signal_handler) const;
  void publish(const Writer& writer) const;

 private:
  char* base() const { return reinterpret_cast<char*>(header_); }
  ChannelHeader* header_ = nullptr;
  pid_t owner_ = 0;
  std::string problem_;
};

}  // namespace hipsynth::runtime
