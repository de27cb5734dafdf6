// Graphs: nodes with the work that they stand for and the nodes that they follow.
#pragma once

#include <list>

#include "copy.h"

struct hipGraphNode {
  hipsynth::runtime::NodeType type;
  hipsynth::runtime::Operation operation;
  std::vector<hipGraphNode*> after;
  ihipGraph* graph = nullptr;
  hipKernelNodeParams kernel{};  // as given, of a kernel node
};

struct ihipGraph {
  std::list<hipGraphNode> nodes;  // in the order in which they were added
};

struct hipGraphExec {
  std::vector<hipsynth::runtime::Operation> operations;
  std::vector<const hipGraphNode*> nodes;  // what each was made from
  std::set<const hipGraphNode*> disabled;  // left out of launches
};

namespace hipsynth::runtime {

bool known(hipGraph_t graph);
hipGraph_t new_graph();
hipGraphNode* find_node(hipGraphNode_t node);  // null when no graph has it
// The nodes in an order that respects all edges, in the order of addition where these leave a choice; empty with a
// cycle.
std::vector<hipGraphNode*> ordered(ihipGraph* graph);

}  // namespace hipsynth::runtime
