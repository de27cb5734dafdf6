// What is submitted to streams: stored in a graph, executed at once, or pending (deferred_work.h). Pending is, besides
// deferred work, what comes behind a function of the host that another thread executes.
#include <algorithm>

#include "runtime.h"

namespace hipsynth::runtime {
namespace {

thread_local int functions_in_progress = 0;  // of the host, in which this thread is

}  // namespace

hipError_t Runtime::submit(hipStream_t handle, Operation operation, NodeType type) {
  ihipStream_t* s = stream(handle);
  if (s == nullptr) return hipErrorContextIsDestroyed;
  if (Capture* capture = capture_of(*s)) return capture_work(*capture, *s, type, std::move(operation));
  if (current_ != nullptr) return operation();  // nested in another operation, such as a graph launch
  if (!deferred.on() && !is_held_back(*s)) return execute(*s, operation);
  s->last_work = deferred.add(s, std::move(operation), earlier_work(*s));
  return hipSuccess;
}

hipError_t Runtime::execute(ihipStream_t& stream, const Operation& operation) {
  struct Scope {
    ihipStream_t*& slot;
    ~Scope() { slot = nullptr; }
  } scope{current_ = &stream};
  return operation();
}

// The default stream and blocking streams wait for each other.
std::vector<uint64_t> Runtime::earlier_work(const ihipStream_t& s) const {
  std::vector<uint64_t> numbers{s.last_work};
  if (&s != &default_stream_ && !(s.flags & kStreamNonBlocking)) numbers.push_back(default_stream_.last_work);
  for (const ihipStream_t* other : streams) {
    if (&s == &default_stream_ && !(other->flags & kStreamNonBlocking)) numbers.push_back(other->last_work);
  }
  return numbers;
}

std::vector<uint64_t> Runtime::work_of(const ihipStream_t& s) const {
  return is_default(s) ? earlier_work(s) : std::vector{s.last_work};
}

hipError_t Runtime::complete_stream(const ihipStream_t& s) {
  if (executing()) return hipSuccess;
  wait_for_host_calls([&] { return is_behind_host_call(s) || are_behind_host_call(work_of(s)); });
  return deferred.run_through(work_of(s), std::bind_front(&Runtime::execute, this));
}

hipError_t Runtime::complete_event(const ihipEvent_t& event) {
  if (executing()) return hipSuccess;
  const uint64_t work = event.work;  // another thread may destroy the event meanwhile
  wait_for_host_calls([&] { return are_behind_host_call({work}); });
  return deferred.run_through({work}, std::bind_front(&Runtime::execute, this));
}

bool Runtime::still_working(const ihipStream_t& s) {
  if (executing()) return false;
  if (is_behind_host_call(s) || are_behind_host_call(work_of(s))) return true;
  return deferred.on() && deferred.first_query_of_pending(work_of(s));
}

bool Runtime::still_working(const ihipEvent_t& event) {
  if (executing()) return false;
  if (are_behind_host_call({event.work})) return true;
  return deferred.on() && deferred.first_query_of_pending({event.work});
}

hipError_t Runtime::complete_all() {
  if (executing()) return hipSuccess;
  wait_for_host_calls([this] {
    return std::any_of(host_calls_.begin(), host_calls_.end(),
                       [](const HostCall& call) { return call.thread != std::this_thread::get_id(); });
  });
  return deferred.run_all(std::bind_front(&Runtime::execute, this));
}

void Runtime::complete_others() {
  ihipStream_t* const stream = current_;
  if (deferred.on()) deferred.run_all(std::bind_front(&Runtime::execute, this));
  current_ = stream;
}

void Runtime::complete_at_exit() {
  ended = true;
  enter();
  try {
    complete_all();
  } catch (const SimError& error) {
    stop(error.reason, error.what());
  }
  leave();
}

ihipEvent_t* Runtime::find_event(const EventReference& reference) const {
  return events.contains(reference.event) && reference.event->id == reference.id ? reference.event : nullptr;
}

void Runtime::order_behind_event(ihipStream_t& s, const ihipEvent_t& event) {
  if (event.work == 0 || (!deferred.on() && !deferred.is_pending({event.work}))) return;
  std::vector<uint64_t> after = earlier_work(s);
  after.push_back(event.work);
  const EventReference reference{const_cast<hipEvent_t>(&event), event.id};
  const auto wait = [this, &s, reference] {
    if (const ihipEvent_t* recorded = find_event(reference)) s.tail_ns = std::max(s.tail_ns, recorded->time_ns);
    return hipSuccess;
  };
  s.last_work = deferred.add(&s, wait, std::move(after));
}

void Runtime::call_host(const std::function<void()>& function) {
  if (ended) return;
  if (current_ != nullptr)
    host_calls_.push_back({std::this_thread::get_id(), current_->id, (current_->flags & kStreamNonBlocking) != 0});
  struct Unlocked {
    Runtime& rt;
    ihipStream_t* const stream = std::exchange(rt.current_, nullptr);
    const int depth = std::exchange(rt.depth_, 0);
    explicit Unlocked(Runtime& runtime) : rt(runtime) {
      ++functions_in_progress;
      for (int i = 0; i < depth; ++i) rt.mutex.unlock();
    }
    ~Unlocked() {
      for (int i = 0; i < depth; ++i) rt.mutex.lock();
      --functions_in_progress;
      rt.depth_ = depth;
      const bool exists = stream == &rt.default_stream_ || rt.streams.contains(stream);
      rt.current_ = exists ? stream : nullptr;
    }
  } unlocked(*this);
  function();
}

bool Runtime::is_behind_host_call(const ihipStream_t& s) const {
  return std::any_of(host_calls_.begin(), host_calls_.end(), [&](const HostCall& call) {
    if (call.thread == std::this_thread::get_id()) return false;
    if (call.stream == s.id) return true;
    return is_default(s) ? !call.non_blocking : call.stream == default_stream_.id && !(s.flags & kStreamNonBlocking);
  });
}

bool Runtime::are_behind_host_call(const std::vector<uint64_t>& numbers) const {
  return !host_calls_.empty() &&
         deferred.has_stream(numbers, [this](const ihipStream_t& s) { return is_behind_host_call(s); });
}

// A thread whose function of the host is in progress goes on with the stream: it is in the middle of its own work.
bool Runtime::is_held_back(const ihipStream_t& s) const {
  if (host_calls_.empty() && deferred.empty()) return false;
  const bool ours = std::any_of(host_calls_.begin(), host_calls_.end(), [&](const HostCall& call) {
    return call.thread == std::this_thread::get_id() && call.stream == s.id;
  });
  return !ours && (is_behind_host_call(s) || deferred.is_pending(earlier_work(s)));
}

void Runtime::wait_for_host_calls(const std::function<bool()>& behind) {
  if (ended || host_calls_.empty() || !behind()) return;
  const int depth = std::exchange(depth_, 0);
  for (int i = 1; i < depth; ++i) mutex.unlock();  // the wait itself unlocks once
  host_calls_ended_.wait(mutex, [&] { return !behind(); });
  for (int i = 1; i < depth; ++i) mutex.lock();
  depth_ = depth;
}

void Runtime::forget_host_calls() {
  if (host_calls_.empty() || functions_in_progress != 0) return;
  std::erase_if(host_calls_, [](const HostCall& call) { return call.thread == std::this_thread::get_id(); });
  host_calls_ended_.notify_all();
}

void Runtime::run_held_back() {
  if (depth_ != 1 || deferred.on()) return;
  for (forget_host_calls(); host_calls_.empty() && !deferred.empty(); forget_host_calls()) {
    deferred.run_all(std::bind_front(&Runtime::execute, this));
  }
}

}  // namespace hipsynth::runtime
