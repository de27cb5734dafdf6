// Graphs: the operations of a capturing stream, or explicit nodes, kept in order and replayed by hipGraphLaunch.
// Nodes run in the order in which they were added, which respects every dependency: a node can only depend on nodes
// that already exist.
#include <list>

#include "copy.h"

struct hipGraphNode {
  hipsynth::runtime::Operation operation;
};

struct ihipGraph {
  std::list<hipGraphNode> nodes;
};

struct hipGraphExec {
  std::vector<hipsynth::runtime::Operation> operations;
};

namespace hipsynth::runtime {

void graph_append(ihipGraph* graph, Operation operation) { graph->nodes.push_back({std::move(operation)}); }

}  // namespace hipsynth::runtime

using namespace hipsynth::runtime;

namespace {

std::set<hipGraph_t>& graphs() {
  static std::set<hipGraph_t> table;
  return table;
}

std::set<hipGraphExec_t>& executables() {
  static std::set<hipGraphExec_t> table;
  return table;
}

hipGraph_t new_graph() {
  auto* graph = new ihipGraph;
  graphs().insert(graph);
  return graph;
}

hipError_t begin_capture(hipStream_t handle) {
  return call([&](Runtime& rt) -> hipError_t {
    auto value = reinterpret_cast<uintptr_t>(handle);
    if (value == 0 || value == kStreamLegacy) return hipErrorStreamCaptureUnsupported;
    ihipStream_t* s = rt.stream(handle);
    if (s == nullptr) return hipErrorContextIsDestroyed;
    if (s->capture != nullptr) return hipErrorIllegalState;
    s->capture = new_graph();
    return hipSuccess;
  });
}

hipError_t end_capture(hipStream_t handle, hipGraph_t* out) {
  return call([&](Runtime& rt) -> hipError_t {
    ihipStream_t* s = rt.stream(handle);
    if (out == nullptr) return hipErrorInvalidValue;
    if (s == nullptr) return hipErrorContextIsDestroyed;
    if (s->capture == nullptr) return hipErrorIllegalState;
    hipGraph_t graph = s->capture;
    s->capture = nullptr;
    for (hipStream_t other : rt.streams) {
      if (other->capture == graph) other->capture = nullptr;  // streams that joined through events
    }
    *out = graph;
    return hipSuccess;
  });
}

hipError_t instantiate(hipGraphExec_t* out, hipGraph_t graph) {
  return call([&](Runtime&) -> hipError_t {
    if (out == nullptr || !graphs().contains(graph)) return hipErrorInvalidValue;
    auto* executable = new hipGraphExec;
    for (const hipGraphNode& node : graph->nodes) executable->operations.push_back(node.operation);
    executables().insert(executable);
    *out = executable;
    return hipSuccess;
  });
}

hipError_t add_node(hipGraphNode_t* out, hipGraph_t graph,
                    const std::function<hipError_t(Runtime&, Operation&)>& make) {
  return call([&](Runtime& rt) -> hipError_t {
    if (out == nullptr || !graphs().contains(graph)) return hipErrorInvalidValue;
    Operation operation;
    hipError_t error = make(rt, operation);
    if (error != hipSuccess) return error;
    graph_append(graph, std::move(operation));
    *out = &graph->nodes.back();
    return hipSuccess;
  });
}

hipError_t capture_status(hipStream_t handle, int* status, unsigned long long* id) {
  return call([&](Runtime& rt) -> hipError_t {
    ihipStream_t* s = rt.stream(handle);
    if (status == nullptr) return hipErrorInvalidValue;
    if (s == nullptr) return hipErrorContextIsDestroyed;
    *status = s->capture != nullptr ? 1 : 0;
    if (id != nullptr) *id = s->capture != nullptr ? s->id : 0;
    return hipSuccess;
  });
}

}  // namespace

void hipsynth::runtime::forget_graphs() {
  for (hipGraph_t graph : graphs()) delete graph;
  for (hipGraphExec_t executable : executables()) delete executable;
  graphs().clear();
  executables().clear();
}

HIPSYNTH_EXPORT hipError_t hipStreamBeginCapture(hipStream_t s, int) { return begin_capture(s); }
HIPSYNTH_EXPORT hipError_t hipStreamEndCapture(hipStream_t s, hipGraph_t* out) { return end_capture(s, out); }
HIPSYNTH_EXPORT hipError_t hipStreamIsCapturing(hipStream_t s, int* status) {
  return capture_status(s, status, nullptr);
}
HIPSYNTH_EXPORT hipError_t hipStreamGetCaptureInfo(hipStream_t s, int* status, unsigned long long* id) {
  return capture_status(s, status, id);
}
HIPSYNTH_EXPORT hipError_t hipThreadExchangeStreamCaptureMode(int* mode) {
  return finish(mode == nullptr ? hipErrorInvalidValue : hipSuccess);
}

HIPSYNTH_EXPORT hipError_t hipGraphCreate(hipGraph_t* out, unsigned) {
  return call([&](Runtime&) -> hipError_t {
    if (out == nullptr) return hipErrorInvalidValue;
    *out = new_graph();
    return hipSuccess;
  });
}
HIPSYNTH_EXPORT hipError_t hipGraphDestroy(hipGraph_t graph) {
  return call([&](Runtime&) -> hipError_t {
    if (graphs().erase(graph) == 0) return hipErrorInvalidValue;
    delete graph;
    return hipSuccess;
  });
}
HIPSYNTH_EXPORT hipError_t hipGraphGetNodes(hipGraph_t graph, hipGraphNode_t* nodes, size_t* count) {
  return call([&](Runtime&) -> hipError_t {
    if (count == nullptr || !graphs().contains(graph)) return hipErrorInvalidValue;
    size_t i = 0;
    for (hipGraphNode& node : graph->nodes) {
      if (nodes != nullptr && i < *count) nodes[i++] = &node;
    }
    *count = nodes != nullptr ? i : graph->nodes.size();
    return hipSuccess;
  });
}

HIPSYNTH_EXPORT hipError_t hipGraphAddKernelNode(hipGraphNode_t* out, hipGraph_t graph, const hipGraphNode_t*, size_t,
                                                 const hipKernelNodeParams* p) {
  if (p == nullptr) return finish(hipErrorInvalidValue);
  return add_node(out, graph, [&](Runtime& rt, Operation& operation) -> hipError_t {
    ihipModuleSymbol_t* kernel = rt.kernel(p->func);
    if (kernel == nullptr) return hipErrorInvalidDeviceFunction;
    LaunchRequest request{kernel, p->gridDim, p->blockDim, p->sharedMemBytes, {}, false};
    if (p->kernelParams != nullptr) {
      request.args = pack_arguments(*kernel->info, p->kernelParams);
    } else if (p->extra == nullptr || !pack_extra(p->extra, request.args)) {
      return hipErrorInvalidValue;
    }
    hipError_t shape = check_shape(rt, request);
    if (shape == hipSuccess) operation = [&rt, request] { return launch(rt, request, nullptr); };
    return shape;
  });
}
HIPSYNTH_EXPORT hipError_t hipGraphAddMemcpyNode(hipGraphNode_t* out, hipGraph_t graph, const hipGraphNode_t*, size_t,
                                                 const hipMemcpy3DParms* p);
HIPSYNTH_EXPORT hipError_t hipMemcpy3D(const hipMemcpy3DParms* p);
HIPSYNTH_EXPORT hipError_t hipGraphAddMemcpyNode(hipGraphNode_t* out, hipGraph_t graph, const hipGraphNode_t*, size_t,
                                                 const hipMemcpy3DParms* p) {
  if (p == nullptr) return finish(hipErrorInvalidValue);
  return add_node(out, graph, [&](Runtime&, Operation& operation) {
    operation = [params = *p] { return hipMemcpy3D(&params); };
    return hipSuccess;
  });
}
HIPSYNTH_EXPORT hipError_t hipGraphAddMemcpyNode1D(hipGraphNode_t* out, hipGraph_t graph, const hipGraphNode_t*, size_t,
                                                   void* dst, const void* src, size_t n, hipMemcpyKind kind) {
  return add_node(out, graph, [&](Runtime& rt, Operation& operation) {
    operation = [&rt, dst, src, n, kind] { return copy(rt, dst, src, n, kind, nullptr); };
    return hipSuccess;
  });
}
HIPSYNTH_EXPORT hipError_t hipGraphAddMemsetNode(hipGraphNode_t* out, hipGraph_t graph, const hipGraphNode_t*, size_t,
                                                 const hipMemsetParams* p) {
  if (p == nullptr) return finish(hipErrorInvalidValue);
  return add_node(out, graph, [&](Runtime& rt, Operation& operation) {
    operation = [&rt, m = *p] {
      return fill_block(rt, {m.dst, m.pitch, 0}, m.value, m.elementSize, {m.width * m.elementSize, m.height, 1},
                        nullptr);
    };
    return hipSuccess;
  });
}
HIPSYNTH_EXPORT hipError_t hipGraphAddHostNode(hipGraphNode_t* out, hipGraph_t graph, const hipGraphNode_t*, size_t,
                                               const hipHostNodeParams* p) {
  if (p == nullptr || p->fn == nullptr) return finish(hipErrorInvalidValue);
  return add_node(out, graph, [&](Runtime&, Operation& operation) {
    operation = [node = *p] {
      node.fn(node.userData);
      return hipSuccess;
    };
    return hipSuccess;
  });
}
HIPSYNTH_EXPORT hipError_t hipGraphAddEmptyNode(hipGraphNode_t* out, hipGraph_t graph, const hipGraphNode_t*, size_t) {
  return add_node(out, graph, [&](Runtime&, Operation& operation) {
    operation = [] { return hipSuccess; };
    return hipSuccess;
  });
}
// Order of addition is already an order that satisfies the new edges only if they point forward.
HIPSYNTH_EXPORT hipError_t hipGraphAddDependencies(hipGraph_t graph, const hipGraphNode_t* from,
                                                   const hipGraphNode_t* to, size_t count) {
  return call([&](Runtime&) -> hipError_t {
    if (!graphs().contains(graph) || (count > 0 && (from == nullptr || to == nullptr))) return hipErrorInvalidValue;
    std::map<const hipGraphNode*, size_t> position;
    for (const hipGraphNode& node : graph->nodes) position.emplace(&node, position.size());
    for (size_t i = 0; i < count; ++i) {
      if (!position.contains(from[i]) || !position.contains(to[i])) return hipErrorInvalidValue;
      if (position[from[i]] >= position[to[i]]) return hipErrorNotSupported;
    }
    return hipSuccess;
  });
}

HIPSYNTH_EXPORT hipError_t hipGraphInstantiate(hipGraphExec_t* out, hipGraph_t graph, hipGraphNode_t*, char*, size_t) {
  return instantiate(out, graph);
}
HIPSYNTH_EXPORT hipError_t hipGraphInstantiateWithFlags(hipGraphExec_t* out, hipGraph_t graph, unsigned long long) {
  return instantiate(out, graph);
}
HIPSYNTH_EXPORT hipError_t hipGraphUpload(hipGraphExec_t executable, hipStream_t) {
  return call([&](Runtime&) { return executables().contains(executable) ? hipSuccess : hipErrorInvalidValue; });
}
HIPSYNTH_EXPORT hipError_t hipGraphLaunch(hipGraphExec_t executable, hipStream_t handle) {
  return call([&](Runtime& rt) -> hipError_t {
    if (!executables().contains(executable)) return hipErrorInvalidValue;
    ihipStream_t* s = rt.stream(handle);
    if (s == nullptr) return hipErrorContextIsDestroyed;
    for (const Operation& operation : executable->operations) {
      hipError_t error = rt.submit(handle, operation);
      if (error != hipSuccess) return error;
    }
    return hipSuccess;
  });
}
HIPSYNTH_EXPORT hipError_t hipGraphExecDestroy(hipGraphExec_t executable) {
  return call([&](Runtime&) -> hipError_t {
    if (executables().erase(executable) == 0) return hipErrorInvalidValue;
    delete executable;
    return hipSuccess;
  });
}
