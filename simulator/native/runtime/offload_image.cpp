#include "offload_image.h"

#include <algorithm>
#include <cstring>

#include "host_memory.h"

namespace hipsynth::runtime {
namespace {

constexpr char kElfMagic[] =
    "\x7f"
    "ELF";
constexpr char kBundleMagic[] = "__CLANG_OFFLOAD_BUNDLE__";
constexpr size_t kBundleMagicSize = sizeof kBundleMagic - 1;
constexpr uint64_t kElfHeaderBytes = 64, kSectionBytes = 64;
constexpr uint64_t kMostEntries = 4096, kMostTripleBytes = 4096;  // limits for a plausible bundle

// An image of known size, or at a bare address limited by what is readable. Bytes outside read as zero.
class Bytes {
 public:
  explicit Bytes(const void* image) : p_(static_cast<const uint8_t*>(image)) {}
  explicit Bytes(const std::vector<uint8_t>& image) : p_(image.data()), size_(image.size()), sized_(true) {}
  bool covers(uint64_t offset, uint64_t bytes) const {
    if (offset + bytes < offset) return false;
    if (sized_) return offset + bytes <= size_;
    return reinterpret_cast<uintptr_t>(p_) + offset >= offset && host_readable(p_ + offset, bytes);
  }
  bool begins_with(const char* text, size_t size) const { return covers(0, size) && std::memcmp(p_, text, size) == 0; }
  template <typename T>
  T load(uint64_t offset) const {
    T value{};
    if (covers(offset, sizeof value)) std::memcpy(&value, p_ + offset, sizeof value);
    return value;
  }
  std::string text(uint64_t offset, uint64_t bytes) const {
    return covers(offset, bytes) ? std::string(reinterpret_cast<const char*>(p_ + offset), bytes) : "";
  }

 private:
  const uint8_t* p_;
  size_t size_ = 0;
  bool sized_ = false;
};

// End of a range, or 0 if it exceeds the image.
uint64_t end_of(const Bytes& image, uint64_t offset, uint64_t bytes) {
  return image.covers(offset, bytes) ? offset + bytes : 0;
}

// End of the section headers or of the last section's data, whichever is later; 0 if the image is truncated.
uint64_t elf_size(const Bytes& image) {
  constexpr uint32_t kNoBits = 8;
  const auto headers = image.load<uint64_t>(0x28);
  const auto entry = image.load<uint16_t>(0x3a), count = image.load<uint16_t>(0x3c);
  uint64_t end = end_of(image, headers, uint64_t{entry} * count);
  if (end < kElfHeaderBytes || entry < kSectionBytes) return 0;
  for (uint16_t i = 0; i < count; ++i) {
    const uint64_t section = headers + uint64_t{i} * entry;
    if (image.load<uint32_t>(section + 4) == kNoBits) continue;
    const auto offset = image.load<uint64_t>(section + 0x18), bytes = image.load<uint64_t>(section + 0x20);
    const uint64_t last = end_of(image, offset, bytes);
    if (last == 0 && bytes > 0) return 0;
    end = std::max(end, last);
  }
  return end;
}

struct BundleEntry {
  uint64_t offset, size;
  std::string triple;
};

// The entries of a bundle that are complete in the image.
std::vector<BundleEntry> bundle_entries(const Bytes& image) {
  std::vector<BundleEntry> entries;
  const uint64_t count = std::min(image.load<uint64_t>(kBundleMagicSize), kMostEntries);
  uint64_t at = kBundleMagicSize + 8;
  for (uint64_t i = 0; i < count && image.covers(at, 24); ++i) {
    BundleEntry entry{image.load<uint64_t>(at), image.load<uint64_t>(at + 8), ""};
    const uint64_t length = std::min(image.load<uint64_t>(at + 16), kMostTripleBytes);
    entry.triple = image.text(at + 24, length);
    at += 24 + length;
    if (image.covers(entry.offset, entry.size)) entries.push_back(std::move(entry));
  }
  return entries;
}

}  // namespace

size_t image_size(const void* image) {
  const Bytes bytes(image);
  if (bytes.begins_with(kElfMagic, 4)) return elf_size(bytes);
  if (!bytes.begins_with(kBundleMagic, kBundleMagicSize)) return 0;
  uint64_t end = 0;
  for (const BundleEntry& entry : bundle_entries(bytes)) end = std::max(end, entry.offset + entry.size);
  return end;
}

std::vector<uint8_t> extract_elf(const std::vector<uint8_t>& image, const std::string& arch) {
  const Bytes bytes(image);
  if (bytes.begins_with(kElfMagic, 4)) return image;
  if (!bytes.begins_with(kBundleMagic, kBundleMagicSize)) return {};
  for (const BundleEntry& entry : bundle_entries(bytes)) {
    bool device = entry.triple.starts_with("hip") && entry.triple.find(arch) != std::string::npos;
    if (device && entry.size > 0) {
      auto start = image.begin() + static_cast<ptrdiff_t>(entry.offset);
      return {start, start + static_cast<ptrdiff_t>(entry.size)};
    }
  }
  return {};
}

bool is_bundle(const std::vector<uint8_t>& image) { return Bytes(image).begins_with(kBundleMagic, kBundleMagicSize); }

}  // namespace hipsynth::runtime
