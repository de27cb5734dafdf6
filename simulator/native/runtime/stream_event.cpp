// Streams and events. Every operation finishes before its call returns unless it is deferred (deferred_work.h), so
// waiting is never needed in real time; Timeline computes when operations run in simulated time.
#include <bit>

#include "graph.h"

using namespace hipsynth::runtime;

namespace {

constexpr int kLeastPriority = 1, kGreatestPriority = -1;
constexpr unsigned kEventWaitExternal = 1;
// Flags of events besides kEventDisableTiming.
constexpr unsigned kEventBlockingSync = 1, kEventInterprocess = 4;
constexpr unsigned kEventReleaseFlags = 0xe0000000;  // at most one of them
constexpr unsigned kEventFlags = kEventBlockingSync | kEventDisableTiming | kEventInterprocess | kEventReleaseFlags;

hipError_t create_stream(hipStream_t* out, unsigned flags, int priority) {
  return call([&](Runtime& rt) -> hipError_t {
    if (out == nullptr || flags > 1) return hipErrorInvalidValue;
    *out = rt.add_stream(flags, std::min(std::max(priority, kGreatestPriority), kLeastPriority));
    return hipSuccess;
  });
}

// Synchronises a stream, which must be valid and not capturing.
hipError_t wait(hipStream_t handle) {
  return call([&](Runtime& rt) -> hipError_t {
    ihipStream_t* s = rt.stream(handle);
    if (s == nullptr) return hipErrorContextIsDestroyed;
    if (Capture* capture = rt.capture_of(*s)) {
      capture->invalidated = true;
      return hipErrorStreamCaptureUnsupported;
    }
    const hipError_t error = rt.complete_stream(*s);
    rt.timeline.wait(rt.ready(*s));
    return error;
  });
}

hipError_t create_event(hipEvent_t* out, unsigned flags) {
  return call([&](Runtime& rt) -> hipError_t {
    static uint64_t last_id = 0;
    const bool untimed = (flags & kEventDisableTiming) != 0;
    if (out == nullptr || (flags & ~kEventFlags) != 0 || std::popcount(flags & kEventReleaseFlags) > 1 ||
        ((flags & kEventInterprocess) != 0 && !untimed))
      return hipErrorInvalidValue;
    *out = new ihipEvent_t{.flags = flags, .id = ++last_id};
    rt.events.insert(*out);
    return hipSuccess;
  });
}

hipError_t record_event(Runtime& rt, hipEvent_t event, hipStream_t stream) {
  const hipError_t error = rt.submit(
      stream,
      [&rt, reference = EventReference{event, event->id}]() -> hipError_t {
        if (ihipEvent_t* recorded = rt.find_event(reference)) {
          recorded->recorded = true;
          recorded->time_ns = rt.now();
        }
        return hipSuccess;
      },
      NodeType::event_record);
  const ihipStream_t* s = rt.stream(stream);
  if (s != nullptr && !rt.executing()) event->work = s->last_work;
  return error;
}

// A node that waits for an event when the graph is launched.
hipError_t capture_event_wait(Capture& capture, const ihipStream_t& stream, hipEvent_t event) {
  const hipError_t error = capture_work(capture, stream, NodeType::event_wait, [] { return hipSuccess; });
  if (error == hipSuccess) capture.nodes.back()->awaited = {{event, event->id}};
  return error;
}

// Asking for an event of a capture is an error, and invalidates the capture.
hipError_t check_not_captured(Runtime& rt, const ihipEvent_t& event) {
  const auto capture = rt.captures.find(event.capture);
  if (capture == rt.captures.end() || capture->second.invalidated || rt.executing()) return hipSuccess;
  capture->second.invalidated = true;
  return hipErrorCapturedEvent;
}

template <typename T, typename Get>
hipError_t query_stream(hipStream_t handle, T* out, Get get) {
  return call([&](Runtime& rt) -> hipError_t {
    ihipStream_t* s = rt.stream(handle);
    if (out == nullptr) return hipErrorInvalidValue;
    if (s == nullptr) return hipErrorContextIsDestroyed;
    *out = get(*s);
    return hipSuccess;
  });
}

}  // namespace

HIPSYNTH_EXPORT hipError_t hipStreamCreate(hipStream_t* out) { return create_stream(out, 0, 0); }
HIPSYNTH_EXPORT hipError_t hipStreamCreateWithFlags(hipStream_t* out, unsigned flags) {
  return create_stream(out, flags, 0);
}
HIPSYNTH_EXPORT hipError_t hipStreamCreateWithPriority(hipStream_t* out, unsigned flags, int priority) {
  return create_stream(out, flags, priority);
}
HIPSYNTH_EXPORT hipError_t hipExtStreamCreateWithCUMask(hipStream_t* out, uint32_t words, const uint32_t* mask) {
  if (words == 0 || mask == nullptr) return finish(hipErrorInvalidValue);
  return call([&](Runtime&) {
    const hipError_t error = create_stream(out, 0, 0);
    if (error == hipSuccess) (*out)->cu_mask.assign(mask, mask + words);
    return error;
  });
}
HIPSYNTH_EXPORT hipError_t hipExtStreamGetCUMask(hipStream_t handle, uint32_t words, uint32_t* mask) {
  return call([&](Runtime& rt) -> hipError_t {
    const auto cus = static_cast<uint32_t>(rt.spec().topology.cus);
    if (mask == nullptr || words < (cus + 31) / 32) return hipErrorInvalidValue;
    ihipStream_t* s = rt.stream(handle);
    if (s == nullptr) return hipErrorContextIsDestroyed;
    for (uint32_t word = 0; word < words; ++word) {
      const uint32_t left = word * 32 < cus ? std::min(cus - word * 32, 32u) : 0;
      const uint32_t all = left == 32 ? ~0u : (1u << left) - 1;
      mask[word] = s->cu_mask.empty() ? all : word < s->cu_mask.size() ? s->cu_mask[word] & all : 0;
    }
    return hipSuccess;
  });
}
HIPSYNTH_EXPORT hipError_t hipStreamDestroy(hipStream_t s) {
  return call([&](Runtime& rt) -> hipError_t {
    const auto value = reinterpret_cast<uintptr_t>(s);
    if (value == 0 || value == kStreamLegacy || value == kStreamPerThread) return hipErrorInvalidHandle;
    if (!rt.streams.contains(s)) return hipErrorContextIsDestroyed;
    const hipError_t error = rt.complete_stream(*s);
    forget_stream(rt, *s);
    rt.streams.erase(s);
    delete s;
    return error;
  });
}
HIPSYNTH_EXPORT hipError_t hipStreamSynchronize(hipStream_t s) { return wait(s); }
HIPSYNTH_EXPORT hipError_t hipStreamQuery(hipStream_t handle) {
  return call([&](Runtime& rt) -> hipError_t {
    const ihipStream_t* s = rt.stream(handle);
    const bool busy = s != nullptr && rt.capture_of(*s) == nullptr && rt.still_working(*s);
    return busy ? hipErrorNotReady : wait(handle);
  });
}
HIPSYNTH_EXPORT hipError_t hipStreamGetFlags(hipStream_t s, unsigned* out) {
  if (s == nullptr) return finish(hipErrorInvalidValue);
  return query_stream(s, out, [](ihipStream_t& x) { return x.flags; });
}
HIPSYNTH_EXPORT hipError_t hipStreamGetPriority(hipStream_t s, int* out) {
  return query_stream(s, out, [](ihipStream_t& x) { return x.priority; });
}
HIPSYNTH_EXPORT hipError_t hipStreamGetId(hipStream_t s, unsigned long long* out) {
  return query_stream(s, out, [](ihipStream_t& x) { return x.id; });
}
HIPSYNTH_EXPORT hipError_t hipStreamGetDevice(hipStream_t s, hipDevice_t* out) {
  return query_stream(s, out, [](ihipStream_t&) { return 0; });
}
HIPSYNTH_EXPORT hipError_t hipDeviceGetStreamPriorityRange(int* least, int* greatest) {
  if (least != nullptr) *least = kLeastPriority;
  if (greatest != nullptr) *greatest = kGreatestPriority;
  return hipSuccess;
}

// Waiting for an event recorded by a capturing stream makes this stream join the same capture.
HIPSYNTH_EXPORT hipError_t hipStreamWaitEvent(hipStream_t handle, hipEvent_t event, unsigned flags) {
  return call([&](Runtime& rt) -> hipError_t {
    ihipStream_t* s = rt.stream(handle);
    if (s == nullptr || !rt.events.contains(event)) return hipErrorInvalidHandle;
    if (flags > kEventWaitExternal) return hipErrorInvalidValue;
    if (flags == kEventWaitExternal) {
      Capture* capture = rt.capture_of(*s);
      return capture == nullptr ? hipErrorInvalidHandle : capture_event_wait(*capture, *s, event);
    }
    if (rt.captures.contains(event->capture)) return capture_wait(rt, *s, event->capture, event->after);
    if (s->capture == 0 && event->recorded) s->tail_ns = std::max(s->tail_ns, event->time_ns);
    if (s->capture == 0) rt.order_behind_event(*s, *event);
    return hipSuccess;
  });
}

namespace {

hipError_t run_callback(hipStream_t s, std::function<void()> body) {
  return call([&](Runtime& rt) {
    return rt.submit(
        s,
        [&rt, body] {
          rt.call_host(body);
          return hipSuccess;
        },
        NodeType::host);
  });
}

}  // namespace

HIPSYNTH_EXPORT hipError_t hipStreamAddCallback(hipStream_t s, hipStreamCallback_t callback, void* data,
                                                unsigned flags) {
  if (callback == nullptr || flags != 0) return finish(hipErrorInvalidValue);
  return call([&](Runtime& rt) {
    const hipError_t allowed = check_callback(rt, rt.stream(s));
    return allowed == hipSuccess ? run_callback(s, [=] { callback(s, hipSuccess, data); }) : allowed;
  });
}
HIPSYNTH_EXPORT hipError_t hipLaunchHostFunc(hipStream_t s, hipHostFn_t function, void* data) {
  if (function == nullptr) return finish(hipErrorInvalidValue);
  return run_callback(s, [=] { function(data); });
}

HIPSYNTH_EXPORT hipError_t hipEventCreate(hipEvent_t* out) { return create_event(out, 0); }
HIPSYNTH_EXPORT hipError_t hipEventCreateWithFlags(hipEvent_t* out, unsigned flags) { return create_event(out, flags); }
HIPSYNTH_EXPORT hipError_t hipEventDestroy(hipEvent_t event) {
  return call([&](Runtime& rt) -> hipError_t {
    if (rt.events.erase(event) == 0) return event == nullptr ? hipErrorInvalidHandle : hipErrorContextIsDestroyed;
    delete event;
    return hipSuccess;
  });
}
HIPSYNTH_EXPORT hipError_t hipEventRecord(hipEvent_t event, hipStream_t handle) {
  return call([&](Runtime& rt) -> hipError_t {
    ihipStream_t* s = rt.stream(handle);
    if (!rt.events.contains(event)) return hipErrorInvalidHandle;
    if (s == nullptr) return hipErrorContextIsDestroyed;
    const Capture* capture = rt.capture_of(*s);
    event->capture = s->capture;
    event->after = capture == nullptr || !capture->reached.contains(s->id) ? Reached{} : capture->reached.at(s->id);
    if (capture != nullptr) return capture->invalidated ? hipErrorStreamCaptureInvalidated : hipSuccess;
    return record_event(rt, event, handle);
  });
}
HIPSYNTH_EXPORT hipError_t hipEventRecordWithFlags(hipEvent_t event, hipStream_t s, unsigned flags) {
  constexpr unsigned kExternal = 1;  // hipEventRecordExternal: a node of the graph where the stream captures
  if (flags > kExternal) return finish(hipErrorInvalidValue);
  if (flags != kExternal) return hipEventRecord(event, s);
  return call(
      [&](Runtime& rt) { return rt.events.contains(event) ? record_event(rt, event, s) : hipErrorInvalidHandle; });
}
HIPSYNTH_EXPORT hipError_t hipEventSynchronize(hipEvent_t event) {
  return call([&](Runtime& rt) -> hipError_t {
    if (!rt.events.contains(event)) return hipErrorInvalidHandle;
    if (hipError_t error = check_not_captured(rt, *event); error != hipSuccess) return error;
    const EventReference reference{event, event->id};
    const hipError_t error = rt.complete_event(*event);
    if (rt.find_event(reference) != nullptr && event->recorded) rt.timeline.wait(event->time_ns);
    return error;
  });
}
HIPSYNTH_EXPORT hipError_t hipEventQuery(hipEvent_t event) {
  return call([&](Runtime& rt) -> hipError_t {
    const bool captured = rt.events.contains(event) && rt.captures.contains(event->capture);
    const bool busy = rt.events.contains(event) && !captured && rt.still_working(*event);
    return busy ? hipErrorNotReady : hipEventSynchronize(event);
  });
}
HIPSYNTH_EXPORT hipError_t hipEventElapsedTime(float* ms, hipEvent_t start, hipEvent_t stop) {
  return call([&](Runtime& rt) -> hipError_t {
    if (ms == nullptr) return hipErrorInvalidValue;
    if (!rt.events.contains(start) || !rt.events.contains(stop)) return hipErrorInvalidHandle;
    if ((start->flags | stop->flags) & kEventDisableTiming) return hipErrorInvalidHandle;
    const EventReference references[] = {{start, start->id}, {stop, stop->id}};
    for (const EventReference& reference : references) {
      if (ihipEvent_t* event = rt.find_event(reference)) rt.complete_event(*event);
    }
    if (rt.find_event(references[0]) == nullptr || rt.find_event(references[1]) == nullptr)
      return hipErrorInvalidHandle;
    if (!start->recorded || !stop->recorded) return hipErrorInvalidHandle;
    *ms = static_cast<float>((stop->time_ns - start->time_ns) * 1e-6);
    return hipSuccess;
  });
}
