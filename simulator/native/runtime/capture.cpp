#include "capture.h"

#include <algorithm>

#include "graph.h"

namespace hipsynth::runtime {
namespace {

constexpr int kGlobal = 0, kRelaxed = 2;                 // hipStreamCaptureMode; between them, of one thread
constexpr int kNone = 0, kActive = 1, kInvalidated = 2;  // hipStreamCaptureStatus

// In which mode this thread makes calls that may be unsafe during a capture.
thread_local int thread_mode = kGlobal;

bool of_this_thread(const Capture& capture) {
  return capture.mode != kRelaxed && capture.thread == std::this_thread::get_id();
}

// Invalidates the captures that forbid a call; returns whether there are any. Graphs may do in a launch what is
// forbidden to the program.
template <typename Forbids>
bool invalidate(Runtime& rt, Forbids forbids) {
  bool any = false;
  for (auto& [id, capture] : rt.captures) {
    if (rt.executing() || !forbids(capture)) continue;
    capture.invalidated = any = true;
  }
  return any;
}

// Whether the origin waits for the last work of all streams that joined.
bool is_joined(Capture& capture) {
  Reached& end = capture.reached[capture.origin->id];
  return std::all_of(capture.reached.begin(), capture.reached.end(), [&](const auto& entry) {
    const auto& [stream, reached] = entry;
    const auto own = reached.find(stream);  // none: it joined without work
    return own == reached.end() || end[stream] >= own->second;
  });
}

// The nodes that a point comes after, without those that one of the others comes after.
std::vector<hipGraphNode*> last_nodes(const Capture& capture, const Reached& point) {
  std::vector<hipGraphNode*> last;
  for (const auto& [stream, count] : point) {
    const bool implied = std::any_of(point.begin(), point.end(), [&, s = stream, n = count](const auto& other) {
      if (other.first == s || other.second == 0) return false;
      const Reached& before = capture.node_reached[other.second - 1];
      const auto at = before.find(s);
      return at != before.end() && at->second >= n;
    });
    if (count != 0 && !implied) last.push_back(capture.nodes[count - 1]);
  }
  return last;
}

// Ends a capture in all its streams; returns its graph.
hipGraph_t close(Runtime& rt, uint64_t id) {
  for (hipStream_t stream : rt.streams) {
    if (stream->capture == id) stream->capture = 0;
  }
  return rt.captures.extract(id).mapped().graph;
}

hipError_t begin(hipStream_t handle, int mode) {
  return call([&](Runtime& rt) -> hipError_t {
    static uint64_t last_id = 0;
    const auto value = reinterpret_cast<uintptr_t>(handle);
    if (mode < kGlobal || mode > kRelaxed) return hipErrorInvalidValue;
    if (value == 0 || value == kStreamLegacy) return hipErrorStreamCaptureUnsupported;
    ihipStream_t* s = rt.stream(handle);
    if (s == nullptr) return hipErrorContextIsDestroyed;
    if (s->capture != 0) return hipErrorIllegalState;
    s->capture = ++last_id;
    rt.captures[s->capture] = {new_graph(), s, mode, std::this_thread::get_id(), false, {}};
    return hipSuccess;
  });
}

hipError_t end(hipStream_t handle, hipGraph_t* out) {
  return call([&](Runtime& rt) -> hipError_t {
    ihipStream_t* s = rt.stream(handle);
    if (out == nullptr) return hipErrorInvalidValue;
    if (s == nullptr) return hipErrorContextIsDestroyed;
    Capture* capture = rt.capture_of(*s);
    if (capture == nullptr) return hipErrorIllegalState;
    if (capture->origin != s) return hipErrorStreamCaptureUnmatched;
    if (capture->mode != kRelaxed && !of_this_thread(*capture)) return hipErrorStreamCaptureWrongThread;
    const hipError_t error = capture->invalidated   ? hipErrorStreamCaptureInvalidated
                             : !is_joined(*capture) ? hipErrorStreamCaptureUnjoined
                                                    : hipSuccess;
    *out = close(rt, s->capture);
    if (error == hipSuccess) return hipSuccess;
    drop_graph(*out);
    *out = nullptr;
    return error;
  });
}

hipError_t find_status(hipStream_t handle, int* status, unsigned long long* id) {
  return call([&](Runtime& rt) -> hipError_t {
    ihipStream_t* s = rt.stream(handle);
    if (status == nullptr) return hipErrorInvalidValue;
    if (s == nullptr) return hipErrorContextIsDestroyed;
    const Capture* capture = rt.capture_of(*s);
    *status = capture == nullptr ? kNone : capture->invalidated ? kInvalidated : kActive;
    if (id != nullptr) *id = s->capture;
    return hipSuccess;
  });
}

}  // namespace

hipError_t capture_work(Capture& capture, const ihipStream_t& stream, NodeType type, Operation work) {
  if (capture.invalidated) return hipErrorStreamCaptureInvalidated;
  Reached& reached = capture.reached[stream.id];
  std::list<hipGraphNode>& nodes = capture.graph->nodes;
  nodes.push_back({type, std::move(work), last_nodes(capture, reached), capture.graph});
  capture.nodes.push_back(&nodes.back());
  reached[stream.id] = capture.nodes.size();
  capture.node_reached.push_back(reached);
  return hipSuccess;
}

hipError_t capture_wait(Runtime& rt, ihipStream_t& stream, uint64_t id, const Reached& event) {
  if (rt.is_default(stream)) return hipErrorStreamCaptureImplicit;
  if (stream.capture == 0) stream.capture = id;
  if (stream.capture != id) return hipSuccess;
  Reached& reached = rt.captures.at(id).reached[stream.id];
  for (const auto& [other, count] : event) reached[other] = std::max(reached[other], count);
  return hipSuccess;
}

void forget_stream(Runtime& rt, const ihipStream_t& stream) {
  const Capture* capture = rt.capture_of(stream);
  if (capture != nullptr && capture->origin == &stream) drop_graph(close(rt, stream.capture));
}

hipError_t check_unsafe(Runtime& rt) {
  if (thread_mode == kRelaxed) return hipSuccess;
  const bool forbidden = invalidate(rt, [](const Capture& capture) {
    return of_this_thread(capture) || (thread_mode == kGlobal && capture.mode == kGlobal);
  });
  return forbidden ? hipErrorStreamCaptureUnsupported : hipSuccess;
}

hipError_t check_synchronous(Runtime& rt) {
  const bool forbidden = invalidate(rt, [](const Capture&) { return true; });
  return forbidden ? hipErrorStreamCaptureImplicit : hipSuccess;
}

// The default stream waits for blocking streams, so that a callback in it would come after what is captured.
hipError_t check_callback(Runtime& rt, const ihipStream_t* stream) {
  if (stream == nullptr) return hipSuccess;
  if (Capture* capture = rt.capture_of(*stream)) {
    capture->invalidated = true;
    return hipErrorStreamCaptureUnsupported;
  }
  const bool waits = rt.is_default(*stream) && std::any_of(rt.streams.begin(), rt.streams.end(), [&](auto* other) {
                       return rt.capture_of(*other) != nullptr && !(other->flags & kStreamNonBlocking);
                     });
  return waits ? check_synchronous(rt) : hipSuccess;
}

hipError_t check_wait_for_device(Runtime& rt) {
  const bool forbidden = invalidate(rt, [](const Capture&) { return true; });
  return forbidden ? hipErrorStreamCaptureUnsupported : hipSuccess;
}

}  // namespace hipsynth::runtime

using namespace hipsynth::runtime;

HIPSYNTH_EXPORT hipError_t hipStreamBeginCapture(hipStream_t s, int mode) { return begin(s, mode); }
HIPSYNTH_EXPORT hipError_t hipStreamEndCapture(hipStream_t s, hipGraph_t* out) { return end(s, out); }
HIPSYNTH_EXPORT hipError_t hipStreamIsCapturing(hipStream_t s, int* status) { return find_status(s, status, nullptr); }
HIPSYNTH_EXPORT hipError_t hipStreamGetCaptureInfo(hipStream_t s, int* status, unsigned long long* id) {
  return find_status(s, status, id);
}
HIPSYNTH_EXPORT hipError_t hipThreadExchangeStreamCaptureMode(int* mode) {
  if (mode == nullptr || *mode < kGlobal || *mode > kRelaxed) return finish(hipErrorInvalidValue);
  std::swap(*mode, thread_mode);
  return finish(hipSuccess);
}
