#include "trial.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>

#include "redraw.h"
#include "results.h"

namespace hipsynth::runtime {
namespace {

constexpr size_t kKeptEntries = 4096;  // later ones are digested together
constexpr size_t kMostUses = 16;       // of an allocation that are listed, and of its inputs

void fill(char* data, size_t bytes, uint32_t word) {
  for (size_t i = 0; i < bytes; ++i) data[i] = static_cast<char>(word >> 8 * (i % 4));
}

}  // namespace

void Trial::Digest::add(const char* data, size_t bytes) {
  bytes_ += bytes;
  for (; bytes > 0;) {
    uint64_t word = 0;
    const size_t step = std::min<size_t>(bytes, sizeof word);
    std::memcpy(&word, data, step);
    a_ = mix(a_ ^ word);
    b_ = (b_ ^ word) * 0xff51afd7ed558ccd;
    b_ ^= b_ >> 29;
    data += step;
    bytes -= step;
  }
}

std::string Trial::Digest::text() const {
  char out[33];
  std::snprintf(out, sizeof out, "%016llx%016llx", static_cast<unsigned long long>(mix(a_ ^ bytes_)),
                static_cast<unsigned long long>(mix(b_ ^ bytes_)));
  return out;
}

void Trial::keep(const char* kind, uint64_t index, const Digest& digest, uint64_t recorded, const Origin& origin,
                 uint64_t submission) {
  if (entries_.size() < kKeptEntries) {
    entries_.push_back({kind, index, digest.bytes(), recorded, digest.text(), origin, submission});
  } else {
    const std::string text = digest.text();
    rest_.add(text.data(), text.size());
  }
}

// Writes bytes to the file of recorded outputs, and returns how many.
uint64_t Trial::record(const char* data, size_t bytes) {
  if (entries_.size() >= kKeptEntries || recorded_ + bytes > options_.record_bytes) return 0;
  if (file_ == nullptr) {
    const int fd = ::open(options_.record_path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    file_ = fd < 0 ? nullptr : ::fdopen(fd, "wb");
  }
  if (file_ == nullptr || std::fwrite(data, 1, bytes, file_) != bytes) return options_.record_bytes = 0;
  recorded_ += bytes;
  return bytes;
}

uint64_t Trial::place(size_t bytes) {
  constexpr uint64_t page = 4096, most = 61;  // pages between neighbours
  place_ -= (bytes / page + 2 + mix(options_.scatter ^ mix(placed_++)) % most) * page;
  return place_;
}

void Trial::allocated(void* p, size_t bytes, bool device) {
  if (!on() || p == nullptr) return;
  if (options_.poison != 0) fill(static_cast<char*>(p), bytes, options_.poison);
  const auto start = reinterpret_cast<uint64_t>(p);
  Buffer& buffer = buffers_[start] = {.index = allocations_++, .start = start, .bytes = bytes, .device = device};
  if (options_.watch && device) buffer.state = digest_of(start, buffer);
}

void Trial::released(const void* p) {
  const auto found = buffers_.find(reinterpret_cast<uint64_t>(p));
  if (found == buffers_.end()) return;
  check(found->first, found->second);
  if (options_.outputs) {
    Digest digest;
    const char* data = static_cast<const char*>(p);
    digest.add(data, found->second.bytes);
    keep("buffer", found->second.index, digest, record(data, found->second.bytes), found->second.origin);
  }
  buffers_.erase(found);
}

void Trial::release_all() {
  std::map<uint64_t, const void*> live;
  for (const auto& [start, buffer] : buffers_) live[buffer.index] = reinterpret_cast<const void*>(start);
  for (const auto& [index, p] : live) released(p);
}

// Those that hold addresses, which other allocations move, are left out.
void Trial::variable(const std::string& name, const char* data, size_t bytes) {
  if (!options_.outputs) return;
  for (size_t at = 0; at + sizeof(uint64_t) <= bytes; at += sizeof(uint64_t)) {
    uint64_t word = 0;
    std::memcpy(&word, data + at, sizeof word);
    if (buffer_at(word) != nullptr) return;
  }
  Digest digest;
  digest.add(data, bytes);
  const uint64_t key = std::hash<std::string>()(name) & UINT32_MAX;
  keep("variable", key, digest, record(data, bytes), {});
}

void Trial::copied_to_host(const char* data, size_t bytes, const void* from) {
  returned_ = true;
  if (!options_.outputs) return;
  const auto place = reinterpret_cast<uint64_t>(from);
  if (copy_.bytes() == 0) copied_from_ = place;
  copies_piece_ = copy_.bytes() == 0 || (copies_piece_ && place == copied_from_ + copy_.bytes());
  copy_.add(data, bytes);
  copy_recorded_ += record(data, bytes);
}

void Trial::end_of_copy(uint64_t submission) {
  if (copy_.bytes() == 0) return;
  Origin origin;
  if (const Buffer* from = buffer_at(copied_from_); from != nullptr) {
    origin.uses = from->origin.uses;
    if (copies_piece_) origin.source = static_cast<int64_t>(from->index);
    origin.offset = copied_from_ - from->start;
  }
  keep("copy", copies_++, copy_, copy_recorded_, origin, submission);
  copy_ = Digest();
  copy_recorded_ = 0;
}

void Trial::copied_to_device(char* data, size_t bytes, bool continues) {
  if (Buffer* buffer = buffer_at(reinterpret_cast<uint64_t>(data)); buffer != nullptr) {
    buffer->origin.uploaded += bytes;
  }
  if (!options_.redraw.on() && !options_.poison_results && !options_.outputs) return;
  inputs_ += !continues;
  Buffer* buffer = buffer_at(reinterpret_cast<uint64_t>(data));
  Digest digest;
  digest.add(data, bytes);
  const uint64_t contents = digest.number(), seed = seed_of_input(contents, inputs_);
  if (options_.redraw.on()) redraw(data, bytes, options_.redraw, seed, kind_of_input(contents, buffer));
  if (buffer == nullptr) return;
  if (buffer->origin.inputs.size() < kMostUses) buffer->origin.inputs.push_back(contents);
  buffer->drawn = true;
  if (buffer->input == 0) buffer->input = seed;
}

// An input is drawn alike in two programs that upload it in another order, but each time anew where it is uploaded
// again. What may be made of results, whose last bits may differ, has its number as the seed.
uint64_t Trial::seed_of_input(uint64_t contents, uint64_t number) {
  if (returned_ && !occurrences_.contains(contents)) return mix(number);
  return mix(contents ^ mix(occurrences_[contents]++));
}

void Trial::written_by_command(const void* start) {
  ++commands_;
  if (Buffer* buffer = buffer_at(reinterpret_cast<uint64_t>(start)); buffer != nullptr) {
    buffer->origin.written_at = commands_;
  }
}

// The allocation that holds an address, or null.
Trial::Buffer* Trial::buffer_at(uint64_t address) {
  const auto after = buffers_.upper_bound(address);
  if (after == buffers_.begin()) return nullptr;
  auto& [start, buffer] = *std::prev(after);
  return address - start < buffer.bytes ? &buffer : nullptr;
}

InputKind Trial::kind_of(const Buffer& buffer) const {
  if (!buffer.origin.inputs.empty()) {
    const auto known = options_.inputs.find(buffer.origin.inputs.front());
    if (known != options_.inputs.end()) return known->second;
  }
  const auto known = options_.elements.find(buffer.index);
  const bool same = known != options_.elements.end() && known->second.bytes == buffer.bytes;
  return {.elements = same ? known->second.elements : Elements::unknown};
}

InputKind Trial::kind_of_input(uint64_t contents, const Buffer* buffer) const {
  const auto known = options_.inputs.find(contents);
  if (known != options_.inputs.end()) return known->second;
  return buffer == nullptr ? InputKind() : kind_of(*buffer);
}

void Trial::note_uses(const KernelInfo& kernel, const std::vector<uint8_t>& arguments) {
  ++commands_;
  for (size_t i = 0; i < kernel.args.size(); ++i) {
    const KernelArg& arg = kernel.args[i];
    uint64_t address = 0;
    if (arg.kind != "global_buffer" || arg.size != sizeof address) continue;
    if (arg.offset + sizeof address > arguments.size()) continue;
    std::memcpy(&address, arguments.data() + arg.offset, sizeof address);
    Buffer* buffer = buffer_at(address);
    if (buffer == nullptr) continue;
    Uses& uses = buffer->origin.uses;
    const std::pair use(kernel.symbol, i);
    if (uses.size() < kMostUses || uses.contains(use)) uses[use] = commands_;
  }
}

void Trial::before_launch(const KernelInfo& kernel, const std::vector<uint8_t>& arguments) {
  if (options_.outputs) note_uses(kernel, arguments);
  if (options_.poison_results && !std::exchange(launched_, true)) poison_results();
  poison_written();
  if (!options_.redraw.on()) return;
  for (auto& [start, buffer] : buffers_) {
    if (std::exchange(buffer.drawn, true)) continue;
    const uint64_t seed = seed_of_input(~digest_contents(start, buffer).number(), ~buffer.index);
    redraw(reinterpret_cast<char*>(start), buffer.bytes, options_.redraw, seed, kind_of(buffer));
  }
}

void Trial::after_launch() { note_changes(true); }

void Trial::poison_results() {
  for (auto& [start, buffer] : buffers_) {
    if (buffer.device && buffer.input == 0) fill(reinterpret_cast<char*>(start), buffer.bytes, options_.poison);
  }
}

void Trial::poison_written() {
  if (options_.poison_every == 0) return;
  note_changes(false);  // what the host of a script wrote directly
  const uint64_t from = options_.poison_from;
  if (launches_ != 0 && launches_ >= from && (launches_ - from) % options_.poison_every == 0) {
    const uint64_t round = (launches_ - from) / options_.poison_every;
    for (auto& [start, buffer] : buffers_) {
      auto* data = reinterpret_cast<char*>(start);
      if (buffer.by_kernel) {
        fill(data, buffer.bytes, options_.poison);
      } else if (round != 0 && options_.redraw.on() && buffer.input != 0) {
        redraw(data, buffer.bytes, options_.redraw, mix(buffer.input ^ mix(round)), kind_of(buffer));
        buffer.contents = digest_of(start, buffer);
      }
    }
  }
  ++launches_;
  note_changes(true);
}

void Trial::note_changes(bool by_kernel) {
  if (options_.poison_every == 0) return;
  for (auto& [start, buffer] : buffers_) {
    if (!buffer.device) continue;
    std::string now = digest_of(start, buffer);
    if (now == buffer.contents) continue;
    buffer.contents = std::move(now);
    buffer.by_kernel = by_kernel;
  }
}

void Trial::open() {
  if (options_.guard && calls_++ == 0) protect(PROT_READ | PROT_WRITE);
}

void Trial::close() {
  if (options_.guard && --calls_ == 0) protect(PROT_NONE);
}

void Trial::protect(int protection) {
  for (const auto& [start, buffer] : buffers_) {
    if (buffer.device) ::mprotect(reinterpret_cast<void*>(start), buffer.bytes, protection);
  }
}

Trial::Digest Trial::digest_contents(uint64_t start, const Buffer& buffer) {
  Digest digest;
  digest.add(reinterpret_cast<const char*>(start), buffer.bytes);
  return digest;
}

void Trial::check(uint64_t start, const Buffer& buffer) {
  if (options_.watch && buffer.device) host_writes_ += digest_of(start, buffer) != buffer.state;
}

void Trial::before_operation() {
  if (!options_.watch) return;
  for (const auto& [start, buffer] : buffers_) check(start, buffer);
}

void Trial::after_operation() {
  note_changes(false);
  if (!options_.watch) return;
  for (auto& [start, buffer] : buffers_) {
    if (buffer.device) buffer.state = digest_of(start, buffer);
  }
}

// Copies have the numbers of their submission, in whatever order deferred ones were made.
void Trial::number_copies() {
  std::vector<Entry*> copies;
  for (Entry& e : entries_) {
    if (e.kind == "copy") copies.push_back(&e);
  }
  std::sort(copies.begin(), copies.end(), [](const Entry* a, const Entry* b) {
    return std::pair(a->submission, a->index) < std::pair(b->submission, b->index);
  });
  for (size_t i = 0; i < copies.size(); ++i) copies[i]->index = i;
}

std::string Trial::render() {
  if (!options_.outputs) return "";
  open();
  release_all();
  number_copies();
  if (options_.watch) entries_.push_back({"host_writes", 0, host_writes_, 0, ""});
  if (rest_.bytes() != 0) entries_.push_back({"rest", 0, rest_.bytes(), 0, rest_.text()});
  if (file_ != nullptr) std::fflush(file_);
  std::string out;
  for (const Entry& e : entries_) {
    out += out.empty() ? "\n" : ",\n";
    out += "{\"kind\": \"" + e.kind + "\", \"index\": " + std::to_string(e.index) +
           ", \"bytes\": " + std::to_string(e.bytes) + ", \"recorded\": " + std::to_string(e.recorded) +
           ", \"digest\": \"" + e.digest + "\", \"uses\": [";
    for (const auto& [use, last] : e.origin.uses) {
      out += (out.back() == '[' ? "" : ", ");
      out += "{\"kernel\": " + json_string(use.first) + ", \"parameter\": " + std::to_string(use.second) +
             ", \"last\": " + std::to_string(last) + "}";
    }
    out += "], \"uploaded\": " + std::to_string(e.origin.uploaded) +
           ", \"written_at\": " + std::to_string(e.origin.written_at);
    if (e.origin.source >= 0) {
      out += ", \"source\": " + std::to_string(e.origin.source) + ", \"offset\": " + std::to_string(e.origin.offset);
    }
    out += ", \"inputs\": [";
    for (const uint64_t contents : e.origin.inputs) {
      out += (out.back() == '[' ? "" : ", ") + std::to_string(contents);
    }
    out += "]}";
  }
  return out;
}

}  // namespace hipsynth::runtime
