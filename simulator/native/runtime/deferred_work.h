// Work of streams that waits until the program waits for it. Such a run shows where a program does not wait although it
// has to: the host reads what was not copied yet, or a stream what another one has not computed.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <vector>

#include "hip_abi.h"

namespace hipsynth::runtime {

// Work in a stream: executed at once, deferred, or stored in a graph while the stream captures.
using Operation = std::function<hipError_t()>;

// Whether work is deferred, and whose comes first where nothing puts two streams in order. Of two operations that do
// not wait for each other, one of the two orders runs the later one first.
enum class Deferral : uint8_t { none, oldest_stream_first, youngest_stream_first };

class DeferredWork {
 public:
  using Execute = std::function<hipError_t(ihipStream_t&, const Operation&)>;

  void configure(Deferral deferral) { deferral_ = deferral; }
  bool on() const { return deferral_ != Deferral::none; }
  bool youngest_first() const { return deferral_ == Deferral::youngest_stream_first; }
  // Adds an operation of a stream that comes after those with the numbers `after`. Returns its own number, from 1 on
  // in the order of submission.
  uint64_t add(ihipStream_t* stream, Operation operation, std::vector<uint64_t> after);
  // Runs the operations with these numbers, after all that they come after. Returns the first error.
  hipError_t run_through(std::vector<uint64_t> numbers, const Execute& execute);
  hipError_t run_all(const Execute& execute);
  // Whether one of the operations with these numbers has not run, and the program has not asked so since the last one
  // of them was added. Asking again says no, so that who asks until work is done waits for it.
  bool first_query_of_pending(const std::vector<uint64_t>& numbers);
  // The number of the operation that runs; 0 if none does, or if work is not deferred.
  uint64_t running() const { return on() ? running_ : 0; }
  bool empty() const { return pending_.empty(); }
  bool is_pending(const std::vector<uint64_t>& numbers) const;  // one of them
  // Whether one of the pending operations with these numbers, or one that they come after, is of such a stream.
  bool has_stream(const std::vector<uint64_t>& numbers, const std::function<bool(const ihipStream_t&)>& is_such) const;

 private:
  struct Work {
    ihipStream_t* stream;
    uint64_t stream_id;
    Operation operation;
    std::vector<uint64_t> after;
  };
  std::set<uint64_t> find_earlier(std::vector<uint64_t> numbers) const;  // those that are pending, with themselves
  hipError_t run_in_order(const std::vector<uint64_t>& numbers, const Execute& execute);
  hipError_t run_with_earlier(uint64_t number, const Execute& execute);
  hipError_t run_one(uint64_t number, const Execute& execute);

  Deferral deferral_ = Deferral::none;
  std::map<uint64_t, Work> pending_;  // by number
  std::set<uint64_t> queried_;        // the last operations that queries were about
  uint64_t last_ = 0, running_ = 0;
};

}  // namespace hipsynth::runtime
