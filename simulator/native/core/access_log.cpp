#include "core/access_log.h"

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
  lds_keys_.clear();
  pending_.clear();
  time_ = 0;
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

// Whether nothing puts two accesses in order: no barrier between waves of a group, no atomics by both groups.
bool AccessLog::is_unordered(const Touch& earlier, const Touch& now) const {
  if (!earlier.done || (earlier.atomic && now.atomic)) return false;
  if (earlier.group == now.group && ((earlier.wave == now.wave && !earlier.shared) || earlier.phase != now.phase)) {
    return false;
  }
  const auto theirs = atomics_.find(earlier.group), ours = atomics_.find(now.group);
  const bool met = theirs != atomics_.end() && ours != atomics_.end() && theirs->second > earlier.time &&
                   ours->second > earlier.time;
  return !met;
}

void AccessLog::use_word(const Context& c, const Resident& r, const Step& s, Use use, uint64_t key, const uint8_t* at,
                         uint32_t bytes) {
  Word& word = words_[key];
  const Touch now{number_of(r.group->id), ++time_, r.index, r.group->phase, true, use == Use::atomic, false};
  // Who reads a word that atomics change finds what was there before or after one of them.
  const bool tests = use == Use::read && word.write.atomic;
  if (!tests && is_unordered(word.write, now)) {
    add_race(c, s, word.write, now, use == Use::read ? "" : "both write", at, bytes);
  }
  if (use == Use::read) {
    const bool more = word.read.done && word.read.group == now.group && word.read.phase == now.phase &&
                      (word.read.wave != now.wave || word.read.shared);
    word.read = now;
    word.read.shared = more;
    return;
  }
  if (use == Use::write && is_unordered(word.read, now)) {
    add_race(c, s, word.read, now, "one reads, the other writes", at, bytes);
  }
  word.write = now;
}

void AccessLog::add_race(const Context& c, const Step& s, const Touch& earlier, const Touch& now, const char* what,
                         const uint8_t* at, uint32_t bytes) {
  if (!first_.empty()) return;
  const Code& code = c.program.module->code();
  const auto index = static_cast<size_t>(s.inst - code.insts.data());
  std::string text = "kernel " + c.kernel.name + ", ";
  text += earlier.group == now.group ? "two waves of a group, no barrier between" : "two work-groups";
  text += std::string(", one ") + (bytes == 4 ? "word" : "byte") + ": ";
  text += *what != 0 ? what : "one writes, the other reads";
  if (index < code.text.size()) text += " (`" + code.text[index] + "`)";
  if (*what == 0) {
    first_ = std::move(text);
    return;
  }
  Pending& one = pending_.emplace_back(Pending{at, {}, bytes, std::move(text)});
  std::memcpy(one.before, at, bytes);
}

void AccessLog::confirm_writes() {
  for (Pending& one : pending_) {
    if (first_.empty() && std::memcmp(one.at, one.before, one.bytes) != 0) first_ = std::move(one.text);
  }
  pending_.clear();
}

std::string AccessLog::take() { return std::exchange(first_, ""); }

}  // namespace hipsynth
