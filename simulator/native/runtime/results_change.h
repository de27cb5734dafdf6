// Keeps signal handlers from reading results that are being changed.
#pragma once

namespace hipsynth::runtime {

// Exists while a thread changes the results; nests. Other threads wait. What is static is async-signal-safe.
class ResultsChange {
 public:
  ResultsChange();
  ~ResultsChange();  // raises the signal that was postponed
  ResultsChange(const ResultsChange&) = delete;
  ResultsChange& operator=(const ResultsChange&) = delete;

  static bool is_by_this_thread();
  // Raises `signal` again when the change that this thread is making ends.
  static void postpone_signal(int signal);
  // Lets no change begin any more. False: another thread's does not end.
  static bool block_changes();
};

}  // namespace hipsynth::runtime
