// Which waves used which words of memory in a launch, to find pairs of accesses that nothing puts in order.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/inst.h"

namespace hipsynth {

struct Context;
struct Resident;
struct Step;

class AccessLog {
 public:
  enum class Use : uint8_t { read, write, atomic };
  static Use use_of(MemKind kind) {
    return kind == MemKind::atomic ? Use::atomic : kind == MemKind::load ? Use::read : Use::write;
  }

  // Call when a launch begins, and where all of its waves meet.
  void clear();
  // A wave begins a vector memory instruction, whose accesses follow.
  void issue(const Resident& r);
  // A wave waits until so many of these are in flight: the accesses of earlier ones have ended.
  void wait(const Resident& r, uint32_t in_flight);
  // One lane's access to device memory. Accesses that other groups are to see (sc1, glc) count as atomic.
  void use_device_memory(const Context& c, const Resident& r, const Step& s, Use use, uint64_t address, uint32_t bytes);
  // The same in the work-group's LDS.
  void use_lds(const Context& c, const Resident& r, const Step& s, Use use, uint64_t offset, uint32_t bytes);
  // An instruction that writes caches back, or forgets what they hold: a part of a fence.
  void fence(const Resident& r);
  // Call after an instruction has moved its data: writes of what was there already are no race.
  void confirm_writes();
  // The first race since `take` was called last, in words; "" if there is none.
  std::string take();
  // The same of accesses that only atomics put in order, without a fence on both sides.
  std::string take_unfenced();

 private:
  struct Touch {
    uint64_t group = 0, time = 0;
    uint32_t wave = 0, phase = 0;
    bool done = false, atomic = false;
    bool late = false;    // data from memory, which arrive in the LDS some time after the instruction
    bool shared = false;  // others of the same phase did the same before
  };
  // Of a wave's vector memory instructions: when those in flight began, and in which phases it waited for earlier ones.
  struct Flight {
    struct Wait {
      uint64_t until;  // accesses up to this time have ended
      uint32_t phase;
    };
    std::deque<uint64_t> begun;
    std::vector<Wait> waits;
  };
  struct Word {
    Touch write, read;
  };
  enum class Order : uint8_t { ordered, unfenced, none };
  struct Pending {
    const uint8_t* at;
    uint8_t before[4];
    uint32_t bytes;
    Order order;
    std::string text;
  };
  void use_word(const Context& c, const Resident& r, const Step& s, Use use, uint64_t key, const uint8_t* at,
                uint32_t bytes);
  Order order_of(const Touch& earlier, const Touch& now) const;
  // Whether the wave of an access has waited for it before a barrier that lies before this phase of its group.
  bool ended_before(const Touch& earlier, uint32_t phase) const;
  Flight& flight_of(const Resident& r);
  void add_race(const Context& c, const Step& s, const Touch& earlier, const Touch& now, const char* what,
                const uint8_t* at, uint32_t bytes);
  std::string& first_of(Order order) { return order == Order::unfenced ? first_unfenced_ : first_; }

  std::unordered_map<uint64_t, Word> words_;
  std::unordered_map<uint64_t, uint64_t> atomics_;             // by group: when it used an atomic last
  std::unordered_map<uint64_t, uint64_t> fences_;              // by group: when it executed a part of a fence last
  std::unordered_map<uint64_t, uint64_t> lds_keys_;            // by group: the key of its LDS' first word
  std::unordered_map<uint64_t, std::vector<Flight>> flights_;  // by group and wave
  std::vector<Pending> pending_;                               // writes of the instruction in progress
  uint64_t time_ = 0;
  std::string first_, first_unfenced_;
};

}  // namespace hipsynth
