// Graphs: nodes with their work and their dependencies.
#pragma once

#include <list>

#include "copy.h"

struct hipGraphNode {
  hipsynth::runtime::NodeType type;
  hipsynth::runtime::Operation operation;
  std::vector<hipGraphNode*> after;
  ihipGraph* graph = nullptr;
  hipKernelNodeParams kernel{};  // of a kernel node, as given
};

struct ihipGraph {
  std::list<hipGraphNode> nodes;  // in the order in which they were added
};

struct hipGraphExec {
  std::vector<hipsynth::runtime::Operation> operations;
  std::vector<const hipGraphNode*> nodes;  // the graph node that each was instantiated from
  std::set<const hipGraphNode*> disabled;  // skipped in launches
};

namespace hipsynth::runtime {

bool known(hipGraph_t graph);
hipGraph_t new_graph();
hipGraphNode* find_node(hipGraphNode_t node);  // null if it belongs to no graph
// The nodes in topological order, ties in the order of addition; empty if there is a cycle.
std::vector<hipGraphNode*> ordered(ihipGraph* graph);

}  // namespace hipsynth::runtime
