#include "dispatch/repeats.h"

#include <algorithm>
#include <utility>

namespace hipsynth {
namespace {

constexpr size_t kMostRepeats = 1024;  // different launches to remember: 10 MB
constexpr size_t kMostCounted = 8;     // of one launch
constexpr size_t kMostCopies = 12;     // of the Infinity Cache's lines: 10 MB each
// A dispatch of less work is remembered when it is launched for the second time.
constexpr uint64_t kWorthRemembering = 50'000;
// Taking a fingerprint of the Infinity Cache takes up to 5 ms.
constexpr uint64_t kWorthFingerprint = 1'000'000;
constexpr uint32_t kMostChanges = 3;  // then contents are no longer compared

template <class T>
void append(const T& value, std::string* key) {
  key->append(reinterpret_cast<const char*>(&value), sizeof value);
}

std::string key_of(const Launch& launch, const LaunchPlan& plan, uint64_t scratch, uint64_t layout) {
  std::string key;
  for (const uint64_t part : {launch.module->serial(), uint64_t{launch.kernel->entry}, scratch, layout, plan.kernarg})
    append(part, &key);
  for (const Dim3& d : {launch.grid, launch.block}) append(d, &key);
  append(launch.dynamic_lds, &key);
  append(launch.cooperative, &key);
  key.append(reinterpret_cast<const char*>(plan.kernarg), plan.kernarg_bytes);
  return key;
}

bool decides_as_before(const Repeat& r) {
  return r.decisive.empty() || (r.decisive_known && fingerprint(r.decisive) == r.decisive_contents);
}

bool worth_fingerprint(const Repeat& r) { return !r.counted.empty() && r.counted.back().work >= kWorthFingerprint; }

}  // namespace

Repeat& Repeats::find(const Launch& launch, const LaunchPlan& plan, uint64_t scratch, uint64_t layout) {
  std::string key = key_of(launch, plan, scratch, layout);
  const auto known = repeats_.find(key);
  if (known != repeats_.end()) return known->second;
  if (repeats_.size() >= kMostRepeats) {
    repeats_.clear();
    previous_ = last_ = nullptr;
    copies_ = 0;
  }
  return repeats_[std::move(key)];
}

void Repeats::forget(Repeat* repeat) {
  for (const Counted& c : repeat->counted) copies_ -= c.lines != nullptr;
  repeat->counted.clear();
}

uint64_t Repeats::lines_now(const Hierarchy& hierarchy) {
  if (lines_ == 0) lines_ = hierarchy.infinity().fingerprint() | 1;
  return lines_;
}

const Counted* Repeats::match(Repeat& repeat, const Chooser::Memory& chooser, Hierarchy* hierarchy) {
  if (repeat.counted.empty() || (hierarchy && !hierarchy->inherits_clean_l2())) return nullptr;
  if (!repeat.decisive.empty()) {
    if (!repeat.decisive_known) return nullptr;
    if (!decides_as_before(repeat)) {
      forget(&repeat);
      ++repeat.decisive_changes;
      return nullptr;
    }
    repeat.decisive_changes = 0;
  }
  const auto same_start = [&](const Counted& c) {
    return c.chooser == chooser && (!hierarchy || c.before == hierarchy->inherited());
  };
  const bool infinity = hierarchy && hierarchy->has_infinity();
  if (infinity && previous_ == &repeat && previous_counted_ < repeat.counted.size()) {
    const Counted& last = repeat.counted[previous_counted_];
    if (!last.replaced_lines && same_start(last)) return &last;
  }
  for (const Counted& c : repeat.counted) {
    if (!same_start(c)) continue;
    if (!infinity) return &c;
    const bool known_end = c.lines_after != 0 && (c.lines || c.lines_after == c.lines_before);
    if (known_end && c.lines_before == lines_now(*hierarchy)) return &c;
  }
  return nullptr;
}

Repeat* Repeats::require_proven(Repeat* repeat) {
  return repeat && !repeat->counted.empty() && decides_as_before(*repeat) ? repeat : nullptr;
}

bool Repeats::holds_results(Repeat& repeat) {
  if (!std::exchange(repeat.contents_known, false)) return false;
  const bool same = repeat.contents_known = fingerprint(repeat.touched) == repeat.contents;
  repeat.changes = same ? 0 : repeat.changes + 1;
  return same;
}

Counted Repeats::begin(const Repeat* repeat, const Chooser::Memory& chooser, Hierarchy* hierarchy) {
  Counted c;
  c.chooser = chooser;
  if (!hierarchy) return c;
  if (pending_) hierarchy->set_infinity(*pending_);
  pending_.reset();
  c.before = hierarchy->inherited();
  if (hierarchy->has_infinity() && repeat && worth_fingerprint(*repeat)) c.lines_before = lines_now(*hierarchy);
  lines_ = 0;
  previous_ = nullptr;
  return c;
}

Counted* Repeats::end(Repeat* repeat, Counted counted, const Footprint& footprint, Hierarchy* hierarchy) {
  const bool again = std::exchange(last_, repeat) == repeat;
  if (!repeat) return nullptr;
  ++repeat->seen;
  if (!footprint.complete() || footprint.overlap(Footprint::decides, Footprint::writes)) {
    forget(repeat);
    return nullptr;
  }
  if (repeat->seen == 1 && counted.work < kWorthRemembering) return nullptr;
  // Without a fingerprint of the Infinity Cache only launches in a row can be equal.
  if (hierarchy && hierarchy->has_infinity() && counted.work < kWorthFingerprint && !again) return nullptr;
  if (hierarchy) {
    counted.after = hierarchy->inherited();
    counted.replaced_lines = hierarchy->infinity_replaced() != 0;
    if (counted.lines_before != 0) {
      counted.lines_after = lines_now(*hierarchy);
      if (counted.lines_after != counted.lines_before && copies_ < kMostCopies) {
        counted.lines = std::make_shared<const LargeCache>(hierarchy->infinity());
        ++copies_;
      }
    }
  }
  repeat->decisive = footprint.pages(Footprint::decides);
  repeat->touched = footprint.pages(Footprint::decides | Footprint::reads | Footprint::writes);
  repeat->idempotent = !footprint.overlap(Footprint::writes, Footprint::decides | Footprint::reads);
  repeat->decisive_known = repeat->contents_known = false;
  if (repeat->counted.size() >= kMostCounted) {
    copies_ -= repeat->counted.front().lines != nullptr;
    repeat->counted.erase(repeat->counted.begin());
  }
  repeat->counted.push_back(std::move(counted));
  previous_ = repeat;
  previous_counted_ = repeat->counted.size() - 1;
  return &repeat->counted.back();
}

void Repeats::reused(const Repeat& repeat, const Counted& counted, Hierarchy* hierarchy) {
  const auto i = static_cast<size_t>(&counted - repeat.counted.data());
  const bool again = previous_ == &repeat && previous_counted_ == i;
  previous_ = last_ = &repeat;
  previous_counted_ = i;
  if (!hierarchy) return;
  hierarchy->inherit(counted.after);
  if (!hierarchy->has_infinity() || (again && !counted.replaced_lines)) return;
  lines_ = counted.lines_after;
  if (counted.lines) pending_ = counted.lines;
}

void Repeats::take_fingerprints(Repeat* repeat) {
  if (repeat->decisive_changes < kMostChanges) {
    repeat->decisive_contents = fingerprint(repeat->decisive);
    repeat->decisive_known = true;
  }
  if (repeat->idempotent && repeat->changes < kMostChanges) {
    repeat->contents = fingerprint(repeat->touched);
    repeat->contents_known = true;
  }
}

}  // namespace hipsynth
