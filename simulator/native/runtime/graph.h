// Graphs: nodes with their work and their dependencies.
#pragma once

#include <list>
#include <optional>

#include "copy.h"

namespace hipsynth::runtime {
uint64_t next_node_id();
}

struct hipGraphNode {
  hipsynth::runtime::NodeType type;
  hipsynth::runtime::Operation operation;
  std::vector<hipGraphNode*> after;
  ihipGraph* graph = nullptr;
  std::optional<hipsynth::runtime::LaunchRequest> launch{};  // of a kernel node
  std::vector<void*> arguments{};                            // into it, for who asks
  std::vector<hipsynth::runtime::EventReference> awaited{};  // by a node that waits for events
  uint64_t id = hipsynth::runtime::next_node_id();           // never used again, as addresses are
};

struct ihipGraph {
  std::list<hipGraphNode> nodes;  // in the order in which they were added
};

// An instantiated graph, which outlives the graph and its nodes.
struct hipGraphExec {
  struct Step {
    hipsynth::runtime::Operation operation;
    hipsynth::runtime::NodeType type;
    uint64_t node;  // that it was instantiated from
    std::vector<hipsynth::runtime::EventReference> awaited;
    bool enabled = true;  // else launches leave it out
  };
  std::vector<Step> steps;
};

namespace hipsynth::runtime {

bool known(hipGraph_t graph);
hipGraph_t new_graph();
void drop_graph(hipGraph_t graph);
hipGraphNode* find_node(hipGraphNode_t node);  // null if it belongs to no graph
// The step of an instantiated graph that came from this node; null if there is none.
hipGraphExec::Step* find_step(hipGraphExec_t executable, hipGraphNode_t node);
// The nodes in topological order, ties in the order of addition, or the other way round where the run defers work so;
// empty if there is a cycle.
std::vector<hipGraphNode*> ordered(ihipGraph* graph);

}  // namespace hipsynth::runtime
