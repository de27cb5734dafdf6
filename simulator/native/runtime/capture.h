// Captures: the work submitted to a stream becomes the nodes of a graph. Other streams join through events.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <thread>
#include <vector>

#include "hip_abi.h"

namespace hipsynth::runtime {

class Runtime;
enum class NodeType : int;

// What a point in a stream comes after: by stream, how many of the graph's nodes there were at the last such node.
using Reached = std::map<uint64_t, size_t>;

// A capture in progress. Its number is never used again.
struct Capture {
  ihipGraph* graph = nullptr;
  const ihipStream_t* origin = nullptr;   // the stream that it was begun in
  int mode = 0;                           // hipStreamCaptureMode
  std::thread::id thread;                 // that began it
  bool invalidated = false;               // a call was made that it forbids: nothing but its end is allowed
  std::map<uint64_t, Reached> reached{};  // by stream, its end so far
  std::vector<hipGraphNode_t> nodes{};    // in the order of capture
  std::vector<Reached> node_reached{};    // what each of them comes after, with itself
};

// Adds work of a capturing stream to the graph.
hipError_t capture_work(Capture& capture, const ihipStream_t& stream, NodeType type, std::function<hipError_t()> work);
// A capturing stream, or one that joins the capture `id`, waits for a captured event.
hipError_t capture_wait(Runtime& rt, ihipStream_t& stream, uint64_t id, const Reached& event);
// The stream is destroyed: a capture that was begun in it is dropped.
void forget_stream(Runtime& rt, const ihipStream_t& stream);

// For calls that are not allowed while a stream captures: the error, if there is such a capture, which is invalidated.
hipError_t check_unsafe(Runtime& rt);                                // allocations: not in relaxed mode
hipError_t check_synchronous(Runtime& rt);                           // copies and fills for which the host waits
hipError_t check_callback(Runtime& rt, const ihipStream_t* stream);  // hipStreamAddCallback; null: no such stream
hipError_t check_wait_for_device(Runtime& rt);                       // waits for all streams

}  // namespace hipsynth::runtime
