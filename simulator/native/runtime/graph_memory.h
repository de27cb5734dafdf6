// Memory that the nodes of a graph allocate and free. Each launch finds it at the same address.
#pragma once

#include <memory>

#include "runtime.h"

namespace hipsynth::runtime {

// Owned by the operations of the nodes that allocate or free it, so by the graph and all that was instantiated from it.
// What their last launch has not freed is left to the program, as in CUDA.
class GraphMemory {
 public:
  // Allocates, because programs need the address before the first launch. Throws SimError.
  static std::shared_ptr<GraphMemory> allocate(size_t bytes);
  static std::shared_ptr<GraphMemory> find(void* p);  // null if no graph allocates at that address
  static void forget(const void* p);                  // the program has freed what is there
  ~GraphMemory();
  GraphMemory(const GraphMemory&) = delete;
  GraphMemory& operator=(const GraphMemory&) = delete;

  void* address() const { return address_; }
  // The work of nodes. Allocates again what the program has freed since the last launch.
  static Operation begin_use(std::shared_ptr<GraphMemory> memory);
  static Operation end_use(std::shared_ptr<GraphMemory> memory);  // null for memory of no graph, which it leaves

 private:
  explicit GraphMemory(size_t bytes) : bytes_(bytes) {}

  const size_t bytes_;
  void* address_ = nullptr;
  bool allocated_ = false, in_use_ = false;
};

}  // namespace hipsynth::runtime
