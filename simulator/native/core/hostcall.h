// Host services for device code: unbuffered printf and the messages of failed assertions, memory for device-side
// malloc, and calls of host functions.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/machine.h"

namespace hipsynth {

// Layouts and service numbers are those of the device library's __ockl_hostcall_* and __ockl_dm_* functions (ROCm
// device libraries, ockl). A wave takes a packet from a lock-free stack, fills it, pushes it onto a second stack, sends
// a message and polls the packet until the host has answered. Here the message is answered before the wave continues,
// so results do not depend on the host's timing.
class HostServices {
 public:
  // `packets`: at least the number of waves that may be in a call at the same time. `host_calls`: kernels may call host
  // functions.
  HostServices(Memory& memory, uint32_t packets, bool host_calls)
      : memory_(memory), packets_(packets), host_calls_(host_calls) {}
  ~HostServices();
  HostServices(const HostServices&) = delete;
  HostServices& operator=(const HostServices&) = delete;

  uint64_t buffer();  // value of hidden_hostcall_buffer; allocated on first use
  uint64_t heap();    // value of hidden_heap_v1, the state of device-side malloc; allocated on first use
  void serve();       // answers every waiting packet. Throws SimError "unsupported_service"

  // Returns and clears the text printed since the last call.
  std::string take_output() { return std::exchange(output_, {}); }
  std::string take_errors() { return std::exchange(errors_, {}); }
  const std::string& errors() const { return errors_; }

 private:
  void answer(uint32_t service, uint64_t* words);
  void print(uint64_t* words);
  void device_memory(uint64_t* words);

  Memory& memory_;
  uint32_t packets_;
  bool host_calls_;
  uint64_t buffer_ = 0, heap_ = 0;
  uint64_t last_message_ = 0;
  std::map<uint64_t, std::vector<uint64_t>> messages_;  // unfinished printf calls by message number
  std::string output_, errors_;
};

}  // namespace hipsynth
