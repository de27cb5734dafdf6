#include "copy.h"

#include <cstring>

#include "host_memory.h"

namespace hipsynth::runtime {
namespace {

constexpr size_t kManyPages = 64 << 10;  // bytes

enum class Side { host, device, bad };

// The allocation in which a range begins, or null if the range is not fully allocated. It may span adjacent mappings.
const Memory::Allocation* covering(Runtime& rt, uint64_t start, size_t bytes) {
  if (start + bytes < start) return nullptr;
  const Memory::Allocation* first = rt.memory().find(start, 1);
  for (uint64_t at = start, end = start + bytes; at < end;) {
    const Memory::Allocation* a = rt.memory().find(at, 1);
    if (a == nullptr) return nullptr;
    at = a->start + a->bytes;
  }
  return first;
}

// Classifies a range: device memory must be fully allocated; other accessible memory is pageable host memory.
Side side(Runtime& rt, const void* p, size_t bytes, bool written) {
  auto start = reinterpret_cast<uint64_t>(p);
  if (bytes == 0) return Side::host;
  const bool known = rt.memory().find(start, 1) != nullptr;
  const Memory::Allocation* a = known ? covering(rt, start, bytes) : nullptr;
  if (known ? a == nullptr : rt.memory().owns(start)) return Side::bad;
  if (!rt.memory().owns(start) && !(written ? host_writable(p, bytes) : host_readable(p, bytes))) return Side::bad;
  return known && a->kind != Memory::Kind::host ? Side::device : Side::host;
}

// Bytes from the start of a block to its end; saturates on overflow, so that range checks fail.
size_t extent_bytes(const Place& place, const Block& block) {
  size_t slices = 0, rows = 0, sum = 0;
  const bool over = __builtin_mul_overflow(block.depth - 1, place.slice_pitch, &slices) ||
                    __builtin_mul_overflow(block.height - 1, place.pitch, &rows) ||
                    __builtin_add_overflow(slices, rows, &sum) || __builtin_add_overflow(sum, block.width, &sum);
  return over ? SIZE_MAX : sum;
}

Transfer transfer(Timeline::Engine engine) {
  if (engine == Timeline::Engine::to_device) return Transfer::to_device;
  return engine == Timeline::Engine::to_host ? Transfer::to_host : Transfer::on_device;
}

Timeline::Engine copy_engine(Side dst, Side src) {
  if (dst == Side::device) return src == Side::device ? Timeline::Engine::on_device : Timeline::Engine::to_device;
  return src == Side::device ? Timeline::Engine::to_host : Timeline::Engine::none;
}

bool is_pageable(Runtime& rt, const void* p) { return rt.memory().find(reinterpret_cast<uint64_t>(p), 1) == nullptr; }

// Whether the host blocks: always for pageable memory (staged copy), for pinned memory only in the default stream.
bool host_waits(Runtime& rt, Side side, const void* p, hipStream_t stream) {
  if (side != Side::host) return false;
  return rt.is_default(stream) || is_pageable(rt, p);
}

// Simulated time of a copy command: a fixed time, and its bytes over the link to the host or at the HBM's rate.
double copy_ns(const Spec& spec, Side dst, Side src, double bytes) {
  if (dst == Side::device && src == Side::device) return spec.host.device_copy_ns + 2 * bytes / spec.hbm.write_gbps;
  if (dst == Side::host && src == Side::host) return 0;
  return spec.host.copy_ns + bytes / spec.host.link_gbps;
}

template <typename Row>
void each_row(const Place& dst, const Place& src, const Block& block, Row row) {
  for (size_t z = 0; z < block.depth; ++z) {
    for (size_t y = 0; y < block.height; ++y) {
      row(static_cast<char*>(const_cast<void*>(dst.base)) + z * dst.slice_pitch + y * dst.pitch,
          static_cast<const char*>(src.base) + z * src.slice_pitch + y * src.pitch);
    }
  }
}

// Tells the trial about a copy between host and device.
void observe(Runtime& rt, Timeline::Engine engine, const Place& dst, const Place& src, const Block& block) {
  Trial& trial = rt.trial;
  bool continues = false;
  each_row(dst, src, block, [&](char* to, const char* from) {
    if (engine == Timeline::Engine::to_host) trial.copied_to_host(to, block.width, from);
    if (engine == Timeline::Engine::to_device) trial.copied_to_device(to, block.width, continues);
    continues = true;
  });
  trial.end_of_copy(rt.deferred.running());
}

void fill_row(char* dst, uint32_t value, unsigned element, size_t bytes) {
  if (element == 1) {
    std::memset(dst, static_cast<int>(value), bytes);
    return;
  }
  for (size_t i = 0; i + element <= bytes; i += element) std::memcpy(dst + i, &value, element);
}

}  // namespace

hipError_t copy_block(Runtime& rt, Place dst, Place src, Block block, hipMemcpyKind kind, hipStream_t stream) {
  if (rt.stream(stream) == nullptr) return hipErrorContextIsDestroyed;
  if (kind > hipMemcpyDefault && kind != hipMemcpyDeviceToDeviceNoCU) return hipErrorInvalidMemcpyDirection;
  if (block.width == 0 || block.height == 0 || block.depth == 0) return hipSuccess;
  bool two_d = block.height > 1 || block.depth > 1;
  if (two_d && (block.width > dst.pitch || block.width > src.pitch)) return hipErrorInvalidPitchValue;
  const auto sides = [&rt, dst, src, block] {
    return std::pair{side(rt, dst.base, extent_bytes(dst, block), true),
                     side(rt, src.base, extent_bytes(src, block), false)};
  };
  const auto [d, s] = sides();
  if (d == Side::bad || s == Side::bad) return hipErrorInvalidValue;
  // As in ROCm, the addresses say what is copied to what; `kind` only counts where no side is memory of the runtime.
  const bool between_pageable = is_pageable(rt, dst.base) && is_pageable(rt, src.base);
  if (between_pageable && kind != hipMemcpyHostToHost && kind != hipMemcpyDefault) return hipErrorInvalidValue;
  double bytes = static_cast<double>(block.width) * static_cast<double>(block.height * block.depth);
  double ns = copy_ns(rt.spec(), d, s, bytes);
  Timeline::Engine engine = copy_engine(d, s);
  bool blocking = host_waits(rt, d, dst.base, stream) || host_waits(rt, s, src.base, stream);
  const bool staged = is_pageable(rt, dst.base) || is_pageable(rt, src.base);
  const hipError_t error = rt.submit(
      stream,
      [&rt, dst, src, block, bytes, ns, engine, blocking, sides]() -> hipError_t {
        const auto [to_side, from_side] = sides();  // checked again: a graph may run this after memory was freed
        if (to_side == Side::bad || from_side == Side::bad) return hipErrorInvalidValue;
        if (rt.ended && (is_pageable(rt, dst.base) || is_pageable(rt, src.base))) return hipSuccess;
        rt.trial.before_operation();
        each_row(dst, src, block, [&](char* to, const char* from) {
          // Brings the pages in by one call instead of one fault each.
          if (block.width >= kManyPages) static_cast<void>(host_writable(to, block.width));
          std::memmove(to, from, block.width);
        });
        if (engine == Timeline::Engine::to_host) rt.recorder.copied_to_host();
        if (engine == Timeline::Engine::to_device && rt.device) rt.device->empty_l2();
        if (rt.trial.on()) observe(rt, engine, dst, src, block);
        if (to_side == Side::device) rt.trial.written_by_command(dst.base);
        rt.trial.after_operation();
        if (engine != Timeline::Engine::none) rt.results.add_transfer(transfer(engine), bytes, ns);
        rt.occupy(engine, 1, ns, blocking);
        return hipSuccess;
      },
      NodeType::memcpy);
  return error == hipSuccess && staged ? rt.complete_stream(*rt.stream(stream)) : error;
}

hipError_t copy(Runtime& rt, void* dst, const void* src, size_t bytes, hipMemcpyKind kind, hipStream_t stream) {
  return copy_block(rt, {dst, bytes, bytes}, {src, bytes, bytes}, {bytes, 1, 1}, kind, stream);
}

hipError_t fill_block(Runtime& rt, Place dst, uint32_t value, unsigned element, Block block, hipStream_t stream) {
  if (rt.stream(stream) == nullptr) return hipErrorContextIsDestroyed;
  if (block.width == 0 || block.height == 0 || block.depth == 0) return hipSuccess;
  if ((block.height > 1 || block.depth > 1) && block.width > dst.pitch) return hipErrorInvalidValue;
  auto start = reinterpret_cast<uint64_t>(dst.base);
  if (start % element != 0 || covering(rt, start, extent_bytes(dst, block)) == nullptr) return hipErrorInvalidValue;
  double bytes = static_cast<double>(block.width) * static_cast<double>(block.height * block.depth);
  double ns = rt.spec().host.device_copy_ns + bytes / rt.spec().hbm.write_gbps;
  return rt.submit(
      stream,
      [&rt, dst, value, element, block, bytes, ns, start]() -> hipError_t {
        if (covering(rt, start, extent_bytes(dst, block)) == nullptr) return hipErrorInvalidValue;
        rt.trial.before_operation();
        each_row(dst, dst, block, [&](char* to, const char*) {
          if (value == 0) {
            rt.memory().clear(to, block.width);
          } else {
            fill_row(to, value, element, block.width);
          }
        });
        rt.trial.written_by_command(dst.base);
        rt.trial.after_operation();
        rt.results.add_transfer(Transfer::fill, bytes, ns);
        rt.occupy(Timeline::Engine::on_device, 1, ns);
        return hipSuccess;
      },
      NodeType::memset);
}

}  // namespace hipsynth::runtime
