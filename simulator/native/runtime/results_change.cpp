#include "results_change.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>

#include <atomic>

namespace hipsynth::runtime {
namespace {

constexpr timespec kPause{0, 100'000};  // ns
constexpr int kMostPauses = 10'000;     // a change takes some milliseconds at most, but its thread may wait for a CPU

std::atomic<pthread_t> owner{0};  // the thread that changes results; 0: none does
int depth = 0;                    // of the owner's changes
std::atomic<int> postponed{0};
static_assert(std::atomic<pthread_t>::is_always_lock_free && std::atomic<int>::is_always_lock_free);

bool claim() {
  pthread_t nobody = 0;
  return owner.compare_exchange_strong(nobody, pthread_self(), std::memory_order_acquire);
}

}  // namespace

ResultsChange::ResultsChange() {
  if (!is_by_this_thread()) {
    while (!claim()) nanosleep(&kPause, nullptr);
  }
  ++depth;
}

ResultsChange::~ResultsChange() {
  if (--depth > 0) return;
  owner.store(0, std::memory_order_release);
  if (const int signal = postponed.exchange(0)) ::raise(signal);
}

bool ResultsChange::is_by_this_thread() { return owner.load(std::memory_order_relaxed) == pthread_self(); }

void ResultsChange::postpone_signal(int signal) { postponed.store(signal); }

bool ResultsChange::block_changes() {
  for (int pauses = 0; pauses < kMostPauses; ++pauses) {
    if (claim()) return true;
    nanosleep(&kPause, nullptr);
  }
  return false;
}

}  // namespace hipsynth::runtime
