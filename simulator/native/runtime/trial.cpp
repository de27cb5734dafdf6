#include "trial.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace hipsynth::runtime {
namespace {

constexpr size_t kKeptEntries = 4096;  // later ones are digested together
constexpr size_t kLeastInput = 32;     // bytes; smaller inputs are sizes and flags rather than data

uint64_t mix(uint64_t x) {  // splitmix64
  x += 0x9e3779b97f4a7c15;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
  x = (x ^ x >> 27) * 0x94d049bb133111eb;
  return x ^ x >> 31;
}

template <typename T>
T load(const char* data, size_t i) {
  T value;
  std::memcpy(&value, data + i * sizeof(T), sizeof(T));
  return value;
}

// Whether all elements are floating-point numbers between 2^-range and 2^range, or zero, and some are not zero.
template <typename T>
bool floats(const char* data, size_t bytes, int mantissa, int bias, int range) {
  bool any = false;
  if (bytes % sizeof(T) != 0) return false;
  for (size_t i = 0; i < bytes / sizeof(T); ++i) {
    const T magnitude = static_cast<T>(load<T>(data, i) << 1) >> 1;
    const int exponent = static_cast<int>(magnitude >> mantissa) - bias;
    if (magnitude != 0 && (exponent < -range || exponent > range)) return false;
    any = any || magnitude != 0;
  }
  return any;
}

// Single-precision numbers with short mantissas also pass for pairs of halves, but then the lower half is zero.
bool halves(const char* data, size_t bytes) {
  if (bytes % 4 != 0 || !floats<uint16_t>(data, bytes, 10, 15, 10)) return false;
  for (size_t i = 0; i < bytes / 2; i += 2) {
    if (load<uint16_t>(data, i) != 0) return true;
  }
  return false;
}

double factor(uint64_t seed, size_t i) { return 0.75 + 0.5 * static_cast<double>(mix(seed ^ mix(i)) >> 11) * 0x1p-53; }

template <typename T>
void scale(char* data, size_t bytes, uint64_t seed) {
  for (size_t i = 0; i < bytes / sizeof(T); ++i) {
    const T value = static_cast<T>(static_cast<double>(load<T>(data, i)) * factor(seed, i));
    std::memcpy(data + i * sizeof(T), &value, sizeof(T));
  }
}

bool sorted(const char* data, size_t bytes) {
  for (size_t i = 1; i < bytes / 4; ++i) {
    if (load<uint32_t>(data, i) < load<uint32_t>(data, i - 1)) return false;
  }
  return true;
}

// The size of the elements that are permuted: words if all are small numbers, else pieces that hold whole elements.
size_t piece(const char* data, size_t bytes) {
  bool words = bytes % 4 == 0, doubles = bytes % 8 == 0;
  for (size_t i = 0; words && i < bytes / 4; ++i) words = load<uint32_t>(data, i) < 1u << 24;
  for (size_t i = 0; doubles && i < bytes / 8; ++i) doubles = load<uint64_t>(data, i) < 1ull << 40;
  return words ? 4 : doubles ? 8 : 16;
}

void permute(char* data, size_t bytes, uint64_t seed) {
  const size_t size = piece(data, bytes), count = bytes / size;
  for (size_t i = count; i > 1; --i) {
    const size_t other = mix(seed + i) % i;
    std::swap_ranges(data + (i - 1) * size, data + i * size, data + other * size);
  }
}

}  // namespace

void redraw(char* data, size_t bytes, uint64_t seed, bool integers) {
  if (bytes < kLeastInput) return;
  if (halves(data, bytes)) return scale<_Float16>(data, bytes, seed);
  if (floats<uint32_t>(data, bytes, 23, 127, 60)) return scale<float>(data, bytes, seed);
  if (floats<uint64_t>(data, bytes, 52, 1023, 60)) return scale<double>(data, bytes, seed);
  if (integers && !sorted(data, bytes)) permute(data, bytes, seed);
}

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

void Trial::keep(const char* kind, uint64_t index, const Digest& digest, uint64_t recorded) {
  if (entries_.size() < kKeptEntries) {
    entries_.push_back({kind, index, digest.bytes(), recorded, digest.text()});
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

void Trial::allocated(void* p, size_t bytes, bool device) {
  if (!on() || p == nullptr) return;
  if (options_.poison != 0) {
    for (size_t i = 0; i < bytes; ++i) static_cast<char*>(p)[i] = static_cast<char>(options_.poison >> 8 * (i % 4));
  }
  const auto start = reinterpret_cast<uint64_t>(p);
  Buffer& buffer = buffers_[start] = {allocations_++, bytes, false, device, ""};
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
    keep("buffer", found->second.index, digest, record(data, found->second.bytes));
  }
  buffers_.erase(found);
}

void Trial::release_all() {
  std::map<uint64_t, const void*> live;
  for (const auto& [start, buffer] : buffers_) live[buffer.index] = reinterpret_cast<const void*>(start);
  for (const auto& [index, p] : live) released(p);
}

void Trial::copied_to_host(const char* data, size_t bytes) {
  if (!options_.outputs) return;
  copy_.add(data, bytes);
  copy_recorded_ += record(data, bytes);
}

void Trial::end_of_copy() {
  if (copy_.bytes() == 0) return;
  keep("copy", copies_++, copy_, copy_recorded_);
  copy_ = Digest();
  copy_recorded_ = 0;
}

void Trial::copied_to_device(char* data, size_t bytes, bool continues) {
  if (options_.redraw == 0) return;
  inputs_ += !continues;
  redraw(data, bytes, mix(options_.redraw ^ mix(inputs_)), options_.redraw_integers);
  const auto after = buffers_.upper_bound(reinterpret_cast<uint64_t>(data));
  if (after != buffers_.begin()) std::prev(after)->second.drawn = true;
}

void Trial::before_launch() {
  if (options_.redraw == 0) return;
  for (auto& [start, buffer] : buffers_) {
    if (std::exchange(buffer.drawn, true)) continue;
    const uint64_t seed = mix(options_.redraw ^ mix(~buffer.index));
    redraw(reinterpret_cast<char*>(start), buffer.bytes, seed, options_.redraw_integers);
  }
}

std::string Trial::digest_of(uint64_t start, const Buffer& buffer) {
  Digest digest;
  digest.add(reinterpret_cast<const char*>(start), buffer.bytes);
  return digest.text();
}

void Trial::check(uint64_t start, const Buffer& buffer) {
  if (options_.watch && buffer.device) host_writes_ += digest_of(start, buffer) != buffer.state;
}

void Trial::before_operation() {
  if (!options_.watch) return;
  for (const auto& [start, buffer] : buffers_) check(start, buffer);
}

void Trial::after_operation() {
  if (!options_.watch) return;
  for (auto& [start, buffer] : buffers_) {
    if (buffer.device) buffer.state = digest_of(start, buffer);
  }
}

std::string Trial::render() {
  if (!options_.outputs) return "";
  release_all();
  if (options_.watch) entries_.push_back({"host_writes", 0, host_writes_, 0, ""});
  if (rest_.bytes() != 0) entries_.push_back({"rest", 0, rest_.bytes(), 0, rest_.text()});
  if (file_ != nullptr) std::fflush(file_);
  std::string out;
  for (const Entry& e : entries_) {
    out += out.empty() ? "\n" : ",\n";
    out += "{\"kind\": \"" + e.kind + "\", \"index\": " + std::to_string(e.index) +
           ", \"bytes\": " + std::to_string(e.bytes) + ", \"recorded\": " + std::to_string(e.recorded) +
           ", \"digest\": \"" + e.digest + "\"}";
  }
  return out;
}

}  // namespace hipsynth::runtime
