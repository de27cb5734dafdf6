#include "core/access_log.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/state.h"

namespace hipsynth {
namespace {

constexpr uint64_t kBytes = 1ull << 63, kLds = 1ull << 62;  // kinds of keys: single bytes, words of an LDS
constexpr uint64_t kMostLds = 1 << 18;                      // bytes of an LDS that keys can tell apart

// Unique: a grid has at most 65,535 work-groups along y and z.
uint64_t number_of(const Dim3& id) { return id.x | uint64_t{id.y} << 32 | uint64_t{id.z} << 48; }

}  // namespace

void AccessLog::clear() {
  words_.clear();
  atomics_.clear();
  fences_.clear();
  lds_keys_.clear();
  flights_.clear();
  pending_.clear();
  time_ = 0;
}

AccessLog::Flight& AccessLog::flight_of(const Resident& r) {
  std::vector<Flight>& waves = flights_[number_of(r.group->id)];
  if (waves.size() <= r.index) waves.resize(r.index + 1);
  return waves[r.index];
}

void AccessLog::issue(const Resident& r) { flight_of(r).begun.push_back(time_); }

void AccessLog::wait(const Resident& r, uint32_t in_flight) {
  Flight& flight = flight_of(r);
  if (flight.begun.size() <= in_flight) return;
  flight.begun.erase(flight.begun.begin(), flight.begun.end() - in_flight);
  flight.waits.push_back({in_flight == 0 ? time_ : flight.begun.front(), r.group->phase});
}

bool AccessLog::ended_before(const Touch& earlier, uint32_t phase) const {
  const auto& waits = flights_.at(earlier.group)[earlier.wave].waits;
  const auto wait = std::lower_bound(waits.begin(), waits.end(), earlier.time,
                                     [](const Flight::Wait& one, uint64_t time) { return one.until < time; });
  return wait != waits.end() && wait->phase < phase;
}

void AccessLog::use_device_memory(const Context& c, const Resident& r, const Step& s, Use use, uint64_t address,
                                  uint32_t bytes) {
  const auto* at = reinterpret_cast<const uint8_t*>(address);
  if (use == Use::atomic) atomics_[number_of(r.group->id)] = time_ + 1;
  if (bytes < 4 || address % 4 != 0) {
    for (uint32_t i = 0; i < bytes; ++i) use_word(c, r, s, use, kBytes | (address + i), at + i, 1);
    return;
  }
  for (uint32_t i = 0; i < bytes; i += 4) use_word(c, r, s, use, address + i, at + i, 4);
}

void AccessLog::use_lds(const Context& c, const Resident& r, const Step& s, Use use, uint64_t offset, uint32_t bytes) {
  const uint64_t own = lds_keys_.try_emplace(number_of(r.group->id), kLds + lds_keys_.size() * kMostLds).first->second;
  const uint8_t* data = r.group->lds.data();
  const bool single = bytes < 4 || offset % 4 != 0;
  for (uint64_t i = offset; i < offset + bytes && i < r.group->lds.size(); i += single ? 1 : 4) {
    use_word(c, r, s, use, (single ? kBytes : 0) | (own + i), data + i, single ? 1 : 4);
  }
}

void AccessLog::fence(const Resident& r) { fences_[number_of(r.group->id)] = time_ + 1; }

// What puts two accesses in order: a barrier between waves of a group, or atomics by both groups, with fences. The LDS,
// and the vL1D of a group, execute accesses in the order in which waves issue them (LLVM's memory model, where a group
// is not split over CUs); only for data that arrive in the LDS later a wave has to wait before the barrier.
AccessLog::Order AccessLog::order_of(const Touch& earlier, const Touch& now) const {
  if (!earlier.done || (earlier.atomic && now.atomic)) return Order::ordered;
  if (earlier.group == now.group) {
    if (earlier.wave == now.wave && !earlier.shared) return Order::ordered;
    const bool barrier = earlier.phase != now.phase;
    if (barrier && (!earlier.late || ended_before(earlier, now.phase))) return Order::ordered;
  }
  const auto both_since = [&](const std::unordered_map<uint64_t, uint64_t>& times) {
    const auto theirs = times.find(earlier.group), ours = times.find(now.group);
    return theirs != times.end() && ours != times.end() && theirs->second > earlier.time && ours->second > earlier.time;
  };
  if (!both_since(atomics_)) return Order::none;
  const bool visible = earlier.atomic || now.atomic || earlier.group == now.group || both_since(fences_);
  return visible ? Order::ordered : Order::unfenced;
}

void AccessLog::use_word(const Context& c, const Resident& r, const Step& s, Use use, uint64_t key, const uint8_t* at,
                         uint32_t bytes) {
  Word& word = words_[key];
  const Touch now{.group = number_of(r.group->id),
                  .time = ++time_,
                  .wave = r.index,
                  .phase = r.group->phase,
                  .done = true,
                  .atomic = use == Use::atomic,
                  .late = (key & kLds) != 0 && loads_to_lds(*s.inst)};
  // Who reads a word that atomics change finds what was there before or after one of them.
  const bool tests = use == Use::read && word.write.atomic;
  if (!tests && order_of(word.write, now) != Order::ordered) {
    add_race(c, s, word.write, now, use == Use::read ? "" : "both write", at, bytes);
  }
  if (use == Use::read) {
    const bool more = word.read.done && word.read.group == now.group && word.read.phase == now.phase &&
                      (word.read.wave != now.wave || word.read.shared);
    word.read = now;
    word.read.shared = more;
    return;
  }
  if (use == Use::write && order_of(word.read, now) == Order::none) {
    add_race(c, s, word.read, now, "one reads, the other writes", at, bytes);
  }
  word.write = now;
}

void AccessLog::add_race(const Context& c, const Step& s, const Touch& earlier, const Touch& now, const char* what,
                         const uint8_t* at, uint32_t bytes) {
  const Order order = order_of(earlier, now);
  if (!first_of(order).empty()) return;
  const Code& code = c.program.module->code();
  const auto index = static_cast<size_t>(s.inst - code.insts.data());
  std::string text = "kernel " + c.kernel.name + ", ";
  text += earlier.group != now.group   ? "two work-groups"
          : earlier.phase == now.phase ? "two waves of a group, no barrier between"
                                       : "two waves of a group, a barrier between, but no wait for the load before it";
  text += std::string(", one ") + (bytes == 4 ? "word" : "byte") + ": ";
  text += *what != 0 ? what : "one writes, the other reads";
  if (index < code.text.size()) text += " (`" + code.text[index] + "`)";
  if (order == Order::unfenced) text += "; atomics put them in order, but no fence";
  if (*what == 0) {
    first_of(order) = std::move(text);
    return;
  }
  Pending& one = pending_.emplace_back(Pending{at, {}, bytes, order, std::move(text)});
  std::memcpy(one.before, at, bytes);
}

void AccessLog::confirm_writes() {
  for (Pending& one : pending_) {
    std::string& first = first_of(one.order);
    if (first.empty() && std::memcmp(one.at, one.before, one.bytes) != 0) first = std::move(one.text);
  }
  pending_.clear();
}

std::string AccessLog::take() { return std::exchange(first_, ""); }

std::string AccessLog::take_unfenced() { return std::exchange(first_unfenced_, ""); }

}  // namespace hipsynth
