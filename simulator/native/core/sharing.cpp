#include "core/sharing.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "core/functional.h"
#include "dispatch/budget.h"

namespace hipsynth {
namespace {

constexpr size_t kLeastMerged = 1024;
constexpr uint32_t kWords = kSharingLine / 4;

uint32_t hash_of(uint32_t line) {  // the finaliser of MurmurHash3
  line ^= line >> 16;
  line *= 0x85ebca6b;
  line ^= line >> 13;
  line *= 0xc2b2ae35;
  return line ^ line >> 16;
}

// Merges touches of the same line.
void merge(std::vector<Touch>* touches) {
  std::sort(touches->begin(), touches->end(), [](const Touch& a, const Touch& b) { return a.line < b.line; });
  size_t last = 0;
  for (size_t i = 1; i < touches->size(); ++i) {
    const Touch& t = (*touches)[i];
    Touch& into = (*touches)[last];
    if (t.line != into.line) {
      (*touches)[++last] = t;
      continue;
    }
    into.reads |= t.reads;
    into.writes |= t.writes;
    into.atomics |= t.atomics;
  }
  touches->resize(std::min(touches->size(), last + 1));
}

uint32_t words(uint32_t first, uint32_t last) { return static_cast<uint32_t>((2ull << last) - (1ull << first)); }

}  // namespace

bool Sharing::samples_line(uint32_t line) const { return hash_of(line) % one_in_ == 0; }

void Sharing::add_touches(Access kind, uint64_t first, uint64_t bytes) {
  const uint64_t from = (first - start_) / 4, to = (first + bytes - 1 - start_) / 4;
  for (uint64_t line = from / kWords; line <= to / kWords; ++line) {
    const auto number = static_cast<uint32_t>(line);
    if (keeps_contents_ && kind != Access::load) save_line(line);
    if (one_in_ > 1 && !samples_line(number)) continue;
    if (open_.empty() || open_.back().line != number) {
      if (open_.size() > 2 * merged_ + kLeastMerged) {
        merge(&open_);
        merged_ = open_.size();
      }
      open_.push_back({group_, number, 0, 0, 0});
    }
    const uint64_t low = std::max(from, line * kWords), high = std::min(to, line * kWords + kWords - 1);
    const uint32_t mask = words(static_cast<uint32_t>(low % kWords), static_cast<uint32_t>(high % kWords));
    Touch& t = open_.back();
    (kind == Access::load ? t.reads : kind == Access::store ? t.writes : t.atomics) |= mask;
  }
}

void Sharing::save_line(uint64_t line) {
  const auto [at, fresh] = contents_.try_emplace(line);
  if (fresh) std::memcpy(at->second.data(), reinterpret_cast<const void*>(start_ + line * kSharingLine), kSharingLine);
}

void Sharing::put_back() {
  for (const auto& [line, bytes] : contents_)
    std::memcpy(reinterpret_cast<void*>(start_ + line * kSharingLine), bytes.data(), kSharingLine);
  contents_.clear();
}

void Sharing::begin_group(const WorkGroup& group) {
  const auto number = static_cast<uint32_t>((uint64_t{group.id.z} * grid_.y + group.id.y) * grid_.x + group.id.x);
  if (number == group_) return;
  end_group();
  group_ = number;
}

void Sharing::end_group() {
  if (!open_.empty()) merge(&open_);
  kept_.insert(kept_.end(), open_.begin(), open_.end());
  open_.clear();
  merged_ = 0;
  while (kept_.size() > most_) halve_sample();
}

void Sharing::halve_sample() {
  one_in_ *= 2;
  std::erase_if(kept_, [this](const Touch& t) { return !samples_line(t.line); });
}

void Sharing::access(Resident& r, const WaveAccess& a) {
  begin_group(*r.group);
  if (a.contiguous) return add_touches(a.kind, a.address[0], uint64_t{a.bytes} * kLanes);
  for (uint64_t rest = a.exec; rest; rest &= rest - 1) add_touches(a.kind, a.address[std::countr_zero(rest)], a.bytes);
}

void Sharing::scalar_load(Resident& r, uint64_t address, uint32_t bytes) {
  begin_group(*r.group);
  add_touches(Access::load, address, bytes);
}

void Sharing::scalar_write(Resident& r, uint64_t address, uint32_t bytes) {
  begin_group(*r.group);
  add_touches(Access::store, address, bytes);
}

Observed observe(const Context& context, const KernelTraits& traits, KernelSlice& slice, const Launch& launch,
                 const LaunchPlan& plan, WavePool& waves, const SharingOptions& options, Sharing* out) {
  if (traits.ordered) return Observed::ordered;
  if (!traits.repeatable || launch.cooperative) return Observed::following;
  if (!is_pure(slice.steps(), *launch.kernel)) out->keep_contents();
  Context c = context;
  c.steps = slice.steps().data();
  c.model = out;
  c.footprint = nullptr;
  const EngineLimits limits{~0ull, 0, options.most_work};
  FunctionalEngine engine(c, limits, launch, plan, waves, Freedom::order);
  try {
    engine.run();
  } catch (const SimError& error) {
    out->put_back();
    if (error.reason != Reason::over_budget) throw;
    return Observed::too_long;
  }
  out->put_back();
  out->finish();
  return Observed::all;
}

}  // namespace hipsynth
