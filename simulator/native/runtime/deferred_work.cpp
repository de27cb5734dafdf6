#include "deferred_work.h"

#include <algorithm>
#include <utility>

#include "runtime.h"

namespace hipsynth::runtime {

uint64_t DeferredWork::add(ihipStream_t* stream, Operation operation, std::vector<uint64_t> after) {
  pending_[++last_] = {stream, stream->id, std::move(operation), std::move(after)};
  return last_;
}

hipError_t DeferredWork::run_all(const Execute& execute) {
  std::vector<uint64_t> numbers;
  for (const auto& [number, _] : pending_) numbers.push_back(number);
  return run_in_order(numbers, execute);
}

std::set<uint64_t> DeferredWork::find_earlier(std::vector<uint64_t> numbers) const {
  std::set<uint64_t> reached;
  while (!numbers.empty()) {
    const auto work = pending_.find(numbers.back());
    numbers.pop_back();
    if (work == pending_.end() || !reached.insert(work->first).second) continue;
    numbers.insert(numbers.end(), work->second.after.begin(), work->second.after.end());
  }
  return reached;
}

hipError_t DeferredWork::run_through(std::vector<uint64_t> numbers, const Execute& execute) {
  const std::set<uint64_t> reached = find_earlier(std::move(numbers));
  return run_in_order({reached.begin(), reached.end()}, execute);
}

bool DeferredWork::is_pending(const std::vector<uint64_t>& numbers) const {
  return std::any_of(numbers.begin(), numbers.end(), [&](uint64_t n) { return pending_.contains(n); });
}

bool DeferredWork::has_stream(const std::vector<uint64_t>& numbers,
                              const std::function<bool(const ihipStream_t&)>& is_such) const {
  const std::set<uint64_t> reached = find_earlier(numbers);
  return std::any_of(reached.begin(), reached.end(), [&](uint64_t n) { return is_such(*pending_.at(n).stream); });
}

bool DeferredWork::first_query_of_pending(const std::vector<uint64_t>& numbers) {
  return is_pending(numbers) && queried_.insert(*std::max_element(numbers.begin(), numbers.end())).second;
}

// Runs one stream's operations after the other's; where work is not deferred, in the order of submission. What an
// operation of another stream comes after is run when that is reached, and no earlier.
hipError_t DeferredWork::run_in_order(const std::vector<uint64_t>& numbers, const Execute& execute) {
  std::vector<std::pair<uint64_t, uint64_t>> order;  // stream, number
  for (const uint64_t number : numbers) {
    const uint64_t id = on() ? pending_.at(number).stream_id : 0;
    order.emplace_back(youngest_first() ? ~id : id, number);
  }
  std::sort(order.begin(), order.end());
  hipError_t first = hipSuccess;
  for (const auto& [_, number] : order) {
    const hipError_t error = run_with_earlier(number, execute);
    if (first == hipSuccess) first = error;
  }
  return first;
}

hipError_t DeferredWork::run_with_earlier(uint64_t number, const Execute& execute) {
  hipError_t first = hipSuccess;
  for (std::vector<uint64_t> open{number}; !open.empty();) {
    const auto work = pending_.find(open.back());
    if (work == pending_.end()) {
      open.pop_back();
      continue;
    }
    const std::vector<uint64_t>& after = work->second.after;
    const auto earlier = std::find_if(after.begin(), after.end(), [&](uint64_t n) { return pending_.contains(n); });
    if (earlier != after.end()) {
      open.push_back(*earlier);
      continue;
    }
    const hipError_t error = run_one(open.back(), execute);
    if (first == hipSuccess) first = error;
  }
  return first;
}

// The operation is no longer pending while it runs: it may call the program, which submits and waits for other work.
hipError_t DeferredWork::run_one(uint64_t number, const Execute& execute) {
  const Work work = std::move(pending_.extract(number).mapped());
  queried_.erase(number);
  struct Scope {
    uint64_t& slot;
    const uint64_t before;
    ~Scope() { slot = before; }
  } scope{running_, std::exchange(running_, number)};
  return execute(*work.stream, work.operation);
}

}  // namespace hipsynth::runtime
