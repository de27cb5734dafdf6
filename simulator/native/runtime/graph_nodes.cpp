// Graph nodes: creation, update (in the graph or in an instance), edges and queries.
#include <algorithm>

#include "graph.h"
#include "graph_memory.h"

using namespace hipsynth::runtime;

// API calls executed by nodes.
HIPSYNTH_EXPORT hipError_t hipMemcpy3D(const hipMemcpy3DParms* p);
HIPSYNTH_EXPORT hipError_t hipMemcpyToSymbol(const void* symbol, const void* src, size_t n, size_t offset,
                                             hipMemcpyKind kind);
HIPSYNTH_EXPORT hipError_t hipMemcpyFromSymbol(void* dst, const void* symbol, size_t n, size_t offset,
                                               hipMemcpyKind kind);
HIPSYNTH_EXPORT hipError_t hipEventRecord(hipEvent_t event, hipStream_t stream);

namespace {

// Build the work of each kind of node; they return an error such as hipErrorInvalidValue for bad parameters.
hipError_t kernel_request(Runtime& rt, const hipKernelNodeParams& p, LaunchRequest* request) {
  const ihipModuleSymbol_t* kernel = rt.kernel(p.func);
  if (kernel == nullptr) kernel = rt.find_function(p.func);
  if (kernel == nullptr) return hipErrorInvalidDeviceFunction;
  *request = {kernel, p.gridDim, p.blockDim, p.sharedMemBytes, {}, false, p.func};
  if (p.kernelParams != nullptr) {
    request->args = pack_arguments(*kernel->info, p.kernelParams);
  } else if (p.extra == nullptr || !pack_extra(p.extra, request->args)) {
    return hipErrorInvalidValue;
  }
  return check_shape(rt, *request);
}

Operation copy_work(Runtime& rt, void* dst, const void* src, size_t n, hipMemcpyKind kind) {
  return [&rt, dst, src, n, kind] { return copy(rt, dst, src, n, kind, nullptr); };
}

Operation fill_work(Runtime& rt, const hipMemsetParams& m) {
  return [&rt, m] {
    return fill_block(rt, {m.dst, m.pitch, 0}, m.value, m.elementSize, {m.width * m.elementSize, m.height, 1}, nullptr);
  };
}

Operation host_work(const hipHostNodeParams& p) {
  return [p] {
    Runtime::get().call_host([&] { p.fn(p.userData); });
    return hipSuccess;
  };
}

using Make = std::function<hipError_t(Runtime&, Operation*)>;

hipError_t add(hipGraphNode_t* out, hipGraph_t graph, const hipGraphNode_t* after, size_t count, NodeType type,
               const Make& make) {
  return call([&](Runtime& rt) -> hipError_t {
    if (out == nullptr || !known(graph) || (count > 0 && after == nullptr)) return hipErrorInvalidValue;
    hipGraphNode node{type, {}, {after, after + count}, graph};
    for (const hipGraphNode* other : node.after) {
      const bool ours = std::any_of(graph->nodes.begin(), graph->nodes.end(), [&](auto& n) { return &n == other; });
      if (!ours) return hipErrorInvalidValue;
    }
    hipError_t error = make(rt, &node.operation);
    if (error != hipSuccess) return error;
    graph->nodes.push_back(std::move(node));
    *out = &graph->nodes.back();
    return hipSuccess;
  });
}

// Replaces the work of a node, which must have the given type.
hipError_t change(hipGraphNode_t handle, NodeType type, const Make& make) {
  return call([&](Runtime& rt) -> hipError_t {
    hipGraphNode* node = find_node(handle);
    if (node == nullptr || node->type != type) return hipErrorInvalidValue;
    return make(rt, &node->operation);
  });
}

// Replaces the work of a node in an instantiated graph; the graph's own node is not changed.
hipError_t change_in(hipGraphExec_t executable, hipGraphNode_t handle, NodeType type, const Make& make) {
  return call([&](Runtime& rt) -> hipError_t {
    hipGraphExec::Step* step = find_step(executable, handle);
    if (step == nullptr || step->type != type) return hipErrorInvalidValue;
    return make(rt, &step->operation);
  });
}

Make fixed(Operation work) {
  return [work](Runtime&, Operation* out) {
    *out = work;
    return hipSuccess;
  };
}
// Also tells the request.
Make kernel_maker(const hipKernelNodeParams& p, LaunchRequest* request) {
  return [&p, request](Runtime& rt, Operation* out) {
    const hipError_t error = kernel_request(rt, p, request);
    if (error == hipSuccess) *out = [&rt, made = *request] { return launch(rt, made, nullptr); };
    return error;
  };
}
Make copy_maker(void* dst, const void* src, size_t n, hipMemcpyKind kind) {
  return [=](Runtime& rt, Operation* out) {
    *out = copy_work(rt, dst, src, n, kind);
    return hipSuccess;
  };
}
Make fill_maker(const hipMemsetParams* p) {
  return [p](Runtime& rt, Operation* out) {
    const bool has_width = p->elementSize == 1 || p->elementSize == 2 || p->elementSize == 4;
    if (!has_width || p->width > SIZE_MAX / p->elementSize) return hipErrorInvalidValue;
    *out = fill_work(rt, *p);
    return hipSuccess;
  };
}

// Copies a list to an array of `*count` entries, of which those left over become null, or only sets `*count` if there
// is no array.
template <typename List>
hipError_t give(const List& list, hipGraphNode_t* out, size_t* count) {
  if (count == nullptr) return hipErrorInvalidValue;
  const size_t room = out != nullptr ? std::min(*count, list.size()) : 0;
  std::copy_n(list.begin(), room, out);
  if (out != nullptr) std::fill(out + room, out + *count, nullptr);
  *count = out != nullptr ? room : list.size();
  return hipSuccess;
}

hipError_t connect(hipGraph_t graph, const hipGraphNode_t* from, const hipGraphNode_t* to, size_t count, bool on) {
  return call([&](Runtime&) -> hipError_t {
    if (!known(graph) || (count > 0 && (from == nullptr || to == nullptr))) return hipErrorInvalidValue;
    for (size_t i = 0; i < count; ++i) {
      hipGraphNode *first = find_node(from[i]), *second = find_node(to[i]);
      if (first == nullptr || second == nullptr || first == second) return hipErrorInvalidValue;
      if (first->graph != graph || second->graph != graph) return hipErrorInvalidValue;
      const auto edge = std::find(second->after.begin(), second->after.end(), first);
      if (on == (edge != second->after.end()))
        return hipErrorInvalidValue;  // edge to add exists already, or edge to remove does not exist
      if (on) {
        second->after.push_back(first);
      } else {
        second->after.erase(edge);
      }
    }
    return hipSuccess;
  });
}

}  // namespace

HIPSYNTH_EXPORT hipError_t hipGraphAddKernelNode(hipGraphNode_t* out, hipGraph_t graph, const hipGraphNode_t* after,
                                                 size_t count, const hipKernelNodeParams* p) {
  if (p == nullptr) return finish(hipErrorInvalidValue);
  return call([&](Runtime&) {
    LaunchRequest request;
    const hipError_t error = add(out, graph, after, count, NodeType::kernel, kernel_maker(*p, &request));
    if (error == hipSuccess) (*out)->launch = request;
    return error;
  });
}
HIPSYNTH_EXPORT hipError_t hipGraphAddMemcpyNode(hipGraphNode_t* out, hipGraph_t graph, const hipGraphNode_t* after,
                                                 size_t count, const hipMemcpy3DParms* p) {
  if (p == nullptr) return finish(hipErrorInvalidValue);
  return add(out, graph, after, count, NodeType::memcpy, fixed([params = *p] { return hipMemcpy3D(&params); }));
}
HIPSYNTH_EXPORT hipError_t hipGraphAddMemcpyNode1D(hipGraphNode_t* out, hipGraph_t graph, const hipGraphNode_t* after,
                                                   size_t count, void* dst, const void* src, size_t n,
                                                   hipMemcpyKind kind) {
  return add(out, graph, after, count, NodeType::memcpy, copy_maker(dst, src, n, kind));
}
HIPSYNTH_EXPORT hipError_t hipGraphAddMemcpyNodeToSymbol(hipGraphNode_t* out, hipGraph_t graph,
                                                         const hipGraphNode_t* after, size_t count, const void* symbol,
                                                         const void* src, size_t n, size_t offset, hipMemcpyKind kind) {
  return add(out, graph, after, count, NodeType::memcpy,
             fixed([=] { return hipMemcpyToSymbol(symbol, src, n, offset, kind); }));
}
HIPSYNTH_EXPORT hipError_t hipGraphAddMemcpyNodeFromSymbol(hipGraphNode_t* out, hipGraph_t graph,
                                                           const hipGraphNode_t* after, size_t count, void* dst,
                                                           const void* symbol, size_t n, size_t offset,
                                                           hipMemcpyKind kind) {
  return add(out, graph, after, count, NodeType::memcpy,
             fixed([=] { return hipMemcpyFromSymbol(dst, symbol, n, offset, kind); }));
}
HIPSYNTH_EXPORT hipError_t hipGraphAddMemsetNode(hipGraphNode_t* out, hipGraph_t graph, const hipGraphNode_t* after,
                                                 size_t count, const hipMemsetParams* p) {
  if (p == nullptr) return finish(hipErrorInvalidValue);
  return add(out, graph, after, count, NodeType::memset, fill_maker(p));
}
HIPSYNTH_EXPORT hipError_t hipGraphAddHostNode(hipGraphNode_t* out, hipGraph_t graph, const hipGraphNode_t* after,
                                               size_t count, const hipHostNodeParams* p) {
  if (p == nullptr || p->fn == nullptr) return finish(hipErrorInvalidValue);
  return add(out, graph, after, count, NodeType::host, fixed(host_work(*p)));
}
HIPSYNTH_EXPORT hipError_t hipGraphAddEmptyNode(hipGraphNode_t* out, hipGraph_t graph, const hipGraphNode_t* after,
                                                size_t count) {
  return add(out, graph, after, count, NodeType::empty, fixed([] { return hipSuccess; }));
}
HIPSYNTH_EXPORT hipError_t hipGraphAddEventRecordNode(hipGraphNode_t* out, hipGraph_t graph,
                                                      const hipGraphNode_t* after, size_t count, hipEvent_t event) {
  return add(out, graph, after, count, NodeType::event_record, fixed([=] { return hipEventRecord(event, nullptr); }));
}
// No work of its own: a launch puts it behind the event.
HIPSYNTH_EXPORT hipError_t hipGraphAddEventWaitNode(hipGraphNode_t* out, hipGraph_t graph, const hipGraphNode_t* after,
                                                    size_t count, hipEvent_t event) {
  return call([&](Runtime& rt) {
    if (!rt.events.contains(event)) return hipErrorInvalidValue;
    const hipError_t error = add(out, graph, after, count, NodeType::event_wait, fixed([] { return hipSuccess; }));
    if (error == hipSuccess) (*out)->awaited = {{event, event->id}};
    return error;
  });
}
HIPSYNTH_EXPORT hipError_t hipGraphAddMemAllocNode(hipGraphNode_t* out, hipGraph_t graph, const hipGraphNode_t* after,
                                                   size_t count, hipMemAllocNodeParams* p) {
  if (p == nullptr || p->bytesize == 0) return finish(hipErrorInvalidValue);
  return add(out, graph, after, count, NodeType::mem_alloc, [p](Runtime&, Operation* work) {
    const std::shared_ptr<GraphMemory> memory = GraphMemory::allocate(p->bytesize);
    p->dptr = memory->address();
    *work = GraphMemory::begin_use(memory);
    return hipSuccess;
  });
}
HIPSYNTH_EXPORT hipError_t hipGraphAddMemFreeNode(hipGraphNode_t* out, hipGraph_t graph, const hipGraphNode_t* after,
                                                  size_t count, void* p) {
  return add(out, graph, after, count, NodeType::mem_free, [p](Runtime& rt, Operation* work) {
    *work = GraphMemory::end_use(GraphMemory::find(p));
    return rt.memory().find(reinterpret_cast<uint64_t>(p), 1) != nullptr ? hipSuccess : hipErrorInvalidValue;
  });
}
HIPSYNTH_EXPORT hipError_t hipGraphAddChildGraphNode(hipGraphNode_t* out, hipGraph_t graph, const hipGraphNode_t* after,
                                                     size_t count, hipGraph_t child) {
  std::vector<EventReference> awaited;
  const Make make = [child, &awaited](Runtime&, Operation* work) -> hipError_t {
    if (!known(child)) return hipErrorInvalidValue;
    std::vector<Operation> parts;
    for (const hipGraphNode* node : ordered(child)) {
      parts.push_back(node->operation);
      awaited.insert(awaited.end(), node->awaited.begin(), node->awaited.end());
    }
    if (parts.size() != child->nodes.size()) return hipErrorInvalidValue;
    *work = [parts] {
      for (const Operation& part : parts) {
        if (hipError_t error = part(); error != hipSuccess) return error;
      }
      return hipSuccess;
    };
    return hipSuccess;
  };
  return call([&](Runtime&) {
    const hipError_t error = add(out, graph, after, count, NodeType::graph, make);
    if (error == hipSuccess) (*out)->awaited = awaited;
    return error;
  });
}

HIPSYNTH_EXPORT hipError_t hipGraphKernelNodeGetParams(hipGraphNode_t handle, hipKernelNodeParams* out) {
  return call([&](Runtime&) -> hipError_t {
    hipGraphNode* node = find_node(handle);
    if (out == nullptr || node == nullptr || !node->launch) return hipErrorInvalidValue;
    LaunchRequest& request = *node->launch;
    request.args.resize(std::max<size_t>(request.args.size(), explicit_bytes(*request.kernel->info)));
    node->arguments = argument_pointers(*request.kernel->info, request.args);
    *out = {request.block,
            nullptr,
            const_cast<void*>(request.function),
            request.grid,
            node->arguments.data(),
            static_cast<unsigned>(request.dynamic_lds)};
    return hipSuccess;
  });
}
HIPSYNTH_EXPORT hipError_t hipGraphKernelNodeSetParams(hipGraphNode_t node, const hipKernelNodeParams* p) {
  if (p == nullptr) return finish(hipErrorInvalidValue);
  return call([&](Runtime&) {
    LaunchRequest request;
    const hipError_t error = change(node, NodeType::kernel, kernel_maker(*p, &request));
    if (error == hipSuccess) node->launch = request;
    return error;
  });
}
HIPSYNTH_EXPORT hipError_t hipGraphExecKernelNodeSetParams(hipGraphExec_t executable, hipGraphNode_t node,
                                                           const hipKernelNodeParams* p) {
  if (p == nullptr) return finish(hipErrorInvalidValue);
  LaunchRequest request;
  return change_in(executable, node, NodeType::kernel, kernel_maker(*p, &request));
}
HIPSYNTH_EXPORT hipError_t hipGraphMemcpyNodeSetParams1D(hipGraphNode_t node, void* dst, const void* src, size_t n,
                                                         hipMemcpyKind kind) {
  return change(node, NodeType::memcpy, copy_maker(dst, src, n, kind));
}
HIPSYNTH_EXPORT hipError_t hipGraphExecMemcpyNodeSetParams1D(hipGraphExec_t executable, hipGraphNode_t node, void* dst,
                                                             const void* src, size_t n, hipMemcpyKind kind) {
  return change_in(executable, node, NodeType::memcpy, copy_maker(dst, src, n, kind));
}
HIPSYNTH_EXPORT hipError_t hipGraphMemsetNodeSetParams(hipGraphNode_t node, const hipMemsetParams* p) {
  return p == nullptr ? finish(hipErrorInvalidValue) : change(node, NodeType::memset, fill_maker(p));
}
HIPSYNTH_EXPORT hipError_t hipGraphExecMemsetNodeSetParams(hipGraphExec_t executable, hipGraphNode_t node,
                                                           const hipMemsetParams* p) {
  return p == nullptr ? finish(hipErrorInvalidValue) : change_in(executable, node, NodeType::memset, fill_maker(p));
}
HIPSYNTH_EXPORT hipError_t hipGraphHostNodeSetParams(hipGraphNode_t node, const hipHostNodeParams* p) {
  if (p == nullptr || p->fn == nullptr) return finish(hipErrorInvalidValue);
  return change(node, NodeType::host, fixed(host_work(*p)));
}
HIPSYNTH_EXPORT hipError_t hipGraphExecHostNodeSetParams(hipGraphExec_t executable, hipGraphNode_t node,
                                                         const hipHostNodeParams* p) {
  if (p == nullptr || p->fn == nullptr) return finish(hipErrorInvalidValue);
  return change_in(executable, node, NodeType::host, fixed(host_work(*p)));
}

HIPSYNTH_EXPORT hipError_t hipGraphAddDependencies(hipGraph_t graph, const hipGraphNode_t* from,
                                                   const hipGraphNode_t* to, size_t count) {
  return connect(graph, from, to, count, true);
}
HIPSYNTH_EXPORT hipError_t hipGraphRemoveDependencies(hipGraph_t graph, const hipGraphNode_t* from,
                                                      const hipGraphNode_t* to, size_t count) {
  return connect(graph, from, to, count, false);
}
HIPSYNTH_EXPORT hipError_t hipGraphDestroyNode(hipGraphNode_t handle) {
  return call([&](Runtime&) -> hipError_t {
    hipGraphNode* node = find_node(handle);
    if (node == nullptr) return hipErrorInvalidValue;
    ihipGraph* graph = node->graph;
    for (hipGraphNode& other : graph->nodes) std::erase(other.after, node);
    graph->nodes.remove_if([&](const hipGraphNode& n) { return &n == handle; });
    return hipSuccess;
  });
}
HIPSYNTH_EXPORT hipError_t hipGraphNodeGetType(hipGraphNode_t handle, int* out) {
  return call([&](Runtime&) -> hipError_t {
    hipGraphNode* node = find_node(handle);
    if (out == nullptr || node == nullptr) return hipErrorInvalidValue;
    *out = static_cast<int>(node->type);
    return hipSuccess;
  });
}
HIPSYNTH_EXPORT hipError_t hipGraphGetNodes(hipGraph_t graph, hipGraphNode_t* out, size_t* count) {
  return call([&](Runtime&) -> hipError_t {
    if (!known(graph)) return hipErrorInvalidValue;
    std::vector<hipGraphNode*> nodes;
    for (hipGraphNode& node : graph->nodes) nodes.push_back(&node);
    return give(nodes, out, count);
  });
}
HIPSYNTH_EXPORT hipError_t hipGraphGetRootNodes(hipGraph_t graph, hipGraphNode_t* out, size_t* count) {
  return call([&](Runtime&) -> hipError_t {
    if (!known(graph)) return hipErrorInvalidValue;
    std::vector<hipGraphNode*> roots;
    for (hipGraphNode& node : graph->nodes) {
      if (node.after.empty()) roots.push_back(&node);
    }
    return give(roots, out, count);
  });
}
HIPSYNTH_EXPORT hipError_t hipGraphNodeGetDependencies(hipGraphNode_t handle, hipGraphNode_t* out, size_t* count) {
  return call([&](Runtime&) -> hipError_t {
    hipGraphNode* node = find_node(handle);
    return node == nullptr ? hipErrorInvalidValue : give(node->after, out, count);
  });
}
HIPSYNTH_EXPORT hipError_t hipGraphNodeGetDependentNodes(hipGraphNode_t handle, hipGraphNode_t* out, size_t* count) {
  return call([&](Runtime&) -> hipError_t {
    hipGraphNode* node = find_node(handle);
    if (node == nullptr) return hipErrorInvalidValue;
    std::vector<hipGraphNode*> behind;
    for (hipGraphNode& other : node->graph->nodes) {
      if (std::find(other.after.begin(), other.after.end(), node) != other.after.end()) behind.push_back(&other);
    }
    return give(behind, out, count);
  });
}
HIPSYNTH_EXPORT hipError_t hipGraphGetEdges(hipGraph_t graph, hipGraphNode_t* from, hipGraphNode_t* to, size_t* count) {
  return call([&](Runtime&) -> hipError_t {
    if (!known(graph) || count == nullptr) return hipErrorInvalidValue;
    std::vector<hipGraphNode*> first, second;
    for (hipGraphNode& node : graph->nodes) {
      for (hipGraphNode* other : node.after) {
        first.push_back(other);
        second.push_back(&node);
      }
    }
    size_t room = *count;
    hipError_t error = give(first, from, count);
    return error != hipSuccess || to == nullptr ? error : give(second, to, &room);
  });
}
