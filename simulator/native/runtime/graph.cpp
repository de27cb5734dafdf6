// Operations on whole graphs: instantiation, launch, update. For captures see capture.cpp, for nodes graph_nodes.cpp.
#include "graph.h"

#include <algorithm>
#include <fstream>

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

const char* type_name(NodeType type) {
  static const std::map<NodeType, const char*> names = {
      {NodeType::kernel, "KERNEL"},         {NodeType::memcpy, "MEMCPY"},
      {NodeType::memset, "MEMSET"},         {NodeType::host, "HOST"},
      {NodeType::graph, "GRAPH"},           {NodeType::empty, "EMPTY"},
      {NodeType::event_wait, "EVENT_WAIT"}, {NodeType::event_record, "EVENT_RECORD"},
      {NodeType::mem_alloc, "MEM_ALLOC"},   {NodeType::mem_free, "MEM_FREE"}};
  return names.at(type);
}

// Copies a graph; edges of the copy refer to nodes of the copy.
hipGraph_t copy_of(ihipGraph* original) {
  hipGraph_t copy = new_graph();
  std::map<const hipGraphNode*, hipGraphNode*> twin;
  for (const hipGraphNode& node : original->nodes) {
    copy->nodes.push_back(node);
    copy->nodes.back().graph = copy;
    copy->nodes.back().id = next_node_id();
    twin[&node] = &copy->nodes.back();
  }
  for (hipGraphNode& node : copy->nodes) {
    for (hipGraphNode*& other : node.after) other = twin[other];
  }
  return copy;
}

hipError_t instantiate(hipGraphExec_t* out, hipGraph_t graph) {
  return call([&](Runtime&) -> hipError_t {
    if (out == nullptr || !known(graph)) return hipErrorInvalidValue;
    const std::vector<hipGraphNode*> nodes = ordered(graph);
    if (nodes.size() != graph->nodes.size()) return hipErrorInvalidValue;
    auto* executable = new hipGraphExec;
    for (const hipGraphNode* node : nodes)
      executable->steps.push_back({node->operation, node->type, node->id, node->awaited});
    executables().insert(executable);
    *out = executable;
    return hipSuccess;
  });
}

// A step that waits for events comes behind them; in a capture, its node does when that is launched.
hipError_t submit_step(Runtime& rt, const hipGraphExec::Step& step, hipStream_t handle, ihipStream_t& stream) {
  Capture* capture = rt.capture_of(stream);
  for (const EventReference& reference : step.awaited) {
    const ihipEvent_t* event = rt.find_event(reference);
    if (event != nullptr && capture == nullptr && !rt.executing()) rt.order_behind_event(stream, *event);
  }
  const hipError_t error = rt.submit(handle, step.operation, step.type);
  if (error == hipSuccess && capture != nullptr) capture->nodes.back()->awaited = step.awaited;
  return error;
}

}  // namespace

namespace hipsynth::runtime {

bool known(hipGraph_t graph) { return graphs().contains(graph); }

uint64_t next_node_id() {
  static uint64_t last = 0;
  return ++last;
}

hipGraph_t new_graph() { return *graphs().insert(new ihipGraph).first; }

void drop_graph(hipGraph_t graph) {
  graphs().erase(graph);
  delete graph;
}

hipGraphNode* find_node(hipGraphNode_t wanted) {
  for (hipGraph_t graph : graphs()) {
    for (hipGraphNode& node : graph->nodes) {
      if (&node == wanted) return &node;
    }
  }
  return nullptr;
}

hipGraphExec::Step* find_step(hipGraphExec_t executable, hipGraphNode_t wanted) {
  const hipGraphNode* node = find_node(wanted);
  if (node == nullptr || !executables().contains(executable)) return nullptr;
  const auto step = std::find_if(executable->steps.begin(), executable->steps.end(),
                                 [&](const hipGraphExec::Step& other) { return other.node == node->id; });
  return step == executable->steps.end() ? nullptr : &*step;
}

namespace {

// Orders nodes anew, with two that do not wait for each other the other way round where that is possible: the nodes
// that were added last come first, each behind all that it waits for. `nodes` are in topological order.
std::vector<hipGraphNode*> put_youngest_first(const std::vector<hipGraphNode*>& nodes) {
  std::vector<hipGraphNode*> order;
  std::set<const hipGraphNode*> placed;
  for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) {
    for (std::vector<hipGraphNode*> open{*node}; !open.empty();) {
      hipGraphNode* next = nullptr;
      for (hipGraphNode* other : open.back()->after) {
        if (!placed.contains(other) && (next == nullptr || other->id > next->id)) next = other;
      }
      if (next != nullptr) {
        open.push_back(next);
        continue;
      }
      if (placed.insert(open.back()).second) order.push_back(open.back());
      open.pop_back();
    }
  }
  return order;
}

}  // namespace

std::vector<hipGraphNode*> ordered(ihipGraph* graph) {
  std::vector<hipGraphNode*> order, rest;
  for (hipGraphNode& node : graph->nodes) rest.push_back(&node);
  std::set<const hipGraphNode*> done;
  while (!rest.empty()) {
    const auto free = std::find_if(rest.begin(), rest.end(), [&](const hipGraphNode* node) {
      return std::all_of(node->after.begin(), node->after.end(), [&](auto* other) { return done.contains(other); });
    });
    if (free == rest.end()) return {};
    order.push_back(*free);
    done.insert(*free);
    rest.erase(free);
  }
  return Runtime::get().deferred.youngest_first() ? put_youngest_first(order) : order;
}

}  // namespace hipsynth::runtime

void hipsynth::runtime::forget_graphs() {
  for (hipGraph_t graph : graphs()) delete graph;
  for (hipGraphExec_t executable : executables()) delete executable;
  graphs().clear();
  executables().clear();
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
    if (!known(graph)) return hipErrorInvalidValue;
    drop_graph(graph);
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
    const std::vector<hipGraphExec::Step> steps = executable->steps;  // a host node may wait for other threads
    for (const hipGraphExec::Step& step : steps) {
      if (!step.enabled) continue;
      hipError_t error = submit_step(rt, step, handle, *s);
      if (error != hipSuccess) return error;
      // Events of the program that a graph records are known once they are recorded, and memory once it is allocated.
      const bool tells = step.type == NodeType::event_record || step.type == NodeType::mem_alloc;
      if (rt.deferred.on() && (tells || step.type == NodeType::graph)) rt.complete_all();
    }
    return hipSuccess;
  });
}
// Only kernel, copy and fill nodes can be disabled.
HIPSYNTH_EXPORT hipError_t hipGraphNodeSetEnabled(hipGraphExec_t executable, hipGraphNode_t node, unsigned enabled) {
  return call([&](Runtime&) -> hipError_t {
    hipGraphExec::Step* step = find_step(executable, node);
    if (step == nullptr) return hipErrorInvalidValue;
    if (step->type != NodeType::kernel && step->type != NodeType::memcpy && step->type != NodeType::memset) {
      return hipErrorInvalidValue;
    }
    step->enabled = enabled != 0;
    return hipSuccess;
  });
}
HIPSYNTH_EXPORT hipError_t hipGraphNodeGetEnabled(hipGraphExec_t executable, hipGraphNode_t node, unsigned* enabled) {
  return call([&](Runtime&) -> hipError_t {
    const hipGraphExec::Step* step = find_step(executable, node);
    if (enabled == nullptr || step == nullptr) return hipErrorInvalidValue;
    *enabled = step->enabled ? 1 : 0;
    return hipSuccess;
  });
}
HIPSYNTH_EXPORT hipError_t hipGraphDebugDotPrint(hipGraph_t graph, const char* path, unsigned) {
  return call([&](Runtime&) -> hipError_t {
    if (!known(graph) || path == nullptr) return hipErrorInvalidValue;
    std::ofstream out(path);
    std::map<const hipGraphNode*, size_t> numbers;
    for (const hipGraphNode& node : graph->nodes) numbers.emplace(&node, numbers.size());
    out << "digraph graph_0 {\n";
    for (const hipGraphNode& node : graph->nodes) {
      out << "  node_" << numbers[&node] << " [label=\"" << numbers[&node] << " " << type_name(node.type) << "\"];\n";
      for (const hipGraphNode* before : node.after) {
        out << "  node_" << numbers[before] << " -> node_" << numbers[&node] << ";\n";
      }
    }
    out << "}\n";
    return out.flush() ? hipSuccess : hipErrorOperatingSystem;
  });
}
HIPSYNTH_EXPORT hipError_t hipGraphExecDestroy(hipGraphExec_t executable) {
  return call([&](Runtime&) -> hipError_t {
    if (executables().erase(executable) == 0) return hipErrorInvalidValue;
    delete executable;
    return hipSuccess;
  });
}

HIPSYNTH_EXPORT hipError_t hipGraphInstantiateWithParams(hipGraphExec_t* out, hipGraph_t graph, void*) {
  return instantiate(out, graph);
}
HIPSYNTH_EXPORT hipError_t hipGraphClone(hipGraph_t* out, hipGraph_t graph) {
  return call([&](Runtime&) -> hipError_t {
    if (out == nullptr || !known(graph)) return hipErrorInvalidValue;
    *out = copy_of(graph);
    return hipSuccess;
  });
}
// The new graph must have the same nodes in the same order; only their parameters are taken over.
HIPSYNTH_EXPORT hipError_t hipGraphExecUpdate(hipGraphExec_t executable, hipGraph_t graph, hipGraphNode_t* wrong,
                                              int* result) {
  constexpr int kSuccess = 0, kTopologyChanged = 2, kTypeChanged = 3;
  return call([&](Runtime&) -> hipError_t {
    if (wrong == nullptr || result == nullptr || !known(graph) || !executables().contains(executable)) {
      return hipErrorInvalidValue;
    }
    *wrong = nullptr;
    const std::vector<hipGraphNode*> nodes = ordered(graph);
    *result = nodes.size() != executable->steps.size() ? kTopologyChanged : kSuccess;
    for (size_t i = 0; *result == kSuccess && i < nodes.size(); ++i) {
      if (executable->steps[i].type == nodes[i]->type) continue;
      *result = kTypeChanged;
      *wrong = nodes[i];
    }
    if (*result != kSuccess) return hipErrorGraphExecUpdateFailure;
    for (size_t i = 0; i < nodes.size(); ++i) {
      executable->steps[i].operation = nodes[i]->operation;
      executable->steps[i].awaited = nodes[i]->awaited;
    }
    return hipSuccess;
  });
}
