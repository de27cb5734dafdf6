#include "graph_memory.h"

namespace hipsynth::runtime {
namespace {

// What graphs have allocated, by address.
std::map<const void*, std::weak_ptr<GraphMemory>>& allocated() {
  static std::map<const void*, std::weak_ptr<GraphMemory>> table;
  return table;
}

}  // namespace

std::shared_ptr<GraphMemory> GraphMemory::allocate(size_t bytes) {
  const std::shared_ptr<GraphMemory> memory(new GraphMemory(bytes));
  runtime::allocate(Runtime::get(), &memory->address_, bytes, Memory::Kind::device);
  memory->allocated_ = true;
  allocated()[memory->address_] = memory;
  return memory;
}

std::shared_ptr<GraphMemory> GraphMemory::find(void* p) {
  const auto entry = allocated().find(p);
  return entry == allocated().end() ? nullptr : entry->second.lock();
}

void GraphMemory::forget(const void* p) {
  const auto entry = allocated().find(p);
  if (entry == allocated().end()) return;
  if (const auto memory = entry->second.lock()) memory->allocated_ = memory->in_use_ = false;
  allocated().erase(entry);
}

GraphMemory::~GraphMemory() {
  if (!allocated_) return;
  allocated().erase(address_);
  if (!in_use_) release_at_once(Runtime::get(), address_);
}

Operation GraphMemory::begin_use(std::shared_ptr<GraphMemory> memory) {
  return [memory] {
    if (!memory->allocated_) {
      allocate_at(Runtime::get(), memory->address_, memory->bytes_);
      memory->allocated_ = true;
      allocated()[memory->address_] = memory;
    }
    memory->in_use_ = true;
    return hipSuccess;
  };
}

Operation GraphMemory::end_use(std::shared_ptr<GraphMemory> memory) {
  return [memory] {
    if (memory) memory->in_use_ = false;
    return hipSuccess;
  };
}

}  // namespace hipsynth::runtime
