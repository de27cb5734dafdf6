// Load of the L2 channels over time. Requests queue at a channel that many waves address at the same time, whichever
// channels are busy later: the busiest one counts in each span of time.
#pragma once

#include <cstdint>
#include <vector>

#include "memory/divisor.h"
#include "memory/set_hash.h"

namespace hipsynth {

class Channels {
 public:
  // `channels` of each of `l2s` L2s, interleaved every `lines` lines. Upper address bits choose, too, if there are
  // 2^n channels: no stride of a power of two crowds a few of them.
  Channels(uint32_t channels, uint32_t l2s, uint32_t lines);

  void clear();  // forgets all requests
  // Time of the next requests. It is that of the wave that makes them, as if it ran alone, from the time at which it
  // began: waves that the engine lets run late would not be late if a channel were in the way of the others.
  void set_time(uint64_t cycle) {
    const uint64_t span = cycle >> span_bits_;
    now_ = (span < spans_ ? span : span_from(cycle)) * width_;
  }
  void add(uint32_t l2, uint64_t line, uint32_t requests) {
    const uint64_t block = line / lines_;
    const uint64_t channel = block % channels_ ^ hash_.of(block / channels_);
    requests_[now_ + l2 * channels_.value() + channel] += requests;
  }

  struct Load {
    double busiest = 0;  // requests that the busiest channel serves, of the L2 where that is most
    double average = 0;  // requests of the average channel of all L2s
  };
  Load load() const;
  uint32_t count() const { return width_; }  // of all L2s

 private:
  static constexpr uint32_t kFirstBits = 12;  // spans of 4096 cycles, doubled when there are too many
  static constexpr uint64_t kMostSpans = 2048;

  uint64_t span_from(uint64_t cycle);

  Divisor channels_, lines_;
  uint32_t width_, span_bits_ = kFirstBits;
  SetHash hash_;
  uint64_t spans_ = 0, now_ = 0;
  std::vector<uint32_t> requests_;  // [span][channel of all L2s]
};

}  // namespace hipsynth
